// Threads of a communicator that walk lanes for the thread that makes a call: RONDO_NTHREADS, less the caller itself.
//
// Each is given one piece of work at a time, and sleeps in between.  What a helper has not begun its giver may take
// back and do itself, so that nothing depends on a helper getting a processor.  They block all signals.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace rondo {

class LaneHelpers {
 public:
  class Work {
   public:
    virtual ~Work() = default;
    /// Returns how many steps it took, to be counted.
    virtual std::uint64_t run() noexcept = 0;
  };

  /// Starts `count` threads.  Throws Error.
  explicit LaneHelpers(int count);
  /// All work is done or taken back.
  ~LaneHelpers();
  LaneHelpers(const LaneHelpers&) = delete;
  LaneHelpers& operator=(const LaneHelpers&) = delete;
  int count() const noexcept { return static_cast<int>(helpers_.size()); }

  // By one thread at a time.
  /// Helper `index`, who has nothing to do, is to run this.
  void give(int index, Work& work) noexcept;
  /// What was given is the giver's again.  False: the helper has begun.
  bool take_back(int index) noexcept;
  /// Waits until the helper has done what it has begun.
  void await(int index) noexcept;

  /// What a helper has done so far.
  struct Counts {
    std::uint64_t pieces = 0;
    std::uint64_t steps = 0;
  };
  Counts counts(int index) const noexcept;
  /// Pieces that their givers took back.
  std::uint64_t taken_back() const noexcept { return taken_back_.load(std::memory_order_relaxed); }

 private:
  enum State : std::uint32_t { idle, given, begun, ending };
  struct Helper {
    std::atomic<std::uint32_t> state{idle};  // a futex: changed by both sides, waited for by both
    Work* work = nullptr;
    std::atomic<std::uint64_t> pieces{0};
    std::atomic<std::uint64_t> steps{0};
    std::thread thread;
  };
  static void run(Helper& self) noexcept;
  void end() noexcept;

  const int pid_;
  std::atomic<std::uint64_t> taken_back_{0};
  std::vector<std::unique_ptr<Helper>> helpers_;
};

}  // namespace rondo
