/* Times Rondo's all-reduce with the loop of loop.h, by nothing but the public interface.  Usage: rondo_all_reduce SIZES
 * hot|fresh plain|alloc, under `rondo run`.  plain: a buffer from malloc; alloc: from ncclMemAlloc. */
#include "loop.h"
#include "runtime/rondo.h"

static ncclComm_t communicator;

static void check(ncclResult_t result, const char* doing) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "%s: %s: %s\n", doing, ncclGetErrorString(result), ncclGetLastError(NULL));
  exit(1);
}

static void reduce(float* data, size_t count) {
  check(ncclAllReduce(data, data, count, ncclFloat32, ncclSum, communicator, NULL), "ncclAllReduce");
}
static void barrier(void) {
  float one = 1;
  check(ncclAllReduce(&one, &one, 1, ncclFloat32, ncclSum, communicator, NULL), "ncclAllReduce");
}
static void slowest(double time_us, double* of_all) {
  check(ncclAllReduce(&time_us, of_all, 1, ncclFloat64, ncclMax, communicator, NULL), "ncclAllReduce");
}

int main(int argument_count, char** arguments) {
  if (argument_count != 4) {
    fprintf(stderr, "usage: rondo_all_reduce SIZES hot|fresh plain|alloc\n");
    return 2;
  }
  int rank, ranks;
  check(rondoCommInitFromEnv(&communicator), "rondoCommInitFromEnv");
  check(ncclCommUserRank(communicator, &rank), "ncclCommUserRank");
  check(ncclCommCount(communicator, &ranks), "ncclCommCount");
  const size_t bytes = largest(arguments[1]);
  const int alloc = strcmp(arguments[3], "alloc") == 0;
  void* data = NULL;
  if (alloc)
    check(ncclMemAlloc(&data, bytes), "ncclMemAlloc");
  else
    data = malloc(bytes);
  if (!data) return 1;
  measure(data, arguments[1], strcmp(arguments[2], "fresh") == 0, rank, ranks);
  check(ncclCommDestroy(communicator), "ncclCommDestroy");
  if (alloc)
    check(ncclMemFree(data), "ncclMemFree");
  else
    free(data);
  return 0;
}
