// A wire for tests: frames between two connections of one process, delivered when the test says.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <deque>
#include <mutex>
#include <utility>

#include "transport.h"

namespace links {

/// Two ends of a TCP connection over 127.0.0.1.  `send_bytes`: the size of their send buffers, 0: the kernel's choice.
inline std::pair<rondo::Descriptor, rondo::Descriptor> loopback_sockets(int send_bytes = 0) {
  const auto checked = [](int result) {
    if (result < 0) rondo::throw_system_error("loopback sockets");
    return result;
  };
  const rondo::Descriptor listener(checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t bytes = sizeof address;
  checked(::bind(listener.get(), generic, bytes));
  checked(::listen(listener.get(), 1));
  checked(::getsockname(listener.get(), generic, &bytes));
  rondo::Descriptor first(checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  checked(::connect(first.get(), generic, bytes));
  rondo::Descriptor second(checked(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  for (const rondo::Descriptor* socket : {&first, &second}) {
    if (send_bytes > 0) checked(::setsockopt(socket->get(), SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof send_bytes));
  }
  return {std::move(first), std::move(second)};
}

/// Keeps what is sent until the test takes it.
class QueueWire final : public rondo::Wire {
 public:
  void send(std::uint16_t kind, std::span<const std::byte> body, std::span<const int> descriptors) override {
    rondo::Frame frame{kind, {body.begin(), body.end()}, {}};
    for (const int fd : descriptors) frame.descriptors.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    const std::lock_guard lock(mutex_);
    frames_.push_back(std::move(frame));
  }
  void connect_sockets(int count) override {
    for (int i = 0; i < count; ++i) {
      const rondo::SocketPlace place{static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(count)};
      auto [mine, theirs] = loopback_sockets();
      const std::lock_guard lock(mutex_);
      frames_.push_back(rondo::make_socket_frame(place, std::move(theirs)));
      own_frames_.push_back(rondo::make_socket_frame(place, std::move(mine)));
    }
  }
  /// Takes the oldest frame for the peer; false if there is none.
  bool take(rondo::Frame& frame) { return take(frames_, frame); }
  /// And for this side.
  bool take_own(rondo::Frame& frame) { return take(own_frames_, frame); }

 private:
  bool take(std::deque<rondo::Frame>& frames, rondo::Frame& frame) {
    const std::lock_guard lock(mutex_);
    if (frames.empty()) return false;
    frame = std::move(frames.front());
    frames.pop_front();
    return true;
  }
  std::mutex mutex_;
  std::deque<rondo::Frame> frames_;
  std::deque<rondo::Frame> own_frames_;
};

}  // namespace links
