// The TCP transport: any two ranks that can reach each other by IP, over sockets that the control plane connects.
#pragma once

#include <memory>
#include <string>

#include "base/limits.h"
#include "tcp_zero_copy.h"
#include "transport.h"

namespace rondo {

/// `sockets`: messages go round over `per_link` sockets for each peer and lane (1..64; 2..16 lanes), which `threads`
/// serve (1..16): the one that makes a call, and helpers that the transport starts with its first link
/// (tcp_helpers.h).
/// `congestion`: the algorithm of congestion control that the sockets use; "": the kernel's choice, but Reno in
/// place of BBR and CUBIC on short ways.  `zero_copy`: whether large messages are sent without a copy by the kernel.
std::unique_ptr<Transport> make_tcp_transport(class Doorbell& doorbell, limits::TcpSockets sockets,
                                              std::string congestion = "",
                                              tcp::ZeroCopyUse zero_copy = tcp::ZeroCopyUse::off);

}  // namespace rondo
