/* Times an MPI library's collectives with the loop of loop.h.  Usage: mpi_collectives COLLECTIVES SIZES hot|fresh.
 * Compile with that library's mpicc, run with its mpirun. */
#include <mpi.h>

#include "loop.h"

/* Between a pair of ranks; the even one begins. */
static void pair(const struct Work* work, int sends, int at_once) {
  const int partner = work->rank ^ 1, answer = sends == 1 ? (int)work->count : 1;
  const MPI_Comm world = MPI_COMM_WORLD;
  MPI_Request requests[messages];
  MPI_Status statuses[messages];
  if (work->rank % 2 != 0) {
    for (int i = 0; i < sends; ++i) {
      if (at_once)
        MPI_Irecv(work->target, (int)work->count, MPI_FLOAT, partner, 0, world, &requests[i]);
      else
        MPI_Recv(work->target, (int)work->count, MPI_FLOAT, partner, 0, world, MPI_STATUS_IGNORE);
    }
    if (at_once) MPI_Waitall(sends, requests, statuses);
    MPI_Send(work->source, answer, MPI_FLOAT, partner, 0, world);
    return;
  }
  for (int i = 0; i < sends; ++i) {
    if (at_once)
      MPI_Isend(work->source, (int)work->count, MPI_FLOAT, partner, 0, world, &requests[i]);
    else
      MPI_Send(work->source, (int)work->count, MPI_FLOAT, partner, 0, world);
  }
  if (at_once) MPI_Waitall(sends, requests, statuses);
  MPI_Recv(work->target, answer, MPI_FLOAT, partner, 0, world, MPI_STATUS_IGNORE);
}

static void together(const struct Work* work) {
  MPI_Request requests[messages];
  MPI_Status statuses[messages];
  for (size_t i = 0; i < messages; ++i) {
    float* part = work->target + i * work->count;
    MPI_Iallreduce(MPI_IN_PLACE, part, (int)work->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &requests[i]);
  }
  MPI_Waitall(messages, requests, statuses);
}

static void run(const struct Work* work) {
  float *source = work->source, *target = work->target;
  const int count = (int)work->count, next = (work->rank + 1) % work->ranks;
  const int before = (work->rank + work->ranks - 1) % work->ranks;
  const MPI_Comm world = MPI_COMM_WORLD;
  switch (work->what) {
    case all_reduce: MPI_Allreduce(MPI_IN_PLACE, target, count, MPI_FLOAT, MPI_SUM, world); break;
    case reduce_scatter: MPI_Reduce_scatter_block(source, target, count, MPI_FLOAT, MPI_SUM, world); break;
    case all_gather: MPI_Allgather(source, count, MPI_FLOAT, target, count, MPI_FLOAT, world); break;
    case broadcast: MPI_Bcast(target, count, MPI_FLOAT, 0, world); break;
    case reduce: MPI_Reduce(source, target, count, MPI_FLOAT, MPI_SUM, 0, world); break;
    case gather: MPI_Gather(source, count, MPI_FLOAT, target, count, MPI_FLOAT, 0, world); break;
    case scatter: MPI_Scatter(source, count, MPI_FLOAT, target, count, MPI_FLOAT, 0, world); break;
    case alltoall: MPI_Alltoall(source, count, MPI_FLOAT, target, count, MPI_FLOAT, world); break;
    case sendrecv:
      MPI_Sendrecv(source, count, MPI_FLOAT, next, 0, target, count, MPI_FLOAT, before, 0, world, MPI_STATUS_IGNORE);
      break;
    case grouped: together(work); break;
    case pingpong: pair(work, 1, 0); break;
    case stream: pair(work, messages, 0); break;
    case window: pair(work, messages, 1); break;
  }
}
static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void slowest(double time_us, double* of_all) {
  MPI_Reduce(&time_us, of_all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
}

int main(int argument_count, char** arguments) {
  if (argument_count != 4) {
    fprintf(stderr, "usage: mpi_collectives COLLECTIVES SIZES hot|fresh\n");
    return 2;
  }
  int rank, ranks;
  MPI_Init(&argument_count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const size_t bytes = room(arguments[2], ranks) * (strstr(arguments[1], "grouped") ? messages : 1);
  float *source = malloc(bytes), *target = malloc(bytes);
  if (!source || !target) MPI_Abort(MPI_COMM_WORLD, 1);
  measure(arguments[1], arguments[2], strcmp(arguments[3], "fresh") == 0, rank, ranks, source, target);
  free(source);
  free(target);
  MPI_Finalize();
  return 0;
}
