// Shares of a batch, walked by helpers or by the calling thread: see shares.h.
#include "communicator/shares.h"

#include <algorithm>

namespace rondo {

void Share::add(CommunicatorImpl& communicator, Run& run) {
  runs_.push_back({&communicator, &run});
  executions_.push_back({&run, communicator.supervision(), nullptr, {}});
}

void Share::make_room(std::size_t runs) {
  runs_.reserve(runs);
  executions_.reserve(runs);
}

void Share::take_in(const Share& other) noexcept {
  runs_.insert(runs_.end(), other.runs_.begin(), other.runs_.end());
  executions_.insert(executions_.end(), other.executions_.begin(), other.executions_.end());
}

void Share::give(WaitStyle style) noexcept {
  style_ = style;
  if (LaneHelpers* const helpers = communicator_->lane_helpers()) helpers->give(number_ - 1, *this);
}

bool Share::take_back() noexcept {
  LaneHelpers* const helpers = communicator_->lane_helpers();
  begun_ = helpers != nullptr && !helpers->take_back(number_ - 1);
  return !begun_;
}

void Share::await() noexcept {
  if (begun_) communicator_->lane_helpers()->await(number_ - 1);
}

std::uint64_t Share::run() noexcept {
  Waiter waiter(style_, communicator_->doorbell(), communicator_->patience());
  return run(waiter);
}

std::uint64_t Share::run(Waiter& waiter) noexcept {
  execute(executions_, waiter);
  std::uint64_t steps = 0;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    steps += runs_[i].run->steps_walked();
  }
  return steps;
}

void Share::count_as_callers() const noexcept {
  for (const Walked& walked : runs_) walked.communicator->count_steps(walked.run->steps_walked());
}

Status Share::failure() const noexcept {
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    if (!executions_[i].status.ok()) return runs_[i].communicator->status();
  }
  return {};
}

Share& Shares::share(CommunicatorImpl& communicator, int number) {
  for (Share& share : shares_) {
    if (share.is_for(communicator, number)) return share;
  }
  return shares_.emplace_back(communicator, number);
}

void Shares::add(CommunicatorImpl& communicator, PreparedRun& prepared) {
  for (int number = 1; number <= static_cast<int>(prepared.others.size()); ++number) {
    Run& run = *prepared.others[static_cast<std::size_t>(number) - 1];
    if (run.done()) continue;
    rest_.make_room(runs_ + 1);
    share(communicator, number).add(communicator, run);
    ++runs_;
  }
}

void Shares::finish(Waiter& waiter) noexcept {
  if (shares_.empty()) return;
  for (Share& share : shares_) {
    if (share.take_back()) rest_.take_in(share);
  }
  (void)rest_.run(waiter);
  rest_.count_as_callers();
  for (Share& share : shares_) share.await();
}

Status Shares::first_failure() const noexcept {
  for (const Share& share : shares_) {
    if (const Status status = share.failure(); !status.ok()) return status;
  }
  return rest_.failure();
}

}  // namespace rondo
