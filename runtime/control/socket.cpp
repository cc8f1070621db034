// Control sockets: see socket.h.
#include "control/socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/result.h"
#include "control/fork_guard.h"

namespace rondo::control {
namespace {

struct Address {
  sockaddr_un address = {};
  socklen_t bytes = 0;
};

/// An abstract address: a zero byte, then the name.  A name that is too long gives zero bytes, which the kernel
/// refuses.
Address abstract(const std::string& name) noexcept {
  Address result;
  if (name.empty() || name.size() > sizeof(result.address.sun_path) - 1) return result;
  result.address.sun_family = AF_UNIX;
  std::memcpy(result.address.sun_path + 1, name.data(), name.size());
  result.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

Socket new_socket(int family) noexcept {
  return Socket(
      ForkGuard::get().open([=] { return ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }));
}

sockaddr_in loopback(std::uint16_t port) noexcept {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Socket::reset() noexcept {
  if (fd_ >= 0) ForkGuard::get().close(std::exchange(fd_, -1));
}

Socket listen_on(const std::string& name) {
  const Address address = abstract(name);
  Socket socket = new_socket(AF_UNIX);
  if (!socket) throw_system_error("create the control socket");
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.address), address.bytes) != 0) {
    if (errno == EADDRINUSE) {
      throw Error(Code::invalid_usage, "the rendezvous name '" + name +
                                           "' is taken on this host: another job or another rank 0 uses it; give each "
                                           "job its own name");
    }
    throw_system_error("bind the control socket");
  }
  if (::listen(socket.get(), SOMAXCONN) != 0) throw_system_error("listen on the control socket");
  return socket;
}

Socket accept_from(const Socket& listener) noexcept {
  return Socket(ForkGuard::get().open([&] {
    int fd = -1;
    do {
      fd = ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    } while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
    return fd;
  }));
}

Socket connect_to(const std::string& name) noexcept {
  const Address address = abstract(name);
  Socket socket = new_socket(AF_UNIX);
  if (!socket) return socket;
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.address), address.bytes) == 0) return socket;
  const int error = errno;
  socket.reset();
  errno = error;
  return socket;
}

Socket listen_on_loopback(std::uint16_t& port) {
  sockaddr_in address = loopback(0);
  socklen_t bytes = sizeof(address);
  Socket socket = new_socket(AF_INET);
  if (!socket) throw_system_error("create a TCP socket");
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(socket.get(), generic, bytes) != 0) throw_system_error("bind a TCP socket to 127.0.0.1");
  if (::listen(socket.get(), SOMAXCONN) != 0) throw_system_error("listen on 127.0.0.1");
  if (::getsockname(socket.get(), generic, &bytes) != 0) throw_system_error("ask for a socket's port");
  port = ntohs(address.sin_port);
  return socket;
}

Socket connect_to_loopback(std::uint16_t port) noexcept {
  const sockaddr_in address = loopback(port);
  Socket socket = new_socket(AF_INET);
  if (!socket) return socket;
  const int result = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  if (result == 0 || errno == EINPROGRESS || errno == EINTR) return socket;
  const int error = errno;
  socket.reset();
  errno = error;
  return socket;
}

Credentials peer_of(const Socket& socket) noexcept {
  ucred credentials = {};
  socklen_t bytes = sizeof(credentials);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
    return {0, static_cast<uid_t>(-1)};
  }
  return {credentials.pid, credentials.uid};
}

bool is_own_user(const Credentials& peer) noexcept { return peer.uid == ::geteuid() || peer.uid == 0; }

Descriptor watch_process(pid_t pid) noexcept {
  if (pid <= 0) return {};
  return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

}  // namespace rondo::control
