// Queues' workers, the points of events, and the list of living queues.
//
// The list is the border's second global: a stream is a pointer from anywhere, and only a list can tell a queue from a
// CUDA stream or a queue destroyed before.  Calls without a stream do not look at it, nor does a thread for the queue
// that it used last, while the list is as it was.
#include "queue.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <span>
#include <utility>

#include "base/limits.h"
#include "base/threads.h"

namespace rondo {

void Point::complete() noexcept {
  const std::lock_guard lock(mutex_);
  time_ = std::chrono::steady_clock::now();
  done_.store(true, std::memory_order_release);
  changed_.notify_all();
}

void Point::wait() noexcept {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done(); });
}

Queue::Queue(std::chrono::microseconds shortest_nap) : shortest_nap_(shortest_nap), pid_(::getpid()) {
  worker_ = threads::start("rondo-queue", "a thread for the queue", [this] { work(); });
}

Queue::~Queue() {
  if (::getpid() != pid_) {
    worker_.detach();  // a forked child has no worker to wait for
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    if (std::exchange(idle_, false)) threads::idle_ended();
    work_came_.notify_one();
  }
  worker_.join();
  while (kept_ != nullptr) delete std::exchange(kept_, kept_->next);
}

std::uint64_t Queue::push(std::unique_ptr<Item> item) noexcept {
  Lock lock(mutex_);
  const bool wake = append(item.release());
  const std::uint64_t number = pushed_;
  lock.unlock();
  if (wake) work_came_.notify_one();
  return number;
}

void Queue::push_call(ncclComm* comm, const Call& call, const void* device_scalar) {
  Lock lock(mutex_);
  if (kept_ == nullptr) keep(new Item);
  kept_->batch.add(comm, call, device_scalar, false);
  --kept_count_;
  const bool wake = append(std::exchange(kept_, kept_->next));
  lock.unlock();
  if (wake) work_came_.notify_one();
}

bool Queue::append(Item* item) noexcept {
  item->batch.take_turns();  // here, so that calls of several threads are in the order of their turns
  if (std::exchange(idle_, false)) threads::idle_ended();
  item->next = nullptr;
  *newest_ = item;
  newest_ = &item->next;
  ++pushed_;
  return !running_ && !napping_ && call_worker();
}

/// While the worker is on its way, no more system calls are made for it.
bool Queue::call_worker() noexcept { return std::exchange(asleep_, false); }

void Queue::keep(Item* item) noexcept {
  item->next = std::exchange(kept_, item);
  ++kept_count_;
}

void Queue::wait(std::uint64_t number) noexcept {
  Lock lock(mutex_);
  wait(lock, number);
}

void Queue::wait(Lock& lock, std::uint64_t number) noexcept {
  while (done_ < number) {
    if (!running_) {
      run_items(lock, number, Patience::caller);
      if (oldest_ != nullptr && !napping_ && call_worker()) work_came_.notify_one();
    } else {
      wanted_.store(std::min(wanted_.load(), number));
      if (done_ < number) done_some_.wait(lock);  // asked again: Train::done() does it the other way round
    }
  }
}

void Queue::drain() noexcept {
  Lock lock(mutex_);
  wait(lock, pushed_);
}

bool Queue::ask() noexcept {
  Lock lock(mutex_);
  if (pushed_ == done_) return true;
  hasty_ = 0;
  const bool wake = call_worker();
  lock.unlock();
  if (wake) work_came_.notify_one();
  return false;
}

Queue::Outcome Queue::outcome() const {
  const std::lock_guard lock(mutex_);
  return outcome_;
}

Queue::Outcome Queue::take_outcome() {
  const std::lock_guard lock(mutex_);
  return std::exchange(outcome_, {});
}

void Queue::check_not_forked() const {
  if (::getpid() != pid_) {
    throw Error(Code::invalid_usage, "the queue was made before this process was forked; make queues after the fork");
  }
}

void Queue::work() noexcept {
  Lock lock(mutex_);
  be_idle();
  for (;;) {
    while (running_ || oldest_ == nullptr) {
      if (ending_ && !running_) return;
      rest(lock);
    }
    run_items(lock, nobody_waits, Patience::worker);
  }
}

