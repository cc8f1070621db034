// The control thread's event loop: tasks, descriptors, timers.  Asio is inside loop.cpp only.
//
// Watch and Timer belong to the loop's thread: create, use and destroy them there.  Their handlers may destroy them.
// An idle loop sleeps in epoll without a timeout.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace rondo::control {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

class Loop {
 public:
  Loop();
  ~Loop();
  /// Runs tasks and handlers until stop().  The calling thread becomes the loop's thread.
  void run();
  /// Any thread.
  void stop();
  /// Runs `task` on the loop's thread, in the order of posting.  Any thread.  Tasks must not throw.
  void post(std::function<void()> task);
  bool on_thread() const noexcept;

 private:
  friend class Watch;
  friend class Timer;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Watches a descriptor, which must outlive it: calls `readable` as long as it is readable (an end of file, an error
/// and a connection to accept count).
class Watch {
 public:
  Watch(Loop& loop, int fd, std::function<void()> readable);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  /// Calls `writable` once, when the descriptor is writable.
  void await_writable(std::function<void()> writable);

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the operation in flight
};

/// Calls a handler once, at a time.
class Timer {
 public:
  explicit Timer(Loop& loop);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  /// Replaces what was started before.
  void start(Deadline at, std::function<void()> handler);
  void cancel();

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the operation in flight
};

}  // namespace rondo::control
