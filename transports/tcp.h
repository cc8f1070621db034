// The TCP transport: any two ranks that can reach each other by IP, over sockets that the control plane connects.
#pragma once

#include <memory>

#include "transport.h"

namespace rondo {

/// `sockets_per_link`: messages go round over this many sockets for each peer and lane (1..64).
std::unique_ptr<Transport> make_tcp_transport(class Doorbell& doorbell, int sockets_per_link);

}  // namespace rondo
