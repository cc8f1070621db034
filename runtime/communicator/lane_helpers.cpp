// The threads: see lane_helpers.h.
#include "communicator/lane_helpers.h"

#include <sched.h>
#include <unistd.h>

#include <cassert>
#include <string>

#include "base/result.h"
#include "base/threads.h"

namespace rondo {

LaneHelpers::LaneHelpers(int count) : pid_(::getpid()) {
  try {
    for (int i = 0; i < count; ++i) {
      helpers_.push_back(std::make_unique<Helper>());
      Helper& helper = *helpers_.back();
      helper.thread = threads::start("rondo-lane-" + std::to_string(i + 1), "a thread of RONDO_NTHREADS",
                                     [&helper] { run(helper); });
    }
  } catch (const Error&) {
    end();
    throw;
  }
}

LaneHelpers::~LaneHelpers() { end(); }

void LaneHelpers::end() noexcept {
  for (const auto& helper : helpers_) {
    if (!helper->thread.joinable()) continue;
    if (::getpid() != pid_) {
      helper->thread.detach();  // a forked child has no helpers to wait for
      continue;
    }
    helper->state.store(ending, std::memory_order_release);
    helper->state.notify_all();
    helper->thread.join();
  }
}

void LaneHelpers::give(int index, Work& work) noexcept {
  Helper& helper = *helpers_[static_cast<std::size_t>(index)];
  assert(helper.state.load(std::memory_order_relaxed) == idle);
  helper.work = &work;
  helper.state.store(given, std::memory_order_release);
  helper.state.notify_all();
}

bool LaneHelpers::take_back(int index) noexcept {
  std::uint32_t state = given;
  if (!helpers_[static_cast<std::size_t>(index)]->state.compare_exchange_strong(state, idle)) return false;
  taken_back_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void LaneHelpers::await(int index) noexcept {
  constexpr int yields = 16;  // shares are alike: mostly all end at one time
  Helper& helper = *helpers_[static_cast<std::size_t>(index)];
  for (int i = 0; i < yields && helper.state.load(std::memory_order_acquire) == begun; ++i) ::sched_yield();
  helper.state.wait(begun, std::memory_order_acquire);
}

LaneHelpers::Counts LaneHelpers::counts(int index) const noexcept {
  const Helper& helper = *helpers_[static_cast<std::size_t>(index)];
  return {helper.pieces.load(), helper.steps.load()};
}

void LaneHelpers::run(Helper& self) noexcept {
  threads::idle_began();  // what it does is a part of its giver's call, and no more than that
  for (;;) {
    std::uint32_t state = self.state.load(std::memory_order_acquire);
    if (state == given && self.state.compare_exchange_strong(state, begun)) {
      self.steps.fetch_add(self.work->run(), std::memory_order_relaxed);
      self.pieces.fetch_add(1, std::memory_order_relaxed);
      self.state.store(idle, std::memory_order_release);
      self.state.notify_all();
    } else if (state == ending) {
      break;
    } else {
      self.state.wait(state, std::memory_order_acquire);
    }
  }
  threads::idle_ended();
}

}  // namespace rondo
