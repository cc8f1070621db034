// The shared-memory transport: ranks of one host, through a memfd segment for each pair, passed over a Unix socket.
#pragma once

#include <memory>

#include "base/nodes.h"
#include "transport.h"

namespace rondo {

/// `doorbell` is this process's: peers ring it.  `lanes`: 1, with a second one of small slots; or so many alike, with
/// 1 MiB of a pair's memory each.  The same on all ranks.  `node`: where this rank reads what others send it.
/// `crowded`: this host has fewer CPUs than ranks.
std::unique_ptr<Transport> make_shm_transport(class Doorbell& doorbell, int lanes = 1, int node = nodes::none,
                                              bool crowded = false);

}  // namespace rondo
