// Sockets that a thread sleeps on: of ends of links that move only when they are asked, and ring no doorbell.
//
// A value of a fixed size, made anew for each sleep.  Where not all that may happen shows on a socket of the set, or
// not all fit, it is incomplete, and its owner must sleep in another way.
#pragma once

#include <poll.h>

#include <array>
#include <cstddef>
#include <ctime>
#include <span>

#include "base/limits.h"

namespace rondo {

class Wakeups {
 public:
  /// `events`: as poll() has them.
  void add(int descriptor, short events) noexcept {
    if (count_ == sockets_.size()) return miss();
    sockets_[count_++] = {descriptor, events, 0};
  }
  /// Something may happen that shows on no socket.
  void miss() noexcept { complete_ = false; }
  bool complete() const noexcept { return complete_ && count_ > 0; }
  std::span<pollfd> sockets() noexcept { return std::span(sockets_).first(count_); }

  /// Until one of the events is there, for less than a second at the most.
  void sleep(long nanoseconds_max) noexcept {
    const timespec most{0, nanoseconds_max};
    (void)::ppoll(sockets_.data(), count_, &most, nullptr);
  }

 private:
  std::array<pollfd, limits::wakeups_max> sockets_;
  std::size_t count_ = 0;
  bool complete_ = true;
};

}  // namespace rondo
