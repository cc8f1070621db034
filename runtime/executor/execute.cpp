// Runs to their end: moves all that can move, then helps others with what it waits for, then waits.  The only place
// that waits, times out or stops.
#include <algorithm>

#include "executor.h"

namespace rondo {

namespace {

bool over(const Execution& e) noexcept { return e.run == nullptr; }

void end(Execution& e, const Status& status) noexcept {
  if (!status.ok()) {
    e.run->stop();
    if (e.supervision.overseer != nullptr) e.supervision.overseer->run_failed(*e.run, status);
  }
  e.status = status;
  e.run = nullptr;
}

/// Calls that follow each other which one of several executions may end before the others have their turn.
constexpr int calls_at_once_max = 8;

/// Moves one execution: as far as it can if it is the only one.  True if anything moved.
bool advance_one(Execution& e, bool only, std::size_t& left) noexcept {
  bool moved = false;
  for (int calls = 0; only || calls < calls_at_once_max; ++calls) {
    moved |= e.run->progress();
    Status status = e.run->status();
    if (!e.run->done() && status.ok()) return moved;
    moved = true;
    if (status.ok() && e.feed != nullptr && e.feed->next(status)) continue;
    end(e, status);
    --left;
    return true;
  }
  return moved;
}

/// Whether `act` is true of an execution that can move, until it is: one that is not over, nor behind another of its
/// communicator that waits for its turn.
template <typename Act>
bool any_of_begun(std::span<Execution> executions, Act&& act) noexcept {
  for (std::size_t i = 0; i < executions.size(); ++i) {
    Execution& e = executions[i];
    if (over(e)) continue;
    if (act(e)) return true;
    if (!over(e) && !e.run->begun()) i += e.behind;
  }
  return false;
}

/// Moves what can move; true if anything did.  Executions that ended are marked by a null run; those at the front are
/// left out from then on.
bool advance_all(std::span<Execution>& executions, std::size_t& left) noexcept {
  if (executions.size() == 1) [[likely]]
    return advance_one(executions.front(), true, left);
  bool moved = false;
  (void)any_of_begun(executions, [&](Execution& e) noexcept {
    moved |= advance_one(e, false, left);
    return false;
  });
  while (left > 0 && over(executions.front())) executions = executions.subspan(1);
  return moved;
}

/// Does a part of others' work that these executions wait for; true if there was any.
bool help_others(std::span<Execution> executions) noexcept {
  return any_of_begun(executions, [](Execution& e) noexcept { return e.run->help(); });
}

/// Ends executions whose communicator failed or whose peer can bring nothing more, and, before a sleep, those of which
/// a watch says that nothing can come; true if any did.
bool end_failed(std::span<Execution> executions, std::size_t& left, bool sleepy = false) noexcept {
  bool ended = false;
  (void)any_of_begun(executions, [&](Execution& e) noexcept {
    Status status{static_cast<Code>(e.supervision.failed->load(std::memory_order_acquire)), -1};
    if (status.ok()) {
      status = e.run->blocked_status();
      // What the peer sent before it left may have come in after the last look.
      if (!status.ok() && (e.run->progress() || !e.run->status().ok())) return false;
    }
    if (status.ok() && sleepy && e.supervision.watch != nullptr) status = e.supervision.watch->hopeless(*e.run);
    if (status.ok()) return false;
    end(e, status);
    --left;
    ended = true;
    return false;
  });
  return ended;
}

Waiter::Sleep sleep_of(std::span<const Execution> executions) noexcept {
  auto sleep = Waiter::Sleep::until_rung;
  for (const Execution& e : executions) {
    if (over(e)) continue;
    if (e.run->polled()) return Waiter::Sleep::on_sockets;
    if (e.supervision.watch != nullptr) sleep = Waiter::Sleep::looking_up;
  }
  return sleep;
}

}  // namespace

void execute(std::span<Execution> executions, Waiter& waiter) noexcept {
  const auto running = [](const Execution& execution) { return !over(execution); };
  auto left = static_cast<std::size_t>(std::count_if(executions.begin(), executions.end(), running));
  waiter.moved();
  waiter.sleep_as(sleep_of(executions));
  while (left > 0) {
    if (advance_all(executions, left) || help_others(executions)) {
      waiter.moved();
      continue;
    }
    if (waiter.unhurried() && end_failed(executions, left)) continue;
    const auto look = [&]() noexcept {
      return advance_all(executions, left) || help_others(executions) || end_failed(executions, left, true);
    };
    const auto collect = [&](Wakeups& wakeups) noexcept {
      (void)any_of_begun(executions, [&](Execution& e) noexcept {
        e.run->add_wakeups(wakeups);
        return false;
      });
    };
    if (waiter.turn(look, collect)) continue;
    for (Execution& e : executions) {
      if (!over(e)) end(e, {Code::timeout, -1});
    }
    return;
  }
}

}  // namespace rondo