/// Waits to be woken.  Linux lets a thread that is woken interrupt another, whatever its policy, where it still counts
/// it among those that may run: then at every call.  Where that goes on, the worker naps, and calls gather; longer
/// where others have run them meanwhile.  Not sooner: to set a timer may take longer than some calls.
void Queue::rest(Lock& lock) noexcept {
  threads::be_modest();
  const std::uint64_t before = pushed_;
  asleep_ = true;
  napping_ = hasty_ >= hasty_max;
  if (napping_) {
    work_came_.wait_for(lock, nap_);
    nap_ = oldest_ != nullptr ? shortest_nap_ : std::min(2 * nap_, naps_max * shortest_nap_);
    if (pushed_ == before) hasty_ = 0;
  } else {
    work_came_.wait(lock);
    nap_ = shortest_nap_;
  }
  const auto now = std::chrono::steady_clock::now();
  const auto since = now - std::exchange(came_, now);
  if (!napping_) hasty_ = since < shortest_nap_ ? hasty_ + 1 : 0;
  asleep_ = napping_ = false;
}

void Queue::be_idle() noexcept {
  if (pushed_ == done_ && !ending_ && !std::exchange(idle_, true)) threads::idle_began();
}

void Queue::run_items(Lock& lock, std::uint64_t until, Patience patience) noexcept {
  running_ = true;
  while (oldest_ != nullptr && done_ < until) {
    take(train_, until);
    lock.unlock();
    run(train_, patience);
    lock.lock();
    for (Item* const item : std::span(train_.items, train_.count)) {
      if (kept_count_ < limits::queued_calls_kept) {
        keep(item);
      } else {
        delete item;
      }
    }
    done_.store(train_.before + train_.count, std::memory_order_relaxed);
    if (done_ < wanted_) continue;
    wanted_ = nobody_waits;  // whoever waits for more says so again
    done_some_.notify_all();
  }
  running_ = false;
  be_idle();
}

namespace {

/// Whether one of two all-reduces writes what the other one reads or writes.
bool depend(const Call& one, const Call& other) noexcept {
  const std::size_t bytes = one.count * element_bytes(one.type), others = other.count * element_bytes(other.type);
  const auto overlap = [&](const void* mine, const void* theirs) {
    const auto at = reinterpret_cast<std::uintptr_t>(mine), theirs_at = reinterpret_cast<std::uintptr_t>(theirs);
    return at < theirs_at + others && theirs_at < at + bytes;
  };
  return overlap(one.out, other.out) || overlap(one.out, other.in) || overlap(one.in, other.out);
}

/// To look for items that may run together costs some nanoseconds each.
constexpr unsigned singly_after_refusal = 64;

}  // namespace

void Queue::take(Train& train, std::uint64_t until) noexcept {
  const auto pop = [&] {
    train.items[train.count++] = oldest_;
    oldest_ = oldest_->next;
    if (oldest_ == nullptr) newest_ = &oldest_;
  };
  const auto call_of = [](const Item& item) {
    return item.waits_for == nullptr && item.completes == nullptr ? item.batch.only_call() : nullptr;
  };
  train.before = done_;
  train.count = 0;
  const PendingCall* const first = call_of(*oldest_);
  pop();
  if (singly_ > 0) {
    --singly_;
    return;
  }
  if (first == nullptr || first->call.kind != CollectiveKind::all_reduce ||
      first->call.count > limits::queued_ahead_bytes_max / element_bytes(first->call.type)) {
    return;
  }
  while (oldest_ != nullptr && train.count < calls_ahead_max && train.before + train.count < until) {
    const PendingCall* const next = call_of(*oldest_);
    const bool alike = next != nullptr && next->communicator == first->communicator &&
                       next->turn == first->turn + train.count && next->call.kind == first->call.kind &&
                       next->call.count == first->call.count && next->call.type == first->call.type &&
                       next->call.op == first->call.op;
    if (!alike) return;
    if (train.count == 1) train.calls[0] = *first;
    const std::span before(train.calls, train.count);
    if (std::ranges::any_of(before, [&](const PendingCall& one) { return depend(one.call, next->call); })) return;
    train.calls[train.count] = *next;
    pop();
  }
}

