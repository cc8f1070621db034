// What is rare about the order of calls: owners that come and go, and waiting.
#include "communicator/order.h"

#include "base/barriers.h"

namespace rondo {

bool CallOrder::claim() noexcept {
  const void* expected = nobody;
  return barriers::registered() && owner_.compare_exchange_strong(expected, this_thread());
}

void CallOrder::revoke() noexcept {
  const void* owner = nobody;
  if (owner_.compare_exchange_strong(owner, no_more()) || owner == no_more()) return;
  if (owner == this_thread()) return owner_.store(no_more());
  // Whoever comes now must not take the barrier for done.
  owner_.store(being_revoked());
  barriers::in_this_process();
  owner_.store(no_more());
}

bool CallOrder::wait_for_turn(std::uint64_t turn, std::chrono::nanoseconds patience) noexcept {
  if (has_turn(turn)) [[likely]]
    return true;
  std::unique_lock lock(mutex_);
  waiters_.fetch_add(1);
  // end_turns() looks for waiters without a barrier and may miss one that has just come, and leave() looks for none:
  // hence the short sleeps.
  bool come = false;
  std::uint64_t done = turns_done_.load();
  auto deadline = std::chrono::steady_clock::now() + patience;
  while (!(come = turns_done_.load() >= turn && !is_inside()) && std::chrono::steady_clock::now() < deadline) {
    changed_.wait_for(lock, std::chrono::milliseconds(1));
    if (const std::uint64_t now = turns_done_.load(); now != done) {
      done = now;
      deadline = std::chrono::steady_clock::now() + patience;
    }
  }
  waiters_.fetch_sub(1);
  return come;
}

void CallOrder::end_turns(std::uint64_t count) noexcept {
  turns_done_.store(turns_done_.load(std::memory_order_relaxed) + count, std::memory_order_release);
  if (waiters_.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

}  // namespace rondo
