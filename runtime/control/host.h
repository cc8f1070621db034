// Which host a process is on: for the choice of plans and of the first way tried.  Whether memory is shared is found by
// a probe, never by this.
#pragma once

#include <cstdint>

namespace rondo::control {

/// Equal in processes of one kernel and one network namespace; with NCCL_HOSTID, in those that set it alike.
std::uint64_t host_key();

}  // namespace rondo::control
