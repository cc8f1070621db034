// Calls in order, plans bound once, failures turned into sentences: see ../communicator.h for the contract.
#include "communicator.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "base/env.h"
#include "base/log.h"
#include "base/threads.h"
#include "communicator/choice.h"
#include "communicator/describe.h"
#include "communicator/make.h"
#include "communicator/peers.h"
#include "communicator/prepared.h"
#include "control/fork_guard.h"
#include "executor.h"
#include "plan/plan.h"

namespace rondo {
namespace {

using control::Clock;
using control::Deadline;

constexpr int ranks_listed_max = 16;  // in the log
constexpr int news_wait_ms = 1000;

/// Whether every rank of this host has a CPU to itself: then waiting callers may spin.
bool cpu_for_each(const control::Membership& membership) {
  cpu_set_t all;
  CPU_ZERO(&all);
  int here = 0;
  for (const control::Member& member : membership.members) {
    if (member.host_key != membership.members[static_cast<std::size_t>(membership.rank)].host_key) continue;
    ++here;
    cpu_set_t set;
    if (::sched_getaffinity(static_cast<pid_t>(member.pid), sizeof set, &set) == 0) CPU_OR(&all, &all, &set);
  }
  return CPU_COUNT(&all) >= here;
}

/// "shm, else tcp"
std::string names_of(const Parts& parts) {
  std::string names = parts.policy.only;
  for (std::size_t i = 0; parts.policy.only.empty() && i < parts.transports.size(); ++i) {
    names += (i == 0 ? "" : ", else ") + std::string(parts.transports[i]->name());
  }
  return names;
}

/// The hosts that every rank knows, and a ring that enters and leaves each once.
plan::Topology topology_of(const control::Membership& membership) {
  std::map<std::uint64_t, std::int32_t> numbers;
  std::vector<std::int32_t> hosts;
  for (const control::Member& member : membership.members) {
    const auto next = static_cast<std::int32_t>(numbers.size());
    hosts.push_back(numbers.try_emplace(member.host_key, next).first->second);
  }
  return plan::Topology::on_hosts(std::move(hosts));
}

class CommunicatorImpl final : public Communicator {
 public:
  CommunicatorImpl(const control::Membership& membership, Parts parts, const Options& options, Deadline deadline)
      : reducer_(parts.reducer),
        topology_(topology_of(membership)),
        hosts_(static_cast<int>(topology_.hosts().size())),
        chooser_(topology_.ranks(), hosts_, parts.policy.far, parts.tuning.of(topology_.ranks(), hosts_)),
        transports_(names_of(parts)),
        peers_(membership, std::move(parts.transports), std::move(parts.policy), deadline),
        patience_(std::chrono::seconds(env::integer("RONDO_TIMEOUT", 1, 1'000'000))),
        style_(cpu_for_each(membership) ? WaitStyle::spin : WaitStyle::yield),
        name_(options.name),
        doorbell_(control::doorbell()) {
    if (log::enabled(log::Subsystem::init)) announce();
  }

  ~CommunicatorImpl() override { (void)finalize(); }

  int rank() const noexcept override { return peers_.rank(); }
  int ranks() const noexcept override { return peers_.ranks(); }
  int hosts() const noexcept override { return hosts_; }
  std::uint64_t take_turn() noexcept override { return turns_taken_.fetch_add(1, std::memory_order_relaxed); }
  Status status() const noexcept override {
    // A forked child has the links' memory too: a call of its would pass for its parent's.
    if (control::ForkGuard::forked()) [[unlikely]]
      return {Code::invalid_usage, -1};
    return {static_cast<Code>(peers_.failed().load()), -1};
  }
  std::string failure_sentence() const override {
    if (control::ForkGuard::forked()) return control::forked_sentence;  // a lock may be held in the parent
    return peers_.failure_sentence();
  }

  void abort() noexcept override {
    try {
      const std::string who = peers_.describe(rank());
      peers_.fail(Code::invalid_usage, "the communicator was aborted by " + who, true);
    } catch (const std::exception&) {
      peers_.fail(Code::invalid_usage, "the communicator was aborted", false);
    }
  }

