// Frames between two processes over a socket pair of sequenced packets: the wire of the links benchmark and of the
// process tests.  One packet a frame, descriptors beside it; both sides in blocking mode.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "transport.h"

namespace perf {

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

  void connect_sockets(int) override { throw std::runtime_error("this wire connects no sockets"); }

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

}  // namespace perf
