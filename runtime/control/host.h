// Which host a process is on, and which of its CPUs a thread may use: for the choice of plans and of the first way
// tried.  Whether memory is shared is found by a probe, never by this.
#pragma once

#include <cstdint>

namespace rondo::control {

/// Equal in processes of one kernel and one network namespace; with NCCL_HOSTID, in those that set it alike.
std::uint64_t host_key();

/// CPUs that a thread may use.
struct Cpus {
  std::uint64_t key = 0;  // equal for equal sets
  std::uint16_t count = 0;
};
Cpus cpus_of_this_thread();

}  // namespace rondo::control