  Status finalize() noexcept override {
    const std::lock_guard lock(finalize_mutex_);
    if (finalized_) return {};
    finalized_ = true;
    const Deadline deadline = Clock::now() + patience_;
    if (status().ok()) wait_for_turn(turns_taken_.load());
    peers_.close(status().ok() ? deadline : Clock::now() + std::chrono::milliseconds(limits::abort_timeout_ms));
    return {};
  }

  WaitStyle wait_style() const noexcept { return style_; }
  std::chrono::nanoseconds patience() const noexcept { return patience_; }
  Supervision supervision() const noexcept { return {&peers_.failed()}; }
  const std::vector<int>& siblings() const noexcept { return peers_.siblings(); }
  bool same_world(const CommunicatorImpl& other) const noexcept {
    return peers_.membership().communicator == other.peers_.membership().communicator;
  }

  /// Blocks until every call before `turn` is over.  False: that took too long.
  bool wait_for_turn(std::uint64_t turn) noexcept {
    if (turns_done_.load(std::memory_order_acquire) == turn) [[likely]]
      return true;
    const Deadline deadline = Clock::now() + patience_;
    std::unique_lock lock(turn_mutex_);
    turn_waiters_.fetch_add(1);
    // end_turns() looks for waiters without a barrier and may miss one that has just come: hence the short sleeps.
    bool come = false;
    while (!(come = turns_done_.load() >= turn) && Clock::now() < deadline) {
      turn_changed_.wait_for(lock, std::chrono::milliseconds(1));
    }
    turn_waiters_.fetch_sub(1);
    return come;
  }

  /// Only whoever has the turn ends it.
  void end_turns(std::uint64_t count) noexcept {
    turns_done_.store(turns_done_.load(std::memory_order_relaxed) + count, std::memory_order_release);
    if (turn_waiters_.load(std::memory_order_relaxed) == 0) [[likely]]
      return;
    const std::lock_guard lock(turn_mutex_);
    turn_changed_.notify_all();
  }

  /// A call like one of the last ones, with nothing before it and nothing wrong: the path of small messages.  False:
  /// take the other one.
  bool run_again(const Call& call, std::uint64_t turn, Status& status) noexcept;

  /// Starts opening the links that `call` needs, the `index`-th of this communicator in a batch.
  void want_links(const Call& call, std::size_t index) {
    if (index < runs_.size() && runs_[index]->serves(call)) return;
    const Blueprint blueprint = choose(call);
    if (!programs_.contains(blueprint.key)) peers_.want(peers_in(draw(blueprint, call)));
  }

  /// Makes `call` ready in the `index`-th run of this batch, in which this thread makes the calls of the siblings
  /// that `together()` tells, too.  Throws Error: no link, no memory.
  template <typename Together>
  Run& prepare(const Call& call, std::size_t index, bool alone, Together&& together) {
    while (runs_.size() <= index) runs_.push_back(std::make_unique<PreparedRun>());
    PreparedRun& prepared = alone ? recent_.take(call) : *runs_[index];
    if (!prepared.serves(call)) lay_out(prepared, call, together());
    begin(prepared, call, alone);
    return prepared.run;
  }

  /// Turns the failure of a run into the communicator's, with a sentence.
  void fail(const Run& run, Status status) noexcept {
    if (!this->status().ok()) return;  // it has its sentence; the run was only ended with it
    try {
      const std::string call = "rank " + std::to_string(rank()) + ", " + describe_call(run.signature());
      switch (status.code) {
        case Code::timeout: {
          std::string whom;
          for (const int peer : run.waits_for()) whom += (whom.empty() ? "" : ", ") + peers_.describe(peer);
          const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience_).count();
          std::string text = call + ": nothing came for " + plural(seconds, "second") + " (RONDO_TIMEOUT) from " + whom;
          if (!siblings().empty()) text += "; a thread that calls for several ranks must put the calls into a group";
          return peers_.fail(Code::timeout, text, true);
        }
        case Code::invalid_usage: {
          const Mismatch& m = run.mismatch();
          if (m.peer < 0) return peers_.fail(status.code, call + ": " + peers_.stranded(status.peer), true);
          std::string theirs = describe_call(m.theirs);
          if (m.theirs == run.signature()) theirs += " in messages of " + plural(m.bytes_found, "byte");
          return peers_.fail(Code::invalid_usage,
                             "calls do not match: " + call + "; " + peers_.describe(m.peer) + ", " + theirs, true);
        }
        default: {
          const int peer = std::max(status.peer, 0);
          // A peer whose memory went away has ended: the control plane knows why in a moment, and says it better.
          for (int ms = 0; ms < news_wait_ms && this->status().ok() && !peers_.has_left(peer); ++ms) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
          if (!this->status().ok()) return;
          const std::string what = peers_.has_left(peer) ? " has left the communicator" : " cannot be reached any more";
          return peers_.fail(status.code, call + ": " + peers_.describe(peer) + what, true);
        }
      }
    } catch (const std::exception&) {
      peers_.fail(status.code, "a call failed, and there was no memory to say which", true);
    }
  }

