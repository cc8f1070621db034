// A queue: what a stream is for host memory.  One worker thread runs batches of calls in order; events are points in
// that order.  The worker never spins, blocks all signals, and ends with the queue.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/result.h"
#include "group.h"
#include "nccl.h"

namespace rondo {

/// One record of an event.  Shared by the event, the queue that completes it, and the queues that wait for it.
class Point {
 public:
  void complete() noexcept;
  void wait() noexcept;
  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// When it completed; only once it is done.
  std::chrono::steady_clock::time_point time() const noexcept { return time_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> done_{false};
  std::chrono::steady_clock::time_point time_;
};

class Queue {
 public:
  /// Starts the worker.  Throws Error.
  Queue();
  /// Waits for all that was given to the queue.
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// Waits for a point, then runs a batch, then completes a point; each may be missing.
  struct Item {
    std::shared_ptr<Point> waits_for;
    Batch batch;
    std::shared_ptr<Point> completes;
    Item* next = nullptr;  // the queue's
  };
  /// Any thread.  The item runs after all before it.  It needs no memory: calls whose turns are taken must be run.
  void push(std::unique_ptr<Item> item) noexcept;

  /// The outcome of the calls that have run since the last take_outcome().
  struct Outcome {
    Code code = Code::success;
    std::string sentence;
  };
  /// Blocks until what was given before is done.
  void drain();
  bool idle() const;
  Outcome outcome() const;
  Outcome take_outcome();
  /// Throws Error in a child that was forked after the queue had been made: it has no worker there.
  void check_not_forked() const;

 private:
  void work() noexcept;
  void run(Item& item) noexcept;

  mutable std::mutex mutex_;
  std::condition_variable pushed_one_;
  std::condition_variable done_one_;
  Item* oldest_ = nullptr;
  Item** newest_ = &oldest_;  // where the next item is linked
  std::uint64_t pushed_ = 0;
  std::uint64_t done_ = 0;
  bool ending_ = false;
  bool idle_ = false;  // the worker waits, and is counted as idle (base/threads.h)
  Outcome outcome_;
  const int pid_;
  std::thread worker_;
};

/// Makes a queue known under the pointer that users call a stream.
cudaStream_t add_queue();
/// The queue behind a stream; shared, as another thread may destroy the stream meanwhile.  Throws Error: unknown.
std::shared_ptr<Queue> find_queue(cudaStream_t stream);
/// Makes it unknown, and gives it to the caller.
std::shared_ptr<Queue> remove_queue(cudaStream_t stream);

}  // namespace rondo
