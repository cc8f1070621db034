// Control sockets: abstract Unix stream sockets, and the TCP sockets of a set-up; non-blocking, close-on-exec, listed
// with the fork guard.
//
// The one file to change when control connections also run over TCP: everything above sees only streams of bytes, and
// credentials where the kernel vouches for them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>

#include "base/descriptor.h"

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

/// Listens on a TCP port of 127.0.0.1 that the kernel chooses.  Throws Error.
Socket listen_on_loopback(std::uint16_t& port);
/// Begins to connect; writable when it has ended.  Or an empty socket with errno.
Socket connect_to_loopback(std::uint16_t port) noexcept;

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
