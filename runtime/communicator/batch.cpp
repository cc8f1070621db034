// Calls that run together: each collective is a run of its own, but small all-reduces that follow each other are one
// (bundle.h); messages to one rank, or from it, follow each other in one run, as they would on their link.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/threads.h"
#include "communicator/impl.h"
#include "communicator/shares.h"

namespace rondo {
namespace {

CommunicatorImpl& impl(Communicator& communicator) noexcept { return static_cast<CommunicatorImpl&>(communicator); }

/// A communicator of a batch.
struct Member {
  CommunicatorImpl* communicator = nullptr;
  std::uint64_t turns = 0;  // that its calls took
  std::size_t collectives = 0;
  std::size_t parts = 0;   // runs
  std::size_t latest = 0;  // the part of its latest collective, where it has any
  bool shared = false;     // with helpers
};

constexpr std::uint32_t none = ~0u;

std::size_t bytes_of(const Call& call) noexcept { return call.count * element_bytes(call.type); }

/// A part of a batch: a collective, a bundle of small ones, or all messages to or from one rank.
struct Part final : Feed {
  CommunicatorImpl* communicator = nullptr;
  PreparedRun* prepared = nullptr;  // null: it could not begin
  const PendingCall* calls = nullptr;
  const std::uint32_t* following = nullptr;  // for each call: the next one of its part, or none
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::uint32_t index = 0;   // among the collectives of its communicator
  std::uint32_t member = 0;  // of the batch: its communicator
  Place place;
  Call whole;  // the first call, or what stands for the bundle

  const Call& call(std::uint32_t at) const noexcept { return calls[at].call; }
  bool is_collective() const noexcept { return call(first).kind != CollectiveKind::send_recv; }
  const Run* run() const noexcept { return prepared != nullptr ? &prepared->run : nullptr; }
  /// Whether a message belongs here.
  bool takes(const PendingCall& next) const noexcept {
    const Call& own = call(first);
    return communicator == next.communicator && own.kind == next.call.kind && own.receives == next.call.receives &&
           own.root == next.call.root && own.peer == next.call.peer;
  }
  /// Whether a collective may travel with those that are here.
  bool may_bundle(const Call& next) const noexcept {
    if (whole.kind != CollectiveKind::all_reduce || next.kind != whole.kind || next.type != whole.type ||
        next.op != whole.op || next.op == Operator::premul_sum) {
      return false;
    }
    const std::size_t most = communicator->bundle_bytes_max();
    return next.count <= most && bytes_of(whole) + bytes_of(next) <= most;
  }
  void add_to_bundle(std::uint32_t at) noexcept {
    if (whole.bundle == 0) whole.bundle = bundle::with(0, whole.count);
    whole.bundle = bundle::with(whole.bundle, call(at).count);
    whole.count += call(at).count;
  }
  /// The run that is for its first call.
  PreparedRun& run_of_first() {
    return is_collective() ? communicator->collective_run(whole, index, place.alone) : communicator->message_run(whole);
  }
  /// Starts the run with the first call.  Throws Error.
  template <typename Together>
  void begin(Together&& together) {
    PreparedRun& run = run_of_first();
    if (!run.serves(whole)) communicator->lay_out(run, whole, together());
    if (whole.bundle != 0) {
      gather(run.staging);
    } else {
      place.followed = following[first] != none;
    }
    communicator->begin(run, whole, place);
    prepared = &run;
  }
  void gather(std::vector<std::byte>& staging) {
    staging.resize(std::max(staging.size(), bytes_of(whole)));
    whole.in = whole.out = staging.data();
    std::byte* to = staging.data();
    for (std::uint32_t at = first; at != none; to += bytes_of(call(at)), at = following[at]) {
      std::memcpy(to, call(at).in, bytes_of(call(at)));
    }
  }
  /// The results of a bundle, to where they belong.
  void scatter() const noexcept {
    const std::byte* from = prepared->staging.data();
    for (std::uint32_t at = first; at != none; from += bytes_of(call(at)), at = following[at]) {
      std::memcpy(call(at).out, from, bytes_of(call(at)));
    }
  }
  bool next(Status& status) noexcept override;
};

/// Runs `action` for a part; what it throws fails the communicator and is the part's status.
template <typename Action>
void guard(CommunicatorImpl& communicator, Status& status, Action&& action) noexcept {
  try {
    action();
  } catch (const Error& error) {
    communicator.fail(error);
    status = {error.code(), -1};
  } catch (const std::exception& error) {
    communicator.fail(Error(Code::system_error, std::string("no memory for a call: ") + error.what()));
    status = {Code::system_error, -1};
  }
}

bool Part::next(Status& status) noexcept {
  first = following[first];
  if (first == none) return false;
  const Call& next = call(first);
  if (!prepared->serves(next)) {
    guard(*communicator, status, [&] { communicator->lay_out(*prepared, next, {}); });  // the links are there
    if (!status.ok()) return false;
  }
  place.continues = true;
  place.followed = following[first] != none;
  communicator->begin(*prepared, next, place);
  return true;
}

/// What a batch needs to run; kept from batch to batch of a thread.
struct Room {
  std::vector<Member> members;
  std::vector<Part> parts;
  std::vector<Execution> executions;     // one a part
  std::vector<std::uint32_t> following;  // one a call
  Shares shares;                         // helpers'

