// What helpers do of a batch: each walks its lanes of every collective of its communicator, as the calling thread walks
// its own.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "communicator/impl.h"
#include "communicator/lane_helpers.h"

namespace rondo {

/// One helper's share of a batch; or what the caller has taken back of several.
class Share final : public LaneHelpers::Work {
 public:
  Share() = default;
  Share(CommunicatorImpl& communicator, int number) : communicator_(&communicator), number_(number) {}
  bool is_for(const CommunicatorImpl& communicator, int number) const noexcept {
    return communicator_ == &communicator && number_ == number;
  }
  void add(CommunicatorImpl& communicator, Run& run);
  /// There is room for both: see make_room().
  void take_in(const Share& other) noexcept;
  void make_room(std::size_t runs);
  void clear() noexcept {
    runs_.clear();
    executions_.clear();
  }

  /// Gives it to its helper, who waits in this style.
  void give(WaitStyle style) noexcept;
  /// False: the helper has begun; then await() it.
  bool take_back() noexcept;
  void await() noexcept;

  std::uint64_t run() noexcept override;
  /// Runs all to their end; what fails becomes its communicator's failure.  Returns the steps walked.
  std::uint64_t run(Waiter& waiter) noexcept;
  void count_as_callers() const noexcept;
  /// Where something failed, what its communicator says; once it has run.
  Status failure() const noexcept;

 private:
  struct Walked {
    CommunicatorImpl* communicator = nullptr;
    Run* run = nullptr;
  };
  CommunicatorImpl* communicator_ = nullptr;
  int number_ = 0;      // of the share: the calling thread's is 0
  bool begun_ = false;  // by its helper
  WaitStyle style_ = WaitStyle::polite;
  std::vector<Walked> runs_;
  std::vector<Execution> executions_;
};

/// The shares of a batch; kept from batch to batch of a thread.
class Shares {
 public:
  /// Adds a run that has begun in shares, but for the calling thread's.
  void add(CommunicatorImpl& communicator, PreparedRun& prepared);
  void give(WaitStyle style) noexcept {
    for (Share& share : shares_) share.give(style);
  }
  /// Does what no helper has begun, together, as one may wait for another; waits for the others.
  void finish(Waiter& waiter) noexcept;
  Status first_failure() const noexcept;
  void clear() noexcept {
    shares_.clear();
    rest_.clear();
    runs_ = 0;
  }

 private:
  Share& share(CommunicatorImpl& communicator, int number);
  std::deque<Share> shares_;
  Share rest_;            // has room for all
  std::size_t runs_ = 0;  // of all shares
};

}  // namespace rondo
