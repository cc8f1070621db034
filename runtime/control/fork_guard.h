// What a fork must not share: the control plane's sockets.
//
// A child that keeps its parent's sockets open hides the parent's death from the peers.  So every control socket is
// created, listed and closed under one lock that fork() takes as well, and the child closes the listed ones at once.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

namespace rondo::control {

class ForkGuard {
 public:
  /// The process's guard; installs the fork handlers on first use.  Never destroyed: the handlers outlive everything.
  static ForkGuard& get();
  /// This process is a child of one that had a guard.
  static bool forked() noexcept { return forked_.load(std::memory_order_relaxed); }

  /// Runs `open` (which returns a descriptor, or -1 with errno) and lists what it opened.
  template <typename Open>
  int open(Open&& open) {
    const std::lock_guard lock(mutex_);
    const int fd = open();
    if (fd >= 0) sockets_.push_back(fd);
    return fd;
  }
  void close(int fd) noexcept;

 private:
  ForkGuard();
  static void before_fork() noexcept;
  static void after_fork_in_parent() noexcept;
  static void after_fork_in_child() noexcept;
  static inline std::atomic<bool> forked_{false};
  std::mutex mutex_;
  std::vector<int> sockets_;
};

}  // namespace rondo::control