  void clear() noexcept {
    shares.clear();
    members.clear();
    parts.clear();
    executions.clear();
    following.clear();
  }
};

/// The ranks of `communicator`'s world for which a batch has calls.
std::vector<int> ranks_among(std::span<const Member> members, const CommunicatorImpl& communicator) {
  std::vector<int> ranks;
  for (const Member& member : members) {
    if (member.communicator->same_world(communicator)) ranks.push_back(member.communicator->rank());
  }
  return ranks;
}

/// Whether nobody ends before all have begun.
bool needs_all(const Run& run) noexcept {
  switch (static_cast<CollectiveKind>(run.signature().collective & ~bundle::mark)) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all: return true;
    default: return false;
  }
}

/// Sees that a call waits for a rank of this very process that no thread is there to call for.
class Stranded final : public Watch {
 public:
  explicit Stranded(const Room& room) noexcept : room_(room) {}
  Status hopeless(const Run& run) const noexcept override {
    const auto part = std::ranges::find(room_.parts, &run, &Part::run);
    if (part == room_.parts.end() || part->communicator->siblings().empty() || !threads::only_this_one_acts()) {
      return {};
    }
    try {
      const std::vector<int> here = ranks_among(room_.members, *part->communicator);
      const std::vector<int> waits_for = run.waits_for();
      for (const int sibling : part->communicator->siblings()) {
        if (std::ranges::find(here, sibling) != here.end()) continue;
        const bool needed = needs_all(run) || std::ranges::find(waits_for, sibling) != waits_for.end();
        if (needed) return {Code::invalid_usage, sibling};
      }
    } catch (const std::exception&) {
      // No memory to look: the deadline of every wait is still there.
    }
    return {};
  }

