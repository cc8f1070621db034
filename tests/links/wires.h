// Wires for tests: frames between two connections of one process, delivered when the test says; and between two
// processes, over a socket pair.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <mutex>
#include <stdexcept>

#include "transport.h"

namespace links {

/// Keeps what is sent until deliver().
class QueueWire final : public rondo::Wire {
 public:
  void send(std::uint16_t kind, std::span<const std::byte> body, std::span<const int> descriptors) override {
    rondo::Frame frame{kind, {body.begin(), body.end()}, {}};
    for (const int fd : descriptors) frame.descriptors.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    const std::lock_guard lock(mutex_);
    frames_.push_back(std::move(frame));
  }
  /// Takes the oldest frame; false if there is none.
  bool take(rondo::Frame& frame) {
    const std::lock_guard lock(mutex_);
    if (frames_.empty()) return false;
    frame = std::move(frames_.front());
    frames_.pop_front();
    return true;
  }

 private:
  std::mutex mutex_;
  std::deque<rondo::Frame> frames_;
};

/// One side of a sequenced-packet socket pair: a frame is a packet.
class SocketWire final : public rondo::Wire {
 public:
  explicit SocketWire(rondo::Descriptor socket) : socket_(std::move(socket)) {}

  void send(std::uint16_t kind, std::span<const std::byte> body, std::span<const int> descriptors) override {
    alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {};
    iovec parts[2] = {{&kind, sizeof kind}, {const_cast<std::byte*>(body.data()), body.size()}};
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    if (!descriptors.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
      std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
    }
    if (::sendmsg(socket_.get(), &message, MSG_NOSIGNAL) < 0) throw std::runtime_error("sendmsg");
  }

  /// Takes a frame if there is one; waits for one if `wait`.  False: none, or the peer has closed.
  bool take(rondo::Frame& frame, bool wait) {
    std::byte body[512];
    std::uint16_t kind = 0;
    alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {};
    iovec parts[2] = {{&kind, sizeof kind}, {body, sizeof body}};
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t bytes = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
    if (bytes < static_cast<ssize_t>(sizeof kind)) return false;
    frame = {kind, {body, body + bytes - sizeof kind}, {}};
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
        frame.descriptors.emplace_back(fd);
      }
    }
    return true;
  }

 private:
  rondo::Descriptor socket_;
};

}  // namespace links