/// The calls that are done need not wait for the others.  Not the last one: the thread has the lock soon.
void Queue::Train::done(std::size_t calls) noexcept {
  if (calls == count) return;
  queue.done_.store(before + calls);
  if (queue.wanted_.load() > before + calls) return;
  const std::lock_guard lock(queue.mutex_);
  queue.wanted_ = nobody_waits;
  queue.done_some_.notify_all();
}

void Queue::run(Train& train, Patience patience) noexcept {
  Status status;
  if (train.count > 1 && run_ahead(std::span(train.calls, train.count), patience, train, status)) {
    for (Item* const item : std::span(train.items, train.count)) {
      std::string sentence;
      (void)item->batch.end(status, sentence);
      if (!status.ok()) note(status, std::move(sentence));
    }
    return;
  }
  if (train.count > 1) singly_ = singly_after_refusal;
  for (std::size_t i = 0; i < train.count; ++i) {
    run(*train.items[i], patience);
    train.done(i + 1);
  }
}

void Queue::run(Item& item, Patience patience) noexcept {
  if (item.waits_for != nullptr) std::exchange(item.waits_for, nullptr)->wait();
  if (!item.batch.empty()) {
    std::string sentence;
    const Status status = item.batch.run(patience, sentence);
    if (!status.ok()) note(status, std::move(sentence));
  }
  if (item.completes != nullptr) std::exchange(item.completes, nullptr)->complete();
}

void Queue::note(Status status, std::string&& sentence) noexcept {
  const std::lock_guard lock(mutex_);
  if (outcome_.code == Code::success) outcome_ = {status.code, std::move(sentence)};
}

namespace {

struct Living {
  std::mutex mutex;
  std::map<const void*, std::shared_ptr<Queue>> queues;  // shared: see find_queue
  std::atomic<std::uint64_t> state{1};                   // another one after each change, and in a forked child
};

/// Never destroyed: queues may be in use while the process ends.
Living& living() {
  static Living& list = *[] {  // not ForkGuard: a child that made no communicator before the fork may make some
    auto* made = new Living;
    ::pthread_atfork(nullptr, nullptr, [] { living().state.fetch_add(1); });
    return made;
  }();
  return list;
}

/// What a thread found last, and when: 0 for nothing.
struct Found {
  const void* stream = nullptr;
  std::uint64_t state = 0;
  std::weak_ptr<Queue> queue;  // weak: it ends when it is destroyed, not with this thread
};
thread_local Found found_last;

std::shared_ptr<Queue> find(cudaStream_t stream, bool remove) {
  Living& all = living();
  const std::lock_guard lock(all.mutex);
  const auto found = all.queues.find(stream);
  if (found == all.queues.end()) {
    throw Error(Code::invalid_argument,
                "stream is not a queue of rondoStreamCreate, or was destroyed; buffers are host memory, so give NULL "
                "(the call blocks) or a queue");
  }
  std::shared_ptr<Queue> queue = found->second;
  queue->check_not_forked();
  if (remove) {
    all.queues.erase(found);
    all.state.fetch_add(1);
  } else {
    found_last = {stream, all.state.load(), queue};
  }
  return queue;
}

}  // namespace

cudaStream_t add_queue() {
  auto queue = std::make_shared<Queue>();
  const std::lock_guard lock(living().mutex);
  living().queues.emplace(queue.get(), queue);
  living().state.fetch_add(1);
  return reinterpret_cast<cudaStream_t>(queue.get());
}

std::shared_ptr<Queue> find_queue(cudaStream_t stream) {
  if (found_last.stream == stream && found_last.state == living().state.load(std::memory_order_acquire)) {
    if (std::shared_ptr<Queue> queue = found_last.queue.lock()) return queue;
  }
  return find(stream, false);
}
std::shared_ptr<Queue> remove_queue(cudaStream_t stream) { return find(stream, true); }

}  // namespace rondo