  void fail(const Error& error) noexcept { peers_.fail(error.code(), error.what(), true); }

 private:
  void begin(PreparedRun& prepared, const Call& call, bool alone) noexcept {
    RunArguments& a = prepared.run.arguments();
    a.in = static_cast<const std::byte*>(call.in);
    a.out = static_cast<std::byte*>(call.out);
    a.reduction.scalar = call.scalar;
    a.signature.call = number(call);
    a.alone = alone;
    prepared.run.start();
  }

  /// The call's number, the same on all ranks that take part: among collectives, or among the messages of two ranks.
  std::uint32_t number(const Call& call) noexcept {
    if (call.kind != CollectiveKind::send_recv) [[likely]]
      return collectives_++;
    return call.receives ? messages_[call.root][1]++ : messages_[call.peer][0]++;
  }

  /// Once per communicator: what was agreed and what it will use.
  void announce() const {
    const control::Membership& m = peers_.membership();
    const auto say = [&](const std::string& text) {
      log::info(log::Subsystem::init, "rank " + std::to_string(rank()) + ": " + text);
    };
    std::string hosts;
    for (int r = 0; r < ranks() && r < ranks_listed_max; ++r) {
      hosts += (r == 0 ? "" : ", ") + std::to_string(r) + " on " + m.members[r].host + " pid " +
               std::to_string(m.members[r].pid);
    }
    if (ranks() > ranks_listed_max) hosts += ", ...";
    say("Rondo " RONDO_VERSION ", communicator " + (name_.empty() ? "" : name_ + " ") + std::to_string(m.communicator) +
        " of " + plural(ranks(), "rank") + ": " + hosts);
    std::string reached;
    for (const control::Address& address : m.members[rank()].addresses) {
      reached += (reached.empty() ? "" : ", ") + control::in_words(address);
    }
    say((reached.empty() ? "all ranks meet over Unix sockets of one host; links: "
                         : "other hosts reach it at " + reached + "; links: ") +
        transports_ + ", opened at first use");
    say("buffers: " + std::to_string(2 * limits::credits * (limits::slot_bytes + limits::second_slot_bytes) / 1024) +
        " KiB for each peer in use; " + "waiting calls " + (style_ == WaitStyle::spin ? "spin" : "yield") +
        ", then sleep; RONDO_TIMEOUT " +
        std::to_string(std::chrono::duration_cast<std::chrono::seconds>(patience_).count()) + " s");
    for (const std::string& line : chooser_.describe()) say("algorithm of " + line);
  }

  void lay_out(PreparedRun& prepared, const Call& call, std::span<const int> together) {
    prepared.laid_out = false;  // stays so if anything below throws
    const Blueprint blueprint = choose(call);
    if (blueprint.schedule != nullptr && log::enabled(log::Subsystem::tuning)) {
      log::info(log::Subsystem::tuning, std::string(plan::name(call.kind)) + " of " + std::to_string(bytes_of(call)) +
                                            " bytes: " + std::string(plan::name(blueprint.schedule->algorithm)) + " (" +
                                            std::string(blueprint.reason) + ")");
    }
    const Program& program = bind(blueprint, call, together);
    RunArguments& a = prepared.run.arguments();
    a.program = &program;
    a.layout = plan::Layout(program.shape(), call.count, call.type, blueprint.cut);
    a.lending = {};
    if (blueprint.lending != nullptr) {
      Blueprint other = blueprint;
      other.schedule = blueprint.lending;
      std::get<1>(other.key) = static_cast<int>(other.schedule->algorithm);
      a.lending.program = &bind(other, call, together);
      a.lending.layout = plan::Layout(a.lending.program->shape(), call.count, call.type, blueprint.cut);
      for (const plan::Layout* layout : {&a.layout, &a.lending.layout}) {
        assert(layout->tiles() == 1 && layout->slices() == 1 && "the first messages must be of the whole call");
      }
    }
    prepared.scratch.resize(a.layout.scratch_bytes());
    a.scratch = prepared.scratch.data();
    a.reduction = {call.type, call.op, ranks(), 0};
    a.reduce = reducer_.find(call.type, call.op);
    a.signature = {call.count,
                   0,
                   static_cast<std::uint8_t>(call.kind),
                   static_cast<std::uint8_t>(call.type),
                   static_cast<std::uint8_t>(call.op),
                   static_cast<std::uint8_t>(call.root)};
    a.may_lend = call.op != Operator::premul_sum;
    prepared.call = call;
    prepared.laid_out = true;
  }

