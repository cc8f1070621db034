// The order of a communicator's calls, and which thread may go without it.
//
// Calls take turns: a call runs when all before it are over.  That, and a reference for the time of a call, cost three
// atomic additions, and each of them waits until all that its thread wrote before is in its cache: a message whose
// line the peer had last, too.  So the first thread that calls owns the communicator: while no turn is taken it enters
// and leaves by plain stores.  Any other thread that takes a turn, and whoever ends the communicator, revokes that for
// good, by a barrier in all threads (base/barriers.h): from then on either the owner sees that it does not own any
// more, or the others see that it is inside.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/limits.h"

namespace rondo {

class CallOrder {
 public:
  /// In place of a turn: the call's thread has entered.
  static constexpr std::uint64_t entered = ~std::uint64_t{0};

  /// Whether the calling thread, the owner, has the communicator to itself until leave(): no turn is taken.  It may
  /// take none meanwhile.
  bool enter() noexcept {
    if (!owned() || turns_taken_.load(std::memory_order_relaxed) != turns_done_.load(std::memory_order_acquire)) {
      return false;
    }
    // A thread that began after the owner ended may have its address: what that did comes before.
    (void)inside_.load(std::memory_order_acquire);
    inside_.store(true, std::memory_order_relaxed);
    if (still_owned()) [[likely]]
      return true;
    leave();
    return false;
  }
  /// From here on another thread may free the communicator.
  void leave() noexcept { inside_.store(false, std::memory_order_release); }

  /// Whether the calling thread, the owner, holds the communicator until let_go() without being inside: as often as it
  /// likes.
  bool hold() noexcept {
    if (!owned()) return false;
    held_.store(held_.load(std::memory_order_acquire) + 1, std::memory_order_relaxed);
    if (still_owned()) [[likely]]
      return true;
    let_go();
    return false;
  }
  void let_go() noexcept { held_.store(held_.load(std::memory_order_relaxed) - 1, std::memory_order_release); }

  /// Nobody enters or holds any more once this returns; whoever did before is_inside() or is_held() until it ends.
  void revoke() noexcept;
  bool is_inside() const noexcept { return inside_.load(std::memory_order_acquire); }
  bool is_held() const noexcept { return held_.load(std::memory_order_acquire) != 0; }

  /// Fixes the places of calls, one after another; the first one's.  Every taken turn must be ended, in any thread.
  std::uint64_t take_turns(std::uint64_t count) noexcept {
    const std::uint64_t turn = turns_taken_.fetch_add(count, std::memory_order_seq_cst);
    const void* const owner = owner_.load(std::memory_order_seq_cst);
    if (owner != this_thread() && owner != nobody && owner != no_more()) [[unlikely]]
      revoke();
    return turn;
  }
  std::uint64_t turns_taken() const noexcept { return turns_taken_.load(); }
  /// Whether every call before `turn` is over.
  bool has_turn(std::uint64_t turn) const noexcept {
    return turn == entered || (turns_done_.load(std::memory_order_acquire) == turn && !is_inside());
  }
  /// Blocks until they are.  False: none of them ended for so long.
  bool wait_for_turn(std::uint64_t turn, std::chrono::nanoseconds patience) noexcept;
  /// Only whoever has the turn ends it.
  void end_turns(std::uint64_t count) noexcept;

 private:
  static const void* this_thread() noexcept { return __builtin_thread_pointer(); }
  static constexpr const void* nobody = nullptr;  // yet
  const void* no_more() const noexcept { return this; }
  const void* being_revoked() const noexcept { return &inside_; }

  bool owned() noexcept {
    const void* const owner = owner_.load(std::memory_order_relaxed);
    return owner == this_thread() || (owner == nobody && claim());
  }
  /// After the owner's store, which revoke() may have to see.
  bool still_owned() const noexcept {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return owner_.load(std::memory_order_relaxed) == this_thread();
  }
  bool claim() noexcept;

  std::atomic<const void*> owner_{nobody};  // a thread, by its thread pointer; or one of the three values above
  std::atomic<bool> inside_{false};         // like held_, written by the owner alone
  std::atomic<int> held_{0};
  std::atomic<std::uint64_t> turns_taken_{0};
  alignas(limits::cache_line_bytes) std::atomic<std::uint64_t> turns_done_{0};
  std::atomic<int> waiters_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace rondo
