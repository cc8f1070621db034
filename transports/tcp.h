// The TCP transport: any two ranks that can reach each other by IP, over sockets that the control plane connects.
#pragma once

#include <memory>

#include "base/limits.h"
#include "transport.h"

namespace rondo {

/// `sockets`: messages go round over `per_link` sockets for each peer and lane (1..64), which `threads` serve (1..16):
/// the one that makes a call, and helpers that the transport starts with its first link (tcp_helpers.h).
std::unique_ptr<Transport> make_tcp_transport(class Doorbell& doorbell, limits::TcpSockets sockets);

}  // namespace rondo
