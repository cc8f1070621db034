// Times oneCCL's all-reduce on host memory with the loop of loop.h.  Usage: ccl_all_reduce all_reduce SIZES hot|fresh,
// under Intel MPI's launcher, whose library also spreads oneCCL's address and keeps the ranks in step.
#include <mpi.h>

#include <oneapi/ccl.hpp>
#include <optional>
#include <vector>

#include "loop.h"

static std::optional<ccl::communicator> communicator;

static void run(const struct Work* work) {
  ccl::allreduce(work->target, work->target, work->count, ccl::reduction::sum, *communicator).wait();
}
static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void slowest(double time_us, double* of_all) {
  MPI_Reduce(&time_us, of_all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
}

int main(int argument_count, char** arguments) {
  if (argument_count < 4 || strcmp(arguments[1], "all_reduce") != 0) {
    fprintf(stderr, "usage: ccl_all_reduce all_reduce SIZES hot|fresh\n");
    return 2;
  }
  ccl::init();
  MPI_Init(&argument_count, &arguments);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  ccl::shared_ptr_class<ccl::kvs> store;
  ccl::kvs::address_type address;
  if (rank == 0) {
    store = ccl::create_main_kvs();
    address = store->get_address();
  }
  MPI_Bcast(address.data(), static_cast<int>(address.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
  if (rank != 0) store = ccl::create_kvs(address);
  communicator.emplace(ccl::create_communicator(ranks, rank, store));
  std::vector<float> data(room(arguments[2], ranks) / sizeof(float));
  measure(arguments[1], arguments[2], strcmp(arguments[3], "fresh") == 0, rank, ranks, data.data(), nullptr);
  communicator.reset();
  MPI_Finalize();
  return 0;
}
