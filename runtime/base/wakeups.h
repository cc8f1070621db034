// Descriptors that a thread sleeps on: of ends of links that move only when they are asked, and ring no doorbell.
//
// A value of a fixed size, made anew for each sleep.  Where not all sockets fit, it is incomplete, and its owner must
// sleep in another way.
#pragma once

#include <poll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>

#include "base/limits.h"

namespace rondo {

class Wakeups {
 public:
  /// `events`: as poll() has them.
  void add(int descriptor, short events) noexcept {
    if (count_ == limits::wakeups_max) {
      complete_ = false;
      return;
    }
    sockets_[count_++] = {descriptor, events, 0};
  }
  /// What is waited for rings the doorbell: its ringers pay one load, and count on the sleeper's barrier.
  void await_ring() noexcept { rings_ = true; }
  bool rings() const noexcept { return rings_; }
  bool complete() const noexcept { return complete_; }
  std::span<pollfd> sockets() noexcept { return std::span(sockets_).first(count_); }

  /// Until one of the events is there, or `bell` can be read (true), for so long at the most.
  bool sleep(std::uint64_t us, int bell) noexcept {
    const timespec most{static_cast<std::time_t>(us / 1'000'000), static_cast<long>(us % 1'000'000) * 1000};
    pollfd& rung = sockets_[count_];
    rung = {bell, POLLIN, 0};
    return ::ppoll(sockets_.data(), count_ + 1, &most, nullptr) > 0 && rung.revents != 0;
  }

 private:
  std::array<pollfd, limits::wakeups_max + 1> sockets_;
  std::size_t count_ = 0;
  bool complete_ = true;
  bool rings_ = false;
};

}  // namespace rondo
