// Control sockets: see socket.h.
#include "control/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/env.h"
#include "base/keepalive.h"
#include "base/result.h"
#include "control/fork_guard.h"

namespace rondo::control {
namespace {

struct UnixAddress {
  sockaddr_un address = {};
  socklen_t bytes = 0;
};

/// An abstract address: a zero byte, then the name.  A name that is too long gives zero bytes, which the kernel
/// refuses.
UnixAddress abstract(const std::string& name) noexcept {
  UnixAddress result;
  if (name.empty() || name.size() > sizeof(result.address.sun_path) - 1) return result;
  result.address.sun_family = AF_UNIX;
  std::memcpy(result.address.sun_path + 1, name.data(), name.size());
  result.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

/// The same of an IP address.
struct IpAddress {
  explicit IpAddress(const Address& from) noexcept {
    if (from.six) {
      auto& six = reinterpret_cast<sockaddr_in6&>(storage);
      six.sin6_family = AF_INET6;
      six.sin6_port = htons(from.port);
      six.sin6_scope_id = from.scope;
      std::memcpy(&six.sin6_addr, from.ip.data(), 16);
      bytes = sizeof six;
    } else {
      auto& four = reinterpret_cast<sockaddr_in&>(storage);
      four.sin_family = AF_INET;
      four.sin_port = htons(from.port);
      std::memcpy(&four.sin_addr, from.ip.data(), 4);
      bytes = sizeof four;
    }
  }
  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr_storage storage = {};
  socklen_t bytes = 0;
};

Socket new_socket(int family) noexcept {
  keep_standard_descriptors();
  return Socket(ForkGuard::get().open([=] { return ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }));
}

/// Empties the socket but keeps errno.
void give_up(Socket& socket) noexcept {
  const int error = errno;
  socket.reset();
  errno = error;
}

bool set(const Socket& socket, int level, int option, int value) noexcept {
  return ::setsockopt(socket.get(), level, option, &value, sizeof value) == 0;
}

/// Listening on all addresses, or an empty socket with errno.  An IPv6 socket takes IPv4 too, unless one family is
/// asked for.
Socket listen_on_port(int family, bool both, std::uint16_t port) noexcept {
  Socket socket = new_socket(family);
  if (!socket) return socket;
  Address any;
  any.six = family == AF_INET6;
  any.port = port;
  const IpAddress address(any);
  const bool listens = (family != AF_INET6 || set(socket, IPPROTO_IPV6, IPV6_V6ONLY, both ? 0 : 1)) &&
                       set(socket, SOL_SOCKET, SO_REUSEADDR, 1) &&  // of connections that have ended
                       ::bind(socket.get(), address.get(), address.bytes) == 0 &&
                       ::listen(socket.get(), SOMAXCONN) == 0;
  if (!listens) give_up(socket);
  return socket;
}

std::uint16_t port_of(const Socket& socket) {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof address;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    throw_system_error("ask for the port of the control socket");
  }
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
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
  const UnixAddress address = abstract(name);
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
  const UnixAddress address = abstract(name);
  Socket socket = new_socket(AF_UNIX);
  if (!socket) return socket;
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.address), address.bytes) == 0) return socket;
  give_up(socket);
  return socket;
}

PortRange port_range() {
  const auto text = env::text("RONDO_PORT_RANGE");
  if (!text) return {};
  char* end = nullptr;
  const unsigned long first = std::strtoul(text->c_str(), &end, 10);
  const bool two = end != text->c_str() && *end == '-' && end[1] >= '0' && end[1] <= '9';
  const unsigned long last = two ? std::strtoul(end + 1, &end, 10) : 0;
  if (!two || *end != '\0' || first < 1 || last < first || last > 65535) {
    throw Error(Code::invalid_argument,
                "RONDO_PORT_RANGE=" + *text + " is not FIRST-LAST with ports from 1 to 65535, such as 40000-40099");
  }
  return {static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(last)};
}

Socket listen_on(const PortRange& range, const std::string& family, std::uint16_t& port) {
  const bool both = family.empty();
  int kind = family == "AF_INET" ? AF_INET : AF_INET6;
  for (unsigned next = range.first; next <= range.last; ++next) {
    Socket socket = listen_on_port(kind, both, static_cast<std::uint16_t>(next));
    if (!socket && both && kind == AF_INET6 && errno != EADDRINUSE && errno != EACCES) {
      kind = AF_INET;  // a kernel without IPv6
      socket = listen_on_port(kind, both, static_cast<std::uint16_t>(next));
    }
    if (socket) {
      port = port_of(socket);
      return socket;
    }
    if (errno != EADDRINUSE && errno != EACCES) throw_system_error("listen on TCP port " + std::to_string(next));
  }
  const std::string ports = std::to_string(range.first) + "-" + std::to_string(range.last);
  if (range.first == range.last) {
    throw Error(Code::system_error, "cannot listen on TCP port " + std::to_string(range.first) +
                                        ": it is taken, or this user may not; choose another");
  }
  throw Error(Code::system_error, "every TCP port of RONDO_PORT_RANGE=" + ports +
                                      " is taken: each process needs one, so set a wider range");
}

Socket begin_to_connect(const Address& address) noexcept {
  const IpAddress native(address);
  Socket socket = new_socket(address.six ? AF_INET6 : AF_INET);
  if (!socket) return socket;
  tune(socket);
  const int result = ::connect(socket.get(), native.get(), native.bytes);
  if (result != 0 && errno != EINPROGRESS && errno != EINTR) give_up(socket);
  return socket;
}

int outcome_of(const Socket& connecting) noexcept {
  int error = 0;
  socklen_t bytes = sizeof error;
  return ::getsockopt(connecting.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 ? error : errno;
}

void tune(const Socket& socket) noexcept {
  // What cannot be set leaves the kernel's default: slower, not wrong.
  (void)set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  keep_alive(socket.get(), Unread::is_death);
}

bool is_unix(const Socket& socket) noexcept {
  int domain = 0;
  socklen_t bytes = sizeof domain;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && domain == AF_UNIX;
}

Address peer_address(const Socket& socket) noexcept {
  sockaddr_storage storage = {};
  socklen_t bytes = sizeof storage;
  Address address;
  if (::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&storage), &bytes) != 0) return address;
  if (storage.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(storage);
    std::memcpy(address.ip.data(), &four.sin_addr, 4);
    address.port = ntohs(four.sin_port);
  } else if (storage.ss_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(storage);
    address.six = true;
    address.scope = six.sin6_scope_id;
    address.port = ntohs(six.sin6_port);
    std::memcpy(address.ip.data(), &six.sin6_addr, 16);
  }
  return unmapped(address);
}

Credentials peer_of(const Socket& socket) noexcept {
  ucred credentials = {};
  socklen_t bytes = sizeof(credentials);
  if (!is_unix(socket) || ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
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
