// Control sockets: abstract Unix and TCP stream sockets, non-blocking, close-on-exec, listed with the fork guard.
//
// Everything above sees only streams of bytes, and credentials and descriptors where the kernel passes them: on Unix
// sockets alone.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>

#include "base/descriptor.h"
#include "control/address.h"

namespace rondo::control {

/// Owns a control socket.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) noexcept : fd_(fd) {}  // one that ForkGuard::open gave
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { reset(); }
  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  void reset() noexcept;

 private:
  int fd_ = -1;
};

/// Listens on the abstract name.  Throws Error; EADDRINUSE becomes Error(invalid_usage).
Socket listen_on(const std::string& name);
/// The next connection, or an empty socket with errno.
Socket accept_from(const Socket& listener) noexcept;
/// Connects at once, or an empty socket with errno: ECONNREFUSED (nobody listens), EAGAIN (the queue is full).
Socket connect_to(const std::string& name) noexcept;

/// Ports to listen on, both included; 0 to 0: the kernel chooses one.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
};
/// RONDO_PORT_RANGE.  Throws Error.
PortRange port_range();
/// Listens on all addresses of this host, or on those of one family ("AF_INET", "AF_INET6"; "": both), on the first
/// free port of the range, and says which.  Throws Error: no port is free.
Socket listen_on(const PortRange& range, const std::string& family, std::uint16_t& port);
/// Begins to connect; the socket is writable when it has ended, and outcome_of() then says how.  Or an empty socket
/// with errno.
Socket begin_to_connect(const Address& address) noexcept;
/// 0, or what went wrong.
int outcome_of(const Socket& connecting) noexcept;
/// Small frames leave at once, and a host that is gone is noticed (see base/keepalive.h).  For TCP sockets.
void tune(const Socket& socket) noexcept;
bool is_unix(const Socket& socket) noexcept;
/// Of the other side of a TCP socket; an empty one where there is none.
Address peer_address(const Socket& socket) noexcept;

struct Credentials {
  pid_t pid = 0;  // 0: not visible from here
  uid_t uid = 0;
};
Credentials peer_of(const Socket& socket) noexcept;
/// Whether the peer runs as this user, or as root.
bool is_own_user(const Credentials& peer) noexcept;
/// A descriptor that becomes readable when the process ends; empty where the kernel has none.
Descriptor watch_process(pid_t pid) noexcept;

}  // namespace rondo::control
