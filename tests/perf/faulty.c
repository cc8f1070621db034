/* An all-reduce with a fault, put in front of the library by LD_PRELOAD: the canary of the performance programs'
 * checks.  FAULT names it; calls of fewer than 16 elements (barriers) are left alone. */
#include <stdlib.h>
#include <string.h>

#include "runtime/nccl.h"

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  const char* fault = getenv("FAULT");
  if (count >= 16 && fault && strcmp(fault, "fails") == 0) return ncclInternalError;
  const ncclResult_t result = pncclAllReduce(send, receive, count, type, op, comm, stream);
  if (result != ncclSuccess || count < 16 || !fault) return result;
  int rank = 0;
  ncclCommUserRank(comm, &rank);
  unsigned char* bytes = receive;
  if (strcmp(fault, "wrong") == 0) bytes[0] ^= 1;
  if (strcmp(fault, "beyond") == 0) bytes[count * sizeof(float)] ^= 1;
  if (strcmp(fault, "before") == 0) bytes[-1] ^= 1;
  if (strcmp(fault, "send") == 0) memset((void*)send, 1, 4);
  if (strcmp(fault, "differs") == 0 && rank == 1) bytes[0] ^= 1;
  return result;
}
