/* The smallest program: each rank gives its number, and every rank gets the sum. */
#include <stdio.h>
#include <stdlib.h>

#include "nccl.h"
#include "rondo.h"

int main(void) {
  ncclComm_t comm;
  int rank, ranks;
  float* data = malloc(sizeof *data);
  if (rondoCommInitFromEnv(&comm) != ncclSuccess) return puts(ncclGetLastError(NULL)), 1;
  ncclCommUserRank(comm, &rank);
  ncclCommCount(comm, &ranks);
  *data = rank;
  if (ncclAllReduce(data, data, 1, ncclFloat, ncclSum, comm, NULL) != ncclSuccess) return 1;
  printf("rank %d of %d: the sum is %g\n", rank, ranks, *data);
  ncclCommDestroy(comm);
  free(data);
  return 0;
}