  /// Kind; algorithm, or a message's side; root, or a message's other rank.
  using ProgramKey = std::tuple<CollectiveKind, int, int>;
  enum Side : int { receives, sends, lends };  // of a message

  /// Which program a call needs.
  struct Blueprint {
    ProgramKey key;
    const plan::Schedule* schedule = nullptr;  // null: one side of a send and a receive
    std::string_view reason;
    plan::Cut cut;
    const plan::Schedule* lending = nullptr;  // the one to run where all ranks can lend, if another
  };

  /// Of the larger of a rank's buffers.
  std::uint64_t bytes_of(const Call& call) const noexcept {
    const bool whole = call.kind == CollectiveKind::all_reduce || call.kind == CollectiveKind::broadcast ||
                       call.kind == CollectiveKind::reduce;
    return call.count * element_bytes(call.type) * (whole ? 1 : ranks());
  }

  Blueprint choose(const Call& call) const {
    Blueprint blueprint;
    if (call.kind == CollectiveKind::send_recv) {
      const bool short_one = call.count * element_bytes(call.type) <= limits::slot_bytes;
      const Side side = call.receives ? receives : short_one ? sends : lends;
      blueprint.key = {call.kind, side, call.receives ? call.root : call.peer};
      return blueprint;
    }
    const Choice choice = chooser_.choose(call.kind, bytes_of(call));
    blueprint.schedule = plan::find(call.kind, choice.algorithm);
    assert(blueprint.schedule != nullptr);
    blueprint.reason = choice.reason;
    blueprint.key = {call.kind, static_cast<int>(choice.algorithm), call.root};
    blueprint.cut = choice.cut;
    if (choice.lending) blueprint.lending = plan::find(call.kind, *choice.lending);
    if (blueprint.schedule->lanes > 1) {
      blueprint.cut.slot_bytes = std::min(blueprint.cut.slot_bytes, limits::second_slot_bytes);
    }
    return blueprint;
  }

  plan::Plan draw(const Blueprint& blueprint, const Call& call) const {
    if (blueprint.schedule != nullptr) return blueprint.schedule->build(topology_, rank(), call.root);
    const auto [kind, side, other] = blueprint.key;
    return side == receives ? plan::receive_from(other) : plan::send_to(other, side == lends);
  }

  static std::vector<int> peers_in(const plan::Plan& plan) {
    std::vector<int> peers;
    for (const plan::Strand& strand : plan.strands) {
      for (const plan::Step& step : strand.steps) {
        peers.insert(peers.end(), step.from.begin(), step.from.end());
        peers.insert(peers.end(), step.to.begin(), step.to.end());
      }
    }
    std::erase(peers, plan::here);
    std::sort(peers.begin(), peers.end());
    peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
    return peers;
  }

  const Program& bind(const Blueprint& blueprint, const Call& call, std::span<const int> together) {
    if (const auto found = programs_.find(blueprint.key); found != programs_.end()) return *found->second;
    const plan::Plan plan = draw(blueprint, call);
    peers_.connect(peers_in(plan), together, Clock::now() + patience_);
    const bool message = blueprint.schedule == nullptr;
    const plan::Collective collective{call.kind, ranks(), message ? 1 : blueprint.schedule->blocks(topology_),
                                      call.root, message ? call.peer : 0};
    const int widest = message ? 1 : blueprint.schedule->widest(topology_);
    auto program = std::make_unique<Program>(collective, plan, widest, peers_);
    return *programs_.emplace(blueprint.key, std::move(program)).first->second;
  }

