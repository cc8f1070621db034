// The fork guard: pthread_atfork handlers over the list of control sockets.
#include "control/fork_guard.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>

namespace rondo::control {

ForkGuard& ForkGuard::get() {
  static ForkGuard& guard = *new ForkGuard;
  return guard;
}

ForkGuard::ForkGuard() { ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); }

void ForkGuard::before_fork() noexcept { get().mutex_.lock(); }
void ForkGuard::after_fork_in_parent() noexcept { get().mutex_.unlock(); }

void ForkGuard::after_fork_in_child() noexcept {
  ForkGuard& guard = get();
  forked_.store(true, std::memory_order_relaxed);
  for (const int fd : guard.sockets_) ::close(fd);
  guard.sockets_.clear();
  guard.mutex_.unlock();
}

void ForkGuard::close(int fd) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = std::find(sockets_.begin(), sockets_.end(), fd);
  if (found == sockets_.end()) return;  // the fork has closed it already; the number may be another's by now
  *found = sockets_.back();
  sockets_.pop_back();
  ::close(fd);
}

}  // namespace rondo::control
