// Calls of a queue that run at once: see run_ahead() in ../communicator.h.  Unlike those of a group they don't travel
// as one, as what is queued differs by rank: each is a run of its own that sends ahead of the answers to those before.
#include "communicator/impl.h"

namespace rondo {
namespace {

/// Calls of run_ahead(): those that are done are told in order.
struct Ahead {
  struct One final : Feed {
    Ahead* all = nullptr;
    bool done = false;
    bool next(Status&) noexcept override {
      done = true;
      all->tell();
      return false;
    }
  };
  void tell() noexcept {
    const std::size_t before = told;
    while (told < count && ones[told].done) ++told;
    if (told != before) progress.done(told);
  }
  Ahead(Progress& progress, std::size_t count) noexcept : progress(progress), count(count) {}
  Progress& progress;
  const std::size_t count;
  std::size_t told = 0;
  One ones[calls_ahead_max];
};

}  // namespace

bool run_ahead(std::span<const PendingCall> calls, Patience patience, Progress& progress, Status& status) noexcept {
  auto& communicator = static_cast<CommunicatorImpl&>(*calls.front().communicator);
  if (!communicator.order().has_turn(calls.front().turn) || !communicator.siblings().empty()) return false;
  PreparedRun* const like = communicator.find_run(calls.front().call);
  if (like == nullptr || like->shared || !like->run.gains_ahead() || !communicator.status().ok()) return false;
  PreparedRun* runs[calls_ahead_max];
  try {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      runs[i] = &communicator.collective_run(calls[i].call, i, false);
      if (!runs[i]->serves(calls[i].call)) communicator.lay_out(*runs[i], calls[i].call, {});
    }
  } catch (const std::exception&) {
    return false;  // no memory: one by one they need none
  }
  Ahead ahead(progress, calls.size());
  Execution executions[calls_ahead_max];
  for (std::size_t i = 0; i < calls.size(); ++i) {
    communicator.begin(*runs[i], calls[i].call, {.alone = false});
    ahead.ones[i].all = &ahead;
    executions[i] = {&runs[i]->run, communicator.supervision(), &ahead.ones[i], calls.size() - 1 - i, {}};
  }
  const WaitStyle style = patience == Patience::worker ? WaitStyle::polite : communicator.wait_style();
  Waiter waiter(style, communicator.doorbell(), communicator.patience());
  execute(std::span(executions, calls.size()), waiter);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!executions[i].status.ok()) [[unlikely]]
      status = communicator.status();
  }
  communicator.order().end_turns(calls.size());
  return true;
}

}  // namespace rondo
