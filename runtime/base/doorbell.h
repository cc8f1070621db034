// The doorbell of a process: a futex in a shared page.  Whoever gives a sleeper something to do rings it.
//
// Ringing costs one load while nobody sleeps.  That load may pass the ringer's earlier store (the message itself), so a
// sleeper announces itself, issues a barrier on all CPUs (membarrier, where the kernel has it), looks again, and only
// then sleeps; where the kernel refuses membarrier it sleeps in short naps instead.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/descriptor.h"

namespace rondo {

/// Lives in a page that processes share.
struct alignas(64) DoorbellPage {
  std::atomic<std::uint32_t> sleepers{0};
  std::atomic<std::uint32_t> short_naps{0};  // not 0: some ringer's kernel refuses membarrier, a ring may be missed
  alignas(64) std::atomic<std::uint32_t> rung{0};
};

/// Wakes the sleepers of `page`, if any.  noexcept, async-signal-safe.
void wake_sleepers(DoorbellPage& page) noexcept;
inline void ring(DoorbellPage& page) noexcept {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (page.sleepers.load(std::memory_order_relaxed) != 0) [[unlikely]]
    wake_sleepers(page);
}

/// A mapping of a doorbell page: one's own (created) or a peer's (from its descriptor).
class Doorbell {
 public:
  static Doorbell create();     // throws Error
  static Doorbell map(int fd);  // duplicates `fd`; throws Error
  Doorbell(Doorbell&& other) noexcept;
  Doorbell& operator=(Doorbell&&) = delete;
  ~Doorbell();
  DoorbellPage& page() noexcept { return *page_; }
  int fd() const noexcept { return fd_.get(); }

  /// Sleeps until rung or `timeout_us`.  `nothing_to_do` is asked once more after the sleeper has announced itself.
  template <typename NothingToDo>
  void sleep(std::uint64_t timeout_us, NothingToDo&& nothing_to_do) noexcept {
    const std::uint32_t seen = announce();
    if (nothing_to_do()) nap(seen, timeout_us);
    page_->sleepers.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  Doorbell(DoorbellPage* page, Descriptor fd) noexcept : page_(page), fd_(std::move(fd)) {}
  std::uint32_t announce() noexcept;
  void nap(std::uint32_t seen, std::uint64_t timeout_us) noexcept;
  DoorbellPage* page_;
  Descriptor fd_;
};

}  // namespace rondo
