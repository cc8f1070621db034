// A wire for tests: frames between two connections of one process, delivered when the test says.
#pragma once

#include <fcntl.h>

#include <deque>
#include <mutex>

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

}  // namespace links
