// How a host that is gone is noticed: TCP's own probes, for sockets of both planes.
#pragma once

namespace rondo {

/// RONDO_HOST_TIMEOUT, read once a process.  Throws Error, the first time.
int host_timeout_s();

/// What a socket does while bytes of its own wait for the peer.
enum class Unread {
  is_death,  // after the timeout, too: the peer reads at all times, so only a host that is gone leaves bytes
  is_fine,   // the peer reads when it likes; whether its host is there is another socket's to tell
};

/// A TCP socket over which nothing has come for a quarter of the timeout asks the peer's kernel for a sign of life, and
/// fails when the timeout is over without one.  What cannot be set leaves the kernel's defaults: later, not wrong.
/// host_timeout_s() must have been asked before.
void keep_alive(int socket, Unread unread) noexcept;

}  // namespace rondo
