// How to wait: callers spin if there are cores for it, else yield, or look on for as long as has proved worth it before
// they do, and look some times when they have their core back; after about a millisecond they sleep on the process's
// doorbell, and on the sockets of what they wait for.
// Who spins yields, too, once an answer is late: the kernel may have put the one waited for on this very core, beside
// other work, and it is then not heard of before the sleep.  Queue workers look for as long as it takes to sleep and to
// be woken, and then sleep: computation may want the core.  They do not yield it: the kernel then lets others have it
// for milliseconds.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/doorbell.h"
#include "base/threads.h"
#include "base/wakeups.h"

namespace rondo {

inline void pause_cpu() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

enum class WaitStyle : std::uint8_t { spin, yield, polite };

/// Whether one who shares its core with other ranks looks on for a while before it yields.  It should as long as those
/// that it waits for run on other cores at the same time: their answer takes less than to give the core away and get it
/// back.  Learnt from wait to wait: what was mostly in vain is tried ever more rarely.  After many waits in a row it
/// yields all the same: other ranks of the core need not wait until the kernel takes it.
class LookingOn {
 public:
  /// At the beginning of a wait: whether to look on in this one.
  bool worth_it() noexcept { return !passes_over() && ++in_a_row_ <= in_a_row_max; }
  /// Whether this wait is one of those that don't, which counts it.
  bool passes_over() noexcept {
    if (pass_over_ == 0) return false;
    --pass_over_;
    return true;
  }
  /// An answer came meanwhile.
  void paid() noexcept {
    trust_ = std::min(trust_ + 1, trust_max);
    if (trust_ == trust_max) pass_over_next_ = pass_over_min;
  }
  /// None came.
  void in_vain() noexcept {
    trust_ -= vain_costs;
    if (trust_ >= 0) return;
    trust_ = 0;
    pass_over_ = pass_over_next_;
    pass_over_next_ = std::min(2 * pass_over_next_, pass_over_max);
  }
  void yielded() noexcept { in_a_row_ = 0; }

  static constexpr unsigned looks = 200;    // in a wait, 1.5 us or so
  static constexpr int in_a_row_max = 256;  // waits
  static constexpr int vain_costs = 2;      // waits that paid: two in three must
  static constexpr int pass_over_min = 16;  // waits
  static constexpr int pass_over_max = 4096;

 private:
  static constexpr int trust_max = 8;
  int trust_ = 0;
  int pass_over_ = 0;  // waits to come
  int pass_over_next_ = pass_over_min;
  int in_a_row_ = 0;
};

class Waiter {
 public:
  using Clock = std::chrono::steady_clock;
  Waiter(WaitStyle style, Doorbell& doorbell, std::chrono::nanoseconds patience) noexcept
      : style_(style), doorbell_(doorbell), patience_(patience) {}

  /// For a thread that has made nothing ready for a wait yet: yields, if one that shares its core would do that first.
  /// False: it would not.  Such a thread then looks so many times before it waits.
  static bool yield_at_once() noexcept {
    if (!looking_on_.passes_over()) return false;
    looking_on_.yielded();
    sched_yield();
    return true;
  }
  // After each of the first yields of a wait, if it brought nothing: half of what it took to give the core away and get
  // it back.  Those who share the core wait, too, and who gives it away at once again is mostly away when the message
  // comes.
  static constexpr int looks_back = 30;

  /// Something moved: the wait that was going on is over.
  void moved() noexcept {
    if (looks_on_) looking_on_.paid();
    looks_on_ = false;
    turns_ = looks_until_ = 0;
    timing_ = slept_ = gave_way_ = false;
  }

  enum class Sleep : std::uint8_t {
    until_rung,
    looking_up,  // something may change without a ring, and need not be seen soon
    on_sockets,  // some link rings no doorbell: on its sockets and the doorbell, or in short naps
  };
  void sleep_as(Sleep sleep) noexcept { sleep_ = sleep; }

  /// Whether this turn may look at what changes rarely (failures): now and then while spinning, always when sleeping.
  bool unhurried() const noexcept { return turns_ % 64 == 63 || slept_; }

