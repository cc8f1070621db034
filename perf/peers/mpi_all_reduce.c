/* Times an MPI library's all-reduce with the loop of loop.h.  Usage: mpi_all_reduce SIZES hot|fresh.  Compile with that
 * library's mpicc, run with its mpirun. */
#include <mpi.h>

#include "loop.h"

static void reduce(float* data, size_t count) {
  MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void slowest(double time_us, double* of_all) {
  MPI_Reduce(&time_us, of_all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
}

int main(int argument_count, char** arguments) {
  if (argument_count != 3) {
    fprintf(stderr, "usage: mpi_all_reduce SIZES hot|fresh\n");
    return 2;
  }
  int rank, ranks;
  MPI_Init(&argument_count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  float* data = malloc(largest(arguments[1]));
  if (!data) MPI_Abort(MPI_COMM_WORLD, 1);
  measure(data, arguments[1], strcmp(arguments[2], "fresh") == 0, rank, ranks);
  free(data);
  MPI_Finalize();
  return 0;
}
