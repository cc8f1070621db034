// A communicator without ranks: it notes the calls it is given, and does with them what a test says.
//
// It takes the place of communicator, control plane and memory in tests of the border: what the border hands on, in
// which order, on which thread, and what it makes of failures.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "communicator.h"
#include "memory.h"

namespace fake {

class Fake;

/// One run_calls, run_call or run_ahead.
struct Ran {
  std::vector<rondo::PendingCall> calls;
  std::thread::id thread;
  rondo::Patience patience;
};

/// What all fakes share; reset() between tests.
struct World {
  std::mutex mutex;
  std::vector<Ran> ran;
  std::vector<int> created;                                         // ranks
  std::function<void(int rank, int ranks)> join;                    // runs in create(); may throw
  std::function<rondo::Status(const rondo::PendingCall&)> outcome;  // of each call; runs unlocked
  std::atomic<bool> runs_ahead{false};
  std::atomic<int> alive{0};
  std::atomic<bool> forked{false};
  void reset();
};
World& world();

class Fake final : public rondo::Communicator {
 public:
  Fake(int rank, int ranks) : rank_(rank), ranks_(ranks) { world().alive.fetch_add(1); }
  ~Fake() override { world().alive.fetch_sub(1); }
  int rank() const noexcept override { return rank_; }
  int ranks() const noexcept override { return ranks_; }
  int hosts() const noexcept override { return 1; }
  rondo::Status status() const noexcept override { return {static_cast<rondo::Code>(failure_.load()), -1}; }
  std::string failure_sentence() const override { return status().ok() ? "" : "the fake failed"; }
  void abort() noexcept override { failure_ = static_cast<int>(rondo::Code::invalid_usage); }
  rondo::Status finalize() noexcept override { return finalize_outcome; }

  void fail(rondo::Code code) { failure_ = static_cast<int>(code); }
  rondo::Status finalize_outcome;

 private:
  int rank_;
  int ranks_;
  std::atomic<int> failure_{0};
};

}  // namespace fake