  /// One turn of waiting.  `look` moves what it can and says whether it did; it is asked again before any sleep.
  /// `collect`, asked where some link rings no doorbell, adds the sockets to sleep on.  False: nothing has moved for
  /// longer than the patience.
  template <typename Look, typename Collect>
  bool turn(Look&& look, Collect&& collect) noexcept {
    ++turns_;
    if (style_ == WaitStyle::spin && !slept_) {
      // The first looks come at once: an answer from another core takes less than one pause on some processors.
      if (turns_ > looks_at_once) pause_cpu();
      if (sleep_ == Sleep::on_sockets) {
        if (turns_ % looks_per_clock_on_sockets != 0) return true;
      } else {
        if (turns_ % looks_at_once != 0 || (turns_ % looks_per_clock != 0 && !manners_.soon)) return true;
        give_way();
      }
    } else if (style_ == WaitStyle::yield && !slept_) {
      if (sleep_ != Sleep::on_sockets && look_on()) return true;
      sched_yield();
    } else if (style_ == WaitStyle::polite && sleep_ != Sleep::on_sockets && turns_ % looks_per_clock_polite != 0 &&
               !slept_) {
      return true;  // to look at the clock takes as long as several looks
    }
    const auto now = Clock::now();
    if (!timing_) {
      timing_ = true;
      began_ = now;
    }
    const auto waited = now - began_;
    if (waited > patience_) return false;
    if (waited < awake_for()) return true;
    slept_ = true;
    if (style_ == WaitStyle::polite) threads::be_prompt();
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(patience_ - waited).count() + 1;
    const auto most = [&](int us) { return static_cast<std::uint64_t>(std::min<decltype(left)>(left, us)); };
    const auto nothing_to_do = [&]() noexcept {
      if (!look()) return true;
      moved();
      return false;
    };
    if (sleep_ == Sleep::until_rung) {
      doorbell_.sleep(static_cast<std::uint64_t>(left), nothing_to_do);
    } else if (sleep_ == Sleep::looking_up) {
      doorbell_.sleep(most(look_up_us), nothing_to_do);
    } else if (Wakeups wakeups; collect(wakeups), wakeups.complete()) {
      doorbell_.sleep(wakeups, most(look_up_us), nothing_to_do);
    } else {
      doorbell_.sleep(most(nap_us), nothing_to_do);
    }
    return true;
  }

 private:
  /// What the calling thread has learnt about yielding while it spins.
  struct Manners {
    bool soon;      // the last one let an answer come
    int pass_over;  // so many occasions: the last one gave the core to other work
  };

  /// Yields, unless other work would take the core.  With nobody else on it that costs a third of a microsecond.
  void give_way() noexcept {
    manners_.soon = false;
    if (manners_.pass_over > 0) {
      --manners_.pass_over;
      return;
    }
    const auto before = Clock::now();
    sched_yield();
    if (Clock::now() - before > away_for) {
      manners_.pass_over = occasions_passed_over;
    } else {
      manners_.soon = !gave_way_;  // if this wait has no further occasion
    }
    gave_way_ = true;
  }

  /// Whether to look again before yielding.
  bool look_on() noexcept {
    if (turns_ == 1) looks_on_ = looking_on_.worth_it();
    if (looks_on_ && turns_ < LookingOn::looks) return true;
    if (looks_on_) looking_on_.in_vain();
    looks_on_ = false;
    if (turns_ < looks_until_) return true;
    if (turns_ <= 2 * looks_back) looks_until_ = turns_ + looks_back;
    looking_on_.yielded();
    return false;
  }

  std::chrono::nanoseconds awake_for() const noexcept {
    if (style_ == WaitStyle::polite) return polite_for;
    return sleep_ == Sleep::on_sockets ? spin_on_sockets_for : spin_for;
  }

  static constexpr int looks_at_once = 64;
  static constexpr int looks_per_clock = 256;
  static constexpr int looks_per_clock_polite = 16;
  static constexpr int looks_per_clock_on_sockets = 4;  // each is a system call
  static constexpr std::chrono::nanoseconds spin_for{1'000'000};
  static constexpr std::chrono::nanoseconds spin_on_sockets_for{50'000};
  static constexpr std::chrono::nanoseconds polite_for{20'000};
  static constexpr std::chrono::nanoseconds away_for{200'000};  // others than ranks have run
  static constexpr int occasions_passed_over = 256;             // some milliseconds of spinning
  static constexpr int nap_us = 100;
  static constexpr int look_up_us = 50'000;
  static inline thread_local Manners manners_{};
  static inline thread_local LookingOn looking_on_{};
  WaitStyle style_;
  Doorbell& doorbell_;
  std::chrono::nanoseconds patience_;
  std::uint64_t turns_ = 0;
  std::uint64_t looks_until_ = 0;  // the turn at which it yields again
  bool timing_ = false;
  bool slept_ = false;
  bool gave_way_ = false;
  bool looks_on_ = false;
  Sleep sleep_ = Sleep::until_rung;
  Clock::time_point began_;
};

}  // namespace rondo