  const Reducer& reducer_;
  const plan::Topology topology_;
  const int hosts_;
  const Chooser chooser_;
  const std::string transports_;  // in words
  Peers peers_;
  const std::chrono::nanoseconds patience_;
  const WaitStyle style_;
  const std::string name_;
  Doorbell& doorbell_;

  std::atomic<std::uint64_t> turns_taken_{0};
  alignas(limits::cache_line_bytes) std::atomic<std::uint64_t> turns_done_{0};
  std::atomic<int> turn_waiters_{0};
  std::mutex turn_mutex_;
  std::condition_variable turn_changed_;
  // Used by whoever has the turn.
  std::vector<std::unique_ptr<PreparedRun>> runs_;  // of calls in a group
  RecentRuns recent_;                               // of calls alone
  std::map<ProgramKey, std::unique_ptr<Program>> programs_;
  std::uint32_t collectives_ = 0;                                                                            // begun
  std::vector<std::array<std::uint32_t, 2>> messages_ = std::vector<std::array<std::uint32_t, 2>>(ranks());  // to, from

  std::mutex finalize_mutex_;
  bool finalized_ = false;
};

CommunicatorImpl& impl(Communicator& communicator) noexcept { return static_cast<CommunicatorImpl&>(communicator); }

/// A call of a batch.
struct Item {
  CommunicatorImpl* communicator = nullptr;
  const Run* run = nullptr;
  std::size_t index = 0;  // among the calls of its communicator in this batch
};

/// The ranks of `communicator`'s world for which `items` have calls.
std::vector<int> ranks_among(std::span<const Item> items, const CommunicatorImpl& communicator) {
  std::vector<int> ranks;
  for (const Item& item : items) {
    if (item.communicator->same_world(communicator)) ranks.push_back(item.communicator->rank());
  }
  return ranks;
}

/// Whether nobody ends before all have begun.
bool needs_all(const Run& run) noexcept {
  switch (static_cast<CollectiveKind>(run.signature().collective)) {
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
  explicit Stranded(std::span<const Item> items) noexcept : items_(items) {}
  Status hopeless(const Run& run) const noexcept override {
    const auto item = std::ranges::find_if(items_, [&](const Item& i) { return i.run == &run; });
    if (item == items_.end() || item->communicator->siblings().empty() || !threads::only_this_one_acts()) return {};
    try {
      const std::vector<int> here = ranks_among(items_, *item->communicator);
      const std::vector<int> waits_for = run.waits_for();
      for (const int sibling : item->communicator->siblings()) {
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
  std::span<const Item> items_;
};

bool CommunicatorImpl::run_again(const Call& call, std::uint64_t turn, Status& status) noexcept {
  if (turns_done_.load(std::memory_order_acquire) != turn) return false;
  PreparedRun* const prepared = recent_.find(call);
  if (prepared == nullptr || !this->status().ok()) return false;
  begin(*prepared, call, true);
  const Item item{this, &prepared->run, 0};
  const Stranded watch(std::span(&item, 1));
  Execution execution{&prepared->run, supervision(), {}};
  if (!siblings().empty()) execution.supervision.watch = &watch;
  Waiter waiter(style_, doorbell_, patience_);
  execute(std::span(&execution, 1), waiter);
  if (!execution.status.ok()) [[unlikely]] {
    fail(prepared->run, execution.status);
    execution.status = this->status();
  }
  status = execution.status;
  end_turns(1);
  return true;
}

/// The calls of a batch, with room for small ones in place.
struct Batch {
  std::span<PendingCall> calls;
  std::span<Item> items;
  std::span<Execution> executions;
};

WaitStyle style_of(const Batch& batch, Patience patience) noexcept {
  if (patience == Patience::worker) return WaitStyle::polite;
  WaitStyle style = WaitStyle::spin;
  for (const Item& item : batch.items) {
    if (item.communicator->wait_style() != WaitStyle::spin) style = WaitStyle::yield;
  }
  return style;
}

/// Runs `action` for a call; what it throws fails the communicator and is the call's status.
template <typename Action>
void guard(const Item& item, Execution& execution, Action&& action) noexcept {
  try {
    action();
  } catch (const Error& error) {
    item.communicator->fail(error);
    execution.status = {error.code(), -1};
  } catch (const std::exception& error) {
    item.communicator->fail(Error(Code::system_error, std::string("no memory for a call: ") + error.what()));
    execution.status = {Code::system_error, -1};
  }
}

/// Waits for the turns of all calls, and starts opening the links that several communicators need before it waits for
/// any: their other ends may be here, or wait for links of one another.
void take_up(Batch& batch) noexcept {
  for (std::size_t i = 0; i < batch.calls.size(); ++i) {
    PendingCall& call = batch.calls[i];
    Item& item = batch.items[i];
    item.communicator = &impl(*call.communicator);
    item.index = static_cast<std::size_t>(
        std::count_if(batch.calls.begin(), batch.calls.begin() + static_cast<std::ptrdiff_t>(i),
                      [&](const PendingCall& earlier) { return earlier.communicator == call.communicator; }));
    batch.executions[i].supervision = item.communicator->supervision();
    if (item.index == 0 && !item.communicator->wait_for_turn(call.turn)) {
      item.communicator->fail(Error(Code::timeout, "timed out waiting for earlier calls on this communicator"));
    }
  }
  if (batch.calls.size() == 1) return;
  for (std::size_t i = 0; i < batch.calls.size(); ++i) {
    const Item& item = batch.items[i];
    if (!item.communicator->status().ok()) continue;
    guard(item, batch.executions[i], [&] { item.communicator->want_links(batch.calls[i].call, item.index); });
  }
}

/// Prepares every call whose communicator is well; a call that can't begin has a null run and its status.
void prepare(Batch& batch) noexcept {
  take_up(batch);
  for (std::size_t i = 0; i < batch.calls.size(); ++i) {
    const PendingCall& call = batch.calls[i];
    Item& item = batch.items[i];
    Execution& execution = batch.executions[i];
    if (execution.status = item.communicator->status(); !execution.status.ok()) continue;
    const bool alone = std::ranges::count(batch.calls, call.communicator, &PendingCall::communicator) == 1;
    guard(item, execution, [&] {
      const auto together = [&] { return ranks_among(batch.items, *item.communicator); };
      execution.run = &item.communicator->prepare(call.call, item.index, alone, together);
      item.run = execution.run;
    });
  }
}

Status run_batch(Batch& batch, Patience patience) noexcept {
  prepare(batch);
  std::chrono::nanoseconds wait = std::chrono::hours(24 * 365);
  const Stranded watch(batch.items);
  for (std::size_t i = 0; i < batch.items.size(); ++i) {
    const CommunicatorImpl& communicator = *batch.items[i].communicator;
    wait = std::min(wait, communicator.patience());
    const bool watched = patience == Patience::caller && !communicator.siblings().empty();
    if (watched) batch.executions[i].supervision.watch = &watch;
  }
  Waiter waiter(style_of(batch, patience), control::doorbell(), wait);
  execute(batch.executions, waiter);
  Status first;
  for (std::size_t i = 0; i < batch.items.size(); ++i) {
    Item& item = batch.items[i];
    const Status status = batch.executions[i].status;
    if (!status.ok() && item.run != nullptr) item.communicator->fail(*item.run, status);
    if (first.ok() && !status.ok()) first = item.communicator->status();
  }
  for (const Item& item : batch.items) item.communicator->end_turns(1);
  return first;
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(const control::Membership& membership, Parts parts,
                                                const Communicator::Options& options, Deadline deadline) {
  return std::make_unique<CommunicatorImpl>(membership, std::move(parts), options, deadline);
}

Status run_calls(std::span<PendingCall> calls, Patience patience) noexcept {
  constexpr std::size_t in_place = 8;
  if (calls.size() <= in_place) {
    std::array<Item, in_place> items;
    std::array<Execution, in_place> executions;
    Batch batch{calls, std::span(items).first(calls.size()), std::span(executions).first(calls.size())};
    return run_batch(batch, patience);
  }
  std::vector<Item> items(calls.size());
  std::vector<Execution> executions(calls.size());
  Batch batch{calls, items, executions};
  return run_batch(batch, patience);
}

Status run_call(Communicator& communicator, const Call& call) noexcept {
  CommunicatorImpl& self = impl(communicator);
  const std::uint64_t turn = self.take_turn();
  if (Status status; self.run_again(call, turn, status)) return status;
  PendingCall pending{&communicator, call, turn};
  return run_calls(std::span(&pending, 1), Patience::caller);
}

}  // namespace rondo
