// Ranks as threads of one process.
#include "replicas.h"

#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "handles.h"
#include "layer.h"

namespace rondo::data_parallel {

void run_replicas(int count, const std::function<void(int rank, ncclComm_t comm)>& body) {
  if (count < 1) throw Error("there must be at least one replica");
  std::vector<ncclComm_t> comms(static_cast<std::size_t>(count));
  require(ncclCommInitAll(comms.data(), count, nullptr), nullptr, "join the replicas");
  std::mutex mutex;
  std::exception_ptr first;
  const auto run = [&](int rank) {
    ncclComm_t& comm = comms[static_cast<std::size_t>(rank)];
    try {
      body(rank, comm);
    } catch (...) {
      {
        const std::lock_guard lock(mutex);
        if (first == nullptr) first = std::current_exception();
      }
      static_cast<void>(ncclCommAbort(std::exchange(comm, nullptr)));
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 1; rank < count; ++rank) threads.emplace_back(run, rank);
  run(0);
  for (std::thread& thread : threads) thread.join();
  static_cast<void>(ncclGroupStart());
  for (const ncclComm_t comm : comms) static_cast<void>(ncclCommDestroy(comm));
  const ncclResult_t ended = ncclGroupEnd();
  if (first != nullptr) std::rethrow_exception(first);
  require(ended, nullptr, "end the replicas");
}

void scatter(ncclComm_t comm, const void* whole, void* part, std::size_t part_bytes) {
  require(ncclScatter(whole, part, part_bytes, ncclUint8, 0, comm, nullptr), comm, "scatter a batch");
}

}  // namespace rondo::data_parallel
