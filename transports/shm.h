// The shared-memory transport: ranks of one host, through a memfd segment for each pair, passed over a Unix socket.
#pragma once

#include <memory>

#include "transport.h"

namespace rondo {

/// `doorbell` is this process's: peers ring it.
std::unique_ptr<Transport> make_shm_transport(class Doorbell& doorbell);

}  // namespace rondo
