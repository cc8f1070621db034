// A queue: what a stream is for host memory.  Batches of calls run in order; events are points in that order.
//
// One worker thread runs them, and a thread that waits for the queue runs what the worker has not begun: that saves two
// wake-ups.  At any time one thread runs items.  The worker never spins, takes no signals, does not interrupt whoever
// gives it work again and again, and ends with the queue.  A call takes the room of one that is done: to hand it over
// allocates nothing.
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
  explicit Queue(std::chrono::microseconds shortest_nap = std::chrono::microseconds(200));
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
  /// Any thread.  Takes the turns of the item's calls; it runs after all before it.  The item's number, from 1 on.
  std::uint64_t push(std::unique_ptr<Item> item) noexcept;
  /// The same for one call, as Batch::add() has it.  Throws only before it has changed anything.
  void push_call(ncclComm* comm, const Call& call, const void* device_scalar);

  /// The outcome of the calls that have run since the last take_outcome().
  struct Outcome {
    Code code = Code::success;
    std::string sentence;
  };
  /// Returns when all items up to the one of this number are done; runs in this thread what no other has begun.
  void wait(std::uint64_t number) noexcept;
  /// The same, for all that was given before.
  void drain() noexcept;
  /// Whether all that was given is done.  If not, somebody asks for it: a worker that naps comes at once.
  bool ask() noexcept;
  Outcome outcome() const;
  Outcome take_outcome();
  /// Throws Error in a child that was forked after the queue had been made: it has no worker there.
  void check_not_forked() const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  void work() noexcept;
  // All of these with the lock.
  /// Whether the worker is to be woken: without the lock, which it wants.
  [[nodiscard]] bool append(Item* item) noexcept;
  [[nodiscard]] bool call_worker() noexcept;
  void rest(Lock& lock) noexcept;
  void wait(Lock& lock, std::uint64_t number) noexcept;
  void keep(Item* item) noexcept;
  /// Runs items in this thread, while nobody else does, until `until` are done or none is left.
  void run_items(Lock& lock, std::uint64_t until, Patience patience) noexcept;
  void be_idle() noexcept;
  /// Items that run at once: calls that are alike and touch other memory, or one item.
  struct Train final : Progress {
    explicit Train(Queue& queue) noexcept : queue(queue) {}
    void done(std::size_t calls) noexcept override;
    Queue& queue;
    std::uint64_t before = 0;  // items done before it
    std::size_t count = 0;
    Item* items[calls_ahead_max];
    PendingCall calls[calls_ahead_max];
  };
  void take(Train& train, std::uint64_t until) noexcept;
  // Without it.
  void run(Train& train, Patience patience) noexcept;
  void run(Item& item, Patience patience) noexcept;
  void note(Status status, std::string&& sentence) noexcept;

  static constexpr int hasty_max = 16;
  static constexpr int naps_max = 8;  // of the shortest one
  static constexpr std::uint64_t nobody_waits = ~std::uint64_t{0};
  mutable std::mutex mutex_;
  std::condition_variable work_came_;  // for the worker
  std::condition_variable done_some_;
  Item* oldest_ = nullptr;
  Item** newest_ = &oldest_;  // where the next item is linked
  Item* kept_ = nullptr;      // empty ones
  std::size_t kept_count_ = 0;
  std::uint64_t pushed_ = 0;
  std::atomic<std::uint64_t> done_{0};               // grows also without the lock, while a train runs
  std::atomic<std::uint64_t> wanted_{nobody_waits};  // of `done_`: the least that a thread waits for; with the lock
  unsigned singly_ = 0;  // so many items are not tried together, as the last ones gained nothing; of whoever runs items
  Train train_{*this};   // of whoever runs items
  bool running_ = false;  // some thread runs items
  bool asleep_ = false;   // the worker waits, and has not been told to come
  bool napping_ = false;  // it comes by itself, and soon
  int hasty_ = 0;         // so many times in a row it came soon after the last time, and nobody asked
  std::chrono::microseconds nap_{};
  std::chrono::steady_clock::time_point came_;  // the worker, last
  bool ending_ = false;
  bool idle_ = false;  // nothing is left, so the worker is counted as idle (base/threads.h)
  Outcome outcome_;
  const std::chrono::microseconds shortest_nap_;
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
