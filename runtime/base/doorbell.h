// The doorbell of a process: a futex in a shared page, and an event.  Whoever gives a sleeper something to do rings it.
//
// Ringing costs one load while nobody sleeps.  That load may pass the ringer's earlier store (the message itself), so a
// sleeper announces itself, issues a barrier on all CPUs (membarrier, where the kernel has it), looks again, and only
// then sleeps; where the kernel refuses membarrier it sleeps in short naps instead.  A thread that waits for sockets as
// well sleeps on these and on the event, which is set only while there is one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/descriptor.h"
#include "base/wakeups.h"

namespace rondo {

/// Lives in a page that processes share.
struct alignas(64) DoorbellPage {
  std::atomic<std::uint32_t> sleepers{0};
  std::atomic<std::uint32_t> short_naps{0};  // not 0: some ringer's kernel refuses membarrier, a ring may be missed
  std::atomic<std::uint32_t> on_sockets{0};  // of the sleepers, those whom the event wakes; they are the owner's
  alignas(64) std::atomic<std::uint32_t> rung{0};
};

/// What it takes to ring a doorbell; good as long as that lives.
struct Ringer {
  DoorbellPage* page = nullptr;
  int event = -1;
};

/// Wakes the sleepers, if any.  noexcept, async-signal-safe.
void wake_sleepers(Ringer bell) noexcept;
inline void ring(const Ringer& bell) noexcept {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (bell.page->sleepers.load(std::memory_order_relaxed) != 0) [[unlikely]]
    wake_sleepers(bell);
}

/// A mapping of a doorbell page, and its event: one's own (created) or a peer's (from its descriptors).
class Doorbell {
 public:
  static Doorbell create();                          // throws Error
  static Doorbell map(int page_file, int event_fd);  // duplicates `event_fd`, needs neither any more; throws Error
  Doorbell(Doorbell&& other) noexcept;
  Doorbell& operator=(Doorbell&&) = delete;
  ~Doorbell();
  DoorbellPage& page() noexcept { return *page_; }
  Ringer ringer() noexcept { return {page_, event_.get()}; }
  /// One's own: what map() needs, in another process.
  int page_fd() const noexcept { return page_file_.get(); }
  int event_fd() const noexcept { return event_.get(); }

  /// Sleeps until rung or `timeout_us`.  `nothing_to_do` is asked once more after the sleeper has announced itself.
  template <typename NothingToDo>
  void sleep(std::uint64_t timeout_us, NothingToDo&& nothing_to_do) noexcept {
    const std::uint32_t seen = announce(true);
    if (nothing_to_do()) nap(seen, timeout_us);
    page_->sleepers.fetch_sub(1, std::memory_order_relaxed);
  }
  /// The same, and until something happens on the sockets.  By the owner's threads alone.
  template <typename NothingToDo>
  void sleep(Wakeups& wakeups, std::uint64_t timeout_us, NothingToDo&& nothing_to_do) noexcept {
    begin_on_sockets();
    (void)announce(wakeups.rings());
    if (nothing_to_do()) nap(wakeups, timeout_us);
    page_->sleepers.fetch_sub(1, std::memory_order_relaxed);
    end_on_sockets();
  }

 private:
  /// Among the owner's threads that sleep on the event: the last one to wake clears it.
  struct Sharing {
    std::mutex mutex;
    bool event_seen = false;
  };
  Doorbell(DoorbellPage* page, Descriptor page_file, Descriptor event) noexcept
      : page_(page), page_file_(std::move(page_file)), event_(std::move(event)) {}
  std::uint32_t announce(bool with_barrier) noexcept;
  void nap(std::uint32_t seen, std::uint64_t timeout_us) noexcept;
  void nap(Wakeups& wakeups, std::uint64_t timeout_us) noexcept;
  void begin_on_sockets() noexcept;
  void end_on_sockets() noexcept;
  DoorbellPage* page_;
  Descriptor page_file_;  // of one's own
  Descriptor event_;
  std::unique_ptr<Sharing> sharing_;  // of one's own
};

}  // namespace rondo
