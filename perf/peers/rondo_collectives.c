/* Times Rondo's collectives with the loop of loop.h, by nothing but the public interface.  Usage: rondo_collectives
 * COLLECTIVES SIZES hot|fresh plain|alloc, under `rondo run`.  plain: buffers from malloc; alloc: from ncclMemAlloc. */
#include "loop.h"
#include "runtime/rondo.h"

static ncclComm_t communicator;

static void check(ncclResult_t result, const char* doing) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "%s: %s: %s\n", doing, ncclGetErrorString(result), ncclGetLastError(NULL));
  exit(1);
}

static ncclResult_t exchange(const struct Work* work) {
  const int next = (work->rank + 1) % work->ranks, before = (work->rank + work->ranks - 1) % work->ranks;
  check(ncclGroupStart(), "ncclGroupStart");
  check(ncclSend(work->source, work->count, ncclFloat32, next, communicator, NULL), "ncclSend");
  check(ncclRecv(work->target, work->count, ncclFloat32, before, communicator, NULL), "ncclRecv");
  return ncclGroupEnd();
}

/* Between a pair of ranks; the even one begins. */
static ncclResult_t pair(const struct Work* work, int sends, int at_once) {
  const int partner = work->rank ^ 1, first = work->rank % 2 == 0;
  const size_t answer = sends == 1 ? work->count : 1;
  if (at_once) check(ncclGroupStart(), "ncclGroupStart");
  for (int i = 0; i < sends; ++i) {
    check(first ? ncclSend(work->source, work->count, ncclFloat32, partner, communicator, NULL)
                : ncclRecv(work->target, work->count, ncclFloat32, partner, communicator, NULL),
          first ? "ncclSend" : "ncclRecv");
  }
  if (at_once) check(ncclGroupEnd(), "ncclGroupEnd");
  return first ? ncclRecv(work->target, answer, ncclFloat32, partner, communicator, NULL)
               : ncclSend(work->source, answer, ncclFloat32, partner, communicator, NULL);
}

static ncclResult_t together(const struct Work* work) {
  check(ncclGroupStart(), "ncclGroupStart");
  for (size_t i = 0; i < messages; ++i) {
    float* part = work->target + i * work->count;
    check(ncclAllReduce(part, part, work->count, ncclFloat32, ncclSum, communicator, NULL), "ncclAllReduce");
  }
  return ncclGroupEnd();
}

static ncclResult_t call(const struct Work* work) {
  const float* source = work->source;
  float* target = work->target;
  const size_t count = work->count;
  switch (work->what) {
    case all_reduce: return ncclAllReduce(source, target, count, ncclFloat32, ncclSum, communicator, NULL);
    case reduce_scatter: return ncclReduceScatter(source, target, count, ncclFloat32, ncclSum, communicator, NULL);
    case all_gather: return ncclAllGather(source, target, count, ncclFloat32, communicator, NULL);
    case broadcast: return ncclBroadcast(source, target, count, ncclFloat32, 0, communicator, NULL);
    case reduce: return ncclReduce(source, target, count, ncclFloat32, ncclSum, 0, communicator, NULL);
    case gather: return ncclGather(source, target, count, ncclFloat32, 0, communicator, NULL);
    case scatter: return ncclScatter(source, target, count, ncclFloat32, 0, communicator, NULL);
    case alltoall: return ncclAlltoAll(source, target, count, ncclFloat32, communicator, NULL);
    case sendrecv: return exchange(work);
    case grouped: return together(work);
    case pingpong: return pair(work, 1, 0);
    case stream: return pair(work, messages, 0);
    case window: return pair(work, messages, 1);
  }
  return ncclInvalidArgument;
}
static void run(const struct Work* work) { check(call(work), collective_names[work->what]); }
static void barrier(void) {
  float one = 1;
  check(ncclAllReduce(&one, &one, 1, ncclFloat32, ncclSum, communicator, NULL), "ncclAllReduce");
}
static void slowest(double time_us, double* of_all) {
  check(ncclAllReduce(&time_us, of_all, 1, ncclFloat64, ncclMax, communicator, NULL), "ncclAllReduce");
}

static float* buffer(size_t bytes, int alloc) {
  void* data = NULL;
  if (alloc)
    check(ncclMemAlloc(&data, bytes), "ncclMemAlloc");
  else
    data = malloc(bytes);
  if (!data) exit(1);
  return data;
}
static void give_back(float* data, int alloc) {
  if (alloc)
    check(ncclMemFree(data), "ncclMemFree");
  else
    free(data);
}

int main(int argument_count, char** arguments) {
  if (argument_count != 5) {
    fprintf(stderr, "usage: rondo_collectives COLLECTIVES SIZES hot|fresh plain|alloc\n");
    return 2;
  }
  int rank, ranks;
  check(rondoCommInitFromEnv(&communicator), "rondoCommInitFromEnv");
  check(ncclCommUserRank(communicator, &rank), "ncclCommUserRank");
  check(ncclCommCount(communicator, &ranks), "ncclCommCount");
  const size_t bytes = room(arguments[2], ranks) * (strstr(arguments[1], "grouped") ? messages : 1);
  const int alloc = strcmp(arguments[4], "alloc") == 0;
  float *source = buffer(bytes, alloc), *target = buffer(bytes, alloc);
  measure(arguments[1], arguments[2], strcmp(arguments[3], "fresh") == 0, rank, ranks, source, target);
  check(ncclCommDestroy(communicator), "ncclCommDestroy");
  give_back(source, alloc);
  give_back(target, alloc);
  return 0;
}