 private:
  const Room& room_;
};

WaitStyle style_of(const Room& room, Patience patience) noexcept {
  if (patience == Patience::worker) return WaitStyle::polite;
  const auto spins = [](const Member& m) { return m.communicator->wait_style() == WaitStyle::spin; };
  return std::ranges::all_of(room.members, spins) ? WaitStyle::spin : WaitStyle::yield;
}

/// Waits for the turns of all calls, and divides them into parts.
void take_up(Room& room, std::span<const PendingCall> calls) {
  room.clear();
  room.parts.reserve(calls.size());
  room.following.assign(calls.size(), none);
  std::size_t at = 0;  // among members: mostly that of the call before
  for (std::uint32_t i = 0; i < calls.size(); ++i) {
    CommunicatorImpl& communicator = impl(*calls[i].communicator);
    if (at >= room.members.size() || room.members[at].communicator != &communicator) {
      const auto known = std::ranges::find(room.members, &communicator, &Member::communicator);
      at = static_cast<std::size_t>(known - room.members.begin());
      if (known == room.members.end()) {
        room.members.push_back({.communicator = &communicator});
        if (!communicator.order().wait_for_turn(calls[i].turn, communicator.patience())) {
          communicator.fail(Error(Code::timeout, "timed out waiting for earlier calls on this communicator"));
          communicator.order().wait_for_turn(calls[i].turn, std::chrono::milliseconds(limits::abort_timeout_ms));
        }
      }
    }
    Member& member = room.members[at];
    if (calls[i].turn != CallOrder::entered) ++member.turns;
    member.shared = member.shared || communicator.shares(calls[i].call);
    const bool message = calls[i].call.kind == CollectiveKind::send_recv;
    if (message && communicator.status().ok()) {
      std::size_t& mark = communicator.mark_of(calls[i].call);  // perhaps of a batch before
      if (mark < room.parts.size() && room.parts[mark].takes(calls[i])) {
        Part& part = room.parts[mark];
        room.following[part.last] = i;
        part.last = i;
        continue;
      }
      mark = room.parts.size();
    }
    if (!message && member.collectives > 0 && communicator.status().ok()) {
      Part& part = room.parts[member.latest];
      if (part.may_bundle(calls[i].call)) {
        part.add_to_bundle(i);
        room.following[part.last] = i;
        part.last = i;
        continue;
      }
    }
    Part part;
    part.communicator = &communicator;
    part.calls = calls.data();
    part.following = room.following.data();
    part.first = part.last = i;
    part.whole = calls[i].call;
    part.member = static_cast<std::uint32_t>(at);
    if (!message) {
      part.index = static_cast<std::uint32_t>(member.collectives++);
      member.latest = room.parts.size();
    }
    ++member.parts;
    room.parts.push_back(part);
  }
  if (room.members.size() > 1) {  // the parts of each communicator together, for line_up()
    std::ranges::sort(room.parts, {}, [](const Part& part) { return std::pair(part.member, part.first); });
  }
}

/// Tells the executor which collectives wait for others of their communicator.
void line_up(Room& room) noexcept {
  for (std::size_t i = room.parts.size(); i-- > 0;) {
    const bool follows = i + 1 < room.parts.size() && room.parts[i].member == room.parts[i + 1].member &&
                         room.parts[i + 1].is_collective();
    room.executions[i].behind = follows ? room.executions[i + 1].behind + 1 : 0;
  }
}

/// Begins every part whose communicator is well; one that can't begin has no run, and its status.  The links of all are
/// wanted before any is waited for: their other ends may be here, or wait for links of one another.
void begin(Room& room) {
  room.executions.resize(room.parts.size());
  for (Part& part : room.parts) {
    const Member& member = room.members[part.member];
    part.place.alone = member.parts == 1;
    part.place.owns_ends = member.parts == 1 || member.collectives == 0;
    part.place.shared = member.shared && part.is_collective();
  }
  if (room.parts.size() > 1) {
    for (std::size_t i = 0; i < room.parts.size(); ++i) {
      Part& part = room.parts[i];
      if (!part.communicator->status().ok()) continue;
      guard(*part.communicator, room.executions[i].status, [&] {
        if (!part.run_of_first().serves(part.whole)) part.communicator->want_links(part.whole);
      });
    }
  }
  for (std::size_t i = 0; i < room.parts.size(); ++i) {
    Part& part = room.parts[i];
    Execution& execution = room.executions[i];
    execution.supervision = part.communicator->supervision();
    if (execution.status = part.communicator->status(); !execution.status.ok()) continue;
    guard(*part.communicator, execution.status, [&] {
      part.begin([&] { return ranks_among(room.members, *part.communicator); });
      if (part.place.shared) room.shares.add(*part.communicator, *part.prepared);
      execution.run = &part.prepared->run;
      if (part.place.followed) execution.feed = &part;
    });
  }
}

Status run_batch(Room& room, std::span<const PendingCall> calls, Patience patience) noexcept {
  take_up(room, calls);
  begin(room);
  line_up(room);
  std::chrono::nanoseconds wait = std::chrono::hours(24 * 365);
  const Stranded watch(room);
  for (std::size_t i = 0; i < room.parts.size(); ++i) {
    const CommunicatorImpl& communicator = *room.parts[i].communicator;
    wait = std::min(wait, communicator.patience());
    const bool watched = patience == Patience::caller && !communicator.siblings().empty();
    if (watched) room.executions[i].supervision.watch = &watch;
  }
  Waiter waiter(style_of(room, patience), control::doorbell(), wait);
  room.shares.give(style_of(room, patience));
  execute(room.executions, waiter);
  Status first;
  for (std::size_t i = 0; i < room.parts.size(); ++i) {
    const Part& part = room.parts[i];
    const Status status = room.executions[i].status;
    if (part.place.shared && part.prepared != nullptr) {
      part.communicator->count_steps(part.prepared->run.steps_walked());
    }
    if (first.ok() && !status.ok()) first = part.communicator->status();
  }
  room.shares.finish(waiter);
  for (std::size_t i = 0; i < room.parts.size(); ++i) {
    if (room.executions[i].status.ok() && room.parts[i].whole.bundle != 0) room.parts[i].scatter();
  }
  if (first.ok()) first = room.shares.first_failure();
  for (const Member& member : room.members) {
    if (member.turns > 0) member.communicator->order().end_turns(member.turns);
  }
  return first;
}

/// Runs a call alone, in a process that has other ranks of its communicator.
[[gnu::noinline]] void execute_watched(CommunicatorImpl& communicator, PreparedRun& prepared, Execution& execution,
                                       Waiter& waiter) noexcept {
  Room room;
  room.members.push_back({.communicator = &communicator});
  room.parts.emplace_back();
  room.parts.back().communicator = &communicator;
  room.parts.back().prepared = &prepared;
  const Stranded watch(room);
  execution.supervision.watch = &watch;
  execute(std::span(&execution, 1), waiter);
}

/// Looks in a row before anything is made ready for a longer wait: an answer from another core mostly comes within.
constexpr int quick_looks = 64;

/// Moves runs that have begun; whether all are done, or some have failed.
enum class Moved { done, failed, partly };
Moved move_all(std::span<PreparedRun* const> runs, int looks) noexcept {
  for (int look = 0; look < looks; ++look) {
    bool done = true;
    for (PreparedRun* const prepared : runs) {
      Run& run = prepared->run;
      if (!run.done() && !run.progress()) (void)run.help();
      if (!run.status().ok()) return Moved::failed;
      done = done && run.done();
    }
    if (done) return Moved::done;
  }
  return Moved::partly;
}

/// Moves runs that have begun; whether all are done, and well.  What is under way, or has failed, is left to execute().
/// Who shares its core gives it away once, if that comes first in a wait: what a short call waits for is mostly there
/// then.
bool finish_quickly(std::span<PreparedRun* const> runs, WaitStyle style) noexcept {
  const Moved moved = move_all(runs, style == WaitStyle::spin ? quick_looks : 1);
  if (moved != Moved::partly || style == WaitStyle::spin) return moved == Moved::done;
  if (!std::ranges::all_of(runs, [](const PreparedRun* prepared) { return prepared->run.is_short(); })) return false;
  return Waiter::yield_at_once() && move_all(runs, Waiter::looks_back) == Moved::done;
}

void end_turn(Communicator& communicator, std::uint64_t turn) noexcept {
  if (turn != CallOrder::entered) communicator.order().end_turns(1);
}

/// A call like an earlier one, with nothing before it and nothing wrong: the path of small messages.  False: take the
/// other one.
bool run_again(CommunicatorImpl& communicator, const Call& call, std::uint64_t turn, Patience patience,
               Status& status) noexcept {
  if (!communicator.order().has_turn(turn)) return false;
  PreparedRun* const prepared = communicator.find_run(call);
  if (prepared == nullptr || prepared->shared || !communicator.status().ok()) return false;
  communicator.begin(*prepared, call, {});
  if (patience == Patience::caller && finish_quickly(std::span(&prepared, 1), communicator.wait_style())) {
    end_turn(communicator, turn);
    return true;
  }
  Execution execution{.run = &prepared->run, .supervision = communicator.supervision()};
  const WaitStyle style = patience == Patience::worker ? WaitStyle::polite : communicator.wait_style();
  Waiter waiter(style, communicator.doorbell(), communicator.patience());
  if (communicator.siblings().empty() || patience == Patience::worker) [[likely]] {
    execute(std::span(&execution, 1), waiter);
  } else {
    execute_watched(communicator, *prepared, execution, waiter);
  }
  if (!execution.status.ok()) [[unlikely]]
    execution.status = communicator.status();
  status = execution.status;
  end_turn(communicator, turn);
  return true;
}

/// Calls that need no room of a batch's.
constexpr std::size_t few_max = 4;

/// What a few calls need to run.
struct Few {
  PreparedRun* runs[few_max];
  bool owns_ends[few_max];
};

/// Whether a few calls of a thread can begin at once, each in the run of an earlier one like it, as no two need the
/// same end of a link: of a communicator there is one collective alone, or messages that each are the only one of their
/// pair and direction.
bool find_runs(std::span<const PendingCall> calls, Few& few) noexcept {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    CommunicatorImpl& communicator = impl(*calls[i].communicator);
    const bool message = calls[i].call.kind == CollectiveKind::send_recv;
    std::uint64_t before = 0;  // of the same communicator
    for (std::size_t j = 0; j < i; ++j) {
      if (calls[j].communicator != &communicator) continue;
      if (!message || calls[j].call.kind != CollectiveKind::send_recv) return false;
      ++before;
    }
    const std::uint64_t turn = calls[i].turn == CallOrder::entered ? CallOrder::entered : calls[i].turn - before;
    if (!communicator.order().has_turn(turn)) return false;
    if (!communicator.siblings().empty() || !communicator.status().ok()) return false;
    PreparedRun* const run = communicator.find_run(calls[i].call);
    if (run == nullptr || run->shared || std::find(few.runs, few.runs + i, run) != few.runs + i) return false;
    few.runs[i] = run;
    few.owns_ends[i] = message;
  }
  return true;
}

