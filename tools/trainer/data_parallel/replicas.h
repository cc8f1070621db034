// Ranks as threads of one process, for training with a replica of the model per thread: rank 0 reads the data and
// scatters it, gathers gradients, updates and sends the parameters back (Mode::server).
#pragma once

#include <cstddef>
#include <functional>

#include "nccl.h"

namespace rondo::data_parallel {

/// Runs `body(rank, comm)` in `count` threads, the ranks of a communicator that lives as long as the call.  What a body
/// throws ends the calls of the others with an error; the exception that was thrown first is thrown again.
void run_replicas(int count, const std::function<void(int rank, ncclComm_t comm)>& body);

/// part = this rank's of the equal parts of rank 0's `whole`, which others need not have.
void scatter(ncclComm_t comm, const void* whole, void* part, std::size_t part_bytes);

}  // namespace rondo::data_parallel