/// Runs to their end what has begun.
[[gnu::noinline]] void wait_for(std::span<const PendingCall> calls, const Few& few, WaitStyle style,
                                Status& status) noexcept {
  Execution executions[few_max];
  std::chrono::nanoseconds patience = std::chrono::nanoseconds::max();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    CommunicatorImpl& communicator = impl(*calls[i].communicator);
    executions[i].run = &few.runs[i]->run;
    executions[i].supervision = communicator.supervision();
    patience = std::min(patience, communicator.patience());
  }
  Waiter waiter(style, impl(*calls.front().communicator).doorbell(), patience);
  execute(std::span(executions, calls.size()), waiter);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (status.ok() && !executions[i].status.ok()) [[unlikely]]
      status = calls[i].communicator->status();
  }
}

/// The path of small exchanges, and of calls on a few communicators at once.  False: take the other one.
bool run_few_again(std::span<const PendingCall> calls, Status& status) noexcept {
  Few few;
  if (calls.size() > few_max || !find_runs(calls, few)) return false;
  // More than one collective: they are of as many communicators.
  const bool several = calls.size() > 1 && !few.owns_ends[0] && !few.owns_ends[1];
  WaitStyle style = WaitStyle::spin;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    CommunicatorImpl& communicator = impl(*calls[i].communicator);
    const bool owns_ends = few.owns_ends[i];
    communicator.begin(*few.runs[i], calls[i].call,
                       {.alone = !owns_ends, .owns_ends = owns_ends, .among_others = several});
    few.runs[i]->run.lead();
    if (communicator.wait_style() != WaitStyle::spin) style = communicator.wait_style();
  }
  if (!finish_quickly(std::span(few.runs, calls.size()), style)) wait_for(calls, few, style, status);
  for (const PendingCall& call : calls) end_turn(*call.communicator, call.turn);
  return true;
}

}  // namespace

Status run_calls(std::span<const PendingCall> calls, Patience patience) noexcept {
  Status status;
  if (calls.size() == 1) {
    const PendingCall& only = calls.front();
    if (run_again(impl(*only.communicator), only.call, only.turn, patience, status)) return status;
  } else if (patience == Patience::caller && run_few_again(calls, status)) {
    return status;
  }
  thread_local Room room;
  return run_batch(room, calls, patience);
}

Status run_call(Communicator& communicator, const Call& call, std::uint64_t turn) noexcept {
  if (Status status; run_again(impl(communicator), call, turn, Patience::caller, status)) return status;
  const PendingCall pending{&communicator, call, turn};
  Room room;
  return run_batch(room, std::span(&pending, 1), Patience::caller);
}

}  // namespace rondo
