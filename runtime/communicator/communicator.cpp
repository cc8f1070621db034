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
#include "communicator/choice.h"
#include "communicator/make.h"
#include "communicator/peers.h"
#include "control/fork_guard.h"
#include "executor.h"
#include "plan/plan.h"

namespace rondo {
namespace {

using control::Clock;
using control::Deadline;

constexpr int ranks_listed_max = 16;  // in the log
constexpr int news_wait_ms = 1000;

std::string plural(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string_view type_name(std::uint8_t type) {
  static constexpr std::string_view names[data_type_count] = {"int8",    "uint8",    "int32",      "uint32",
                                                              "int64",   "uint64",   "float16",    "float32",
                                                              "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  return type < data_type_count ? names[type] : "unknown";
}

std::string_view operator_name(std::uint8_t op) {
  static constexpr std::string_view names[operator_count] = {"sum", "prod", "max", "min", "avg", "premul_sum"};
  return op < operator_count ? names[op] : "unknown";
}

/// "call 7: all_reduce of 1024 float32 elements (sum)"
std::string describe_call(const Signature& s) {
  const plan::Collective collective{static_cast<CollectiveKind>(s.collective)};
  std::string text = "call " + std::to_string(s.call) + ": " + std::string(plan::name(collective.kind)) + " of " +
                     plural(s.count, std::string(type_name(s.type)) + " element");
  if (collective.reduces()) text += " (" + std::string(operator_name(s.op)) + ")";
  switch (collective.kind) {
    case CollectiveKind::broadcast:
    case CollectiveKind::scatter: return text + " from root " + std::to_string(s.root_low);
    case CollectiveKind::reduce:
    case CollectiveKind::gather: return text + " to root " + std::to_string(s.root_low);
    case CollectiveKind::send_recv: return text + " from rank " + std::to_string(s.root_low);
    default: return text;
  }
}

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
    runs_.push_back(std::make_unique<PreparedRun>());
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

  /// A call like the last one, with nothing before it and nothing wrong: the path of small messages.  False: take the
  /// other one.
  bool run_again(const Call& call, std::uint64_t turn, Status& status) noexcept {
    PreparedRun& prepared = *runs_.front();
    if (turns_done_.load(std::memory_order_acquire) != turn || !prepared.serves(call) || !this->status().ok()) {
      return false;
    }
    begin(prepared, call, true);
    Execution execution{&prepared.run, supervision(), {}};
    Waiter waiter(style_, doorbell_, patience_);
    execute(std::span(&execution, 1), waiter);
    if (!execution.status.ok()) [[unlikely]] {
      fail(prepared.run, execution.status);
      execution.status = this->status();
    }
    status = execution.status;
    end_turns(1);
    return true;
  }

  /// Makes `call` ready in the `index`-th run of this batch.  Throws Error: no link, no memory.
  Run& prepare(const Call& call, std::size_t index, bool alone) {
    while (runs_.size() <= index) runs_.push_back(std::make_unique<PreparedRun>());
    PreparedRun& prepared = *runs_[index];
    if (!prepared.serves(call)) lay_out(prepared, call);
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
          return peers_.fail(Code::timeout,
                             call + ": nothing came for " + plural(seconds, "second") + " (RONDO_TIMEOUT) from " + whom,
                             true);
        }
        case Code::invalid_usage: {
          const Mismatch& m = run.mismatch();
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
  /// A run, and the last call it was laid out for.
  struct PreparedRun {
    bool laid_out = false;
    Call call;
    std::vector<std::byte> scratch;
    Run run;
    bool serves(const Call& next) const noexcept {
      return laid_out && call.kind == next.kind && call.count == next.count && call.type == next.type &&
             call.op == next.op && call.root == next.root && call.peer == next.peer && call.receives == next.receives;
    }
  };

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

  void lay_out(PreparedRun& prepared, const Call& call) {
    plan::Collective collective{call.kind, ranks(), 1, call.root, 0};
    const bool whole = call.kind == CollectiveKind::all_reduce || call.kind == CollectiveKind::broadcast ||
                       call.kind == CollectiveKind::reduce;
    const std::uint64_t bytes = call.count * element_bytes(call.type) * (whole ? 1 : ranks());
    prepared.laid_out = false;  // stays so if anything below throws
    plan::Cut cut;
    const bool messages = call.kind == CollectiveKind::send_recv;
    const Program& program = messages ? bind_message(call) : choose_and_bind(collective, bytes, cut);
    RunArguments& a = prepared.run.arguments();
    a.program = &program;
    a.layout = plan::Layout(program.shape(), call.count, call.type, cut);
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

  const Program& choose_and_bind(plan::Collective collective, std::uint64_t bytes, plan::Cut& cut) {
    const Choice choice = chooser_.choose(collective.kind, bytes);
    const plan::Schedule* schedule = plan::find(collective.kind, choice.algorithm);
    assert(schedule != nullptr);
    if (log::enabled(log::Subsystem::tuning)) {
      log::info(log::Subsystem::tuning, std::string(plan::name(collective.kind)) + " of " + std::to_string(bytes) +
                                            " bytes: " + std::string(plan::name(choice.algorithm)) + " (" +
                                            std::string(choice.reason) + ")");
    }
    cut = choice.cut;
    if (schedule->lanes > 1) cut.slot_bytes = std::min(cut.slot_bytes, limits::second_slot_bytes);
    const auto key = std::make_tuple(collective.kind, static_cast<int>(choice.algorithm), collective.root);
    if (const auto found = programs_.find(key); found != programs_.end()) return *found->second;
    collective.blocks = schedule->blocks(topology_);
    return bind(key, collective, schedule->build(topology_, rank(), collective.root), schedule->widest(topology_));
  }

  /// One side of a send and a receive.
  const Program& bind_message(const Call& call) {
    enum Side { receives, sends, lends };
    const bool short_one = call.count * element_bytes(call.type) <= limits::slot_bytes;
    const Side side = call.receives ? receives : short_one ? sends : lends;
    const int other = call.receives ? call.root : call.peer;
    const auto key = std::make_tuple(call.kind, static_cast<int>(side), other);
    if (const auto found = programs_.find(key); found != programs_.end()) return *found->second;
    return bind(key, {call.kind, ranks(), 1, call.root, call.peer},
                call.receives ? plan::receive_from(other) : plan::send_to(other, side == lends), 1);
  }

  /// Kind; algorithm, or a message's side; root, or a message's other rank.
  using ProgramKey = std::tuple<CollectiveKind, int, int>;
  const Program& bind(const ProgramKey& key, const plan::Collective& collective, const plan::Plan& plan, int widest) {
    std::vector<int> peers;
    for (const plan::Strand& strand : plan.strands) {
      for (const plan::Step& step : strand.steps) {
        for (const int peer : step.from) peers.push_back(peer);
        for (const int peer : step.to) peers.push_back(peer);
      }
    }
    std::erase(peers, plan::here);
    std::sort(peers.begin(), peers.end());
    peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
    peers_.connect(peers, Clock::now() + patience_);
    auto program = std::make_unique<Program>(collective, plan, widest, peers_);
    return *programs_.emplace(key, std::move(program)).first->second;
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
  std::vector<std::unique_ptr<PreparedRun>> runs_;
  std::map<ProgramKey, std::unique_ptr<Program>> programs_;
  std::uint32_t collectives_ = 0;                                                                            // begun
  std::vector<std::array<std::uint32_t, 2>> messages_ = std::vector<std::array<std::uint32_t, 2>>(ranks());  // to, from

  std::mutex finalize_mutex_;
  bool finalized_ = false;
};

CommunicatorImpl& impl(Communicator& communicator) noexcept { return static_cast<CommunicatorImpl&>(communicator); }

/// The calls of a batch, with room for small ones in place.
struct Batch {
  struct Item {
    CommunicatorImpl* communicator = nullptr;
    const Run* run = nullptr;
    bool first = false;  // of its communicator in this batch
  };
  std::span<PendingCall> calls;
  std::span<Item> items;
  std::span<Execution> executions;
};

WaitStyle style_of(const Batch& batch, Patience patience) noexcept {
  if (patience == Patience::worker) return WaitStyle::polite;
  WaitStyle style = WaitStyle::spin;
  for (const Batch::Item& item : batch.items) {
    if (item.communicator->wait_style() != WaitStyle::spin) style = WaitStyle::yield;
  }
  return style;
}

/// Prepares every call whose communicator is well; a call that can't begin has a null run and its status.
void prepare(Batch& batch) noexcept {
  for (std::size_t i = 0; i < batch.calls.size(); ++i) {
    PendingCall& call = batch.calls[i];
    Batch::Item& item = batch.items[i];
    Execution& execution = batch.executions[i];
    item.communicator = &impl(*call.communicator);
    std::size_t index = 0;
    std::size_t same = 0;
    for (std::size_t j = 0; j < batch.calls.size(); ++j) {
      if (batch.calls[j].communicator != call.communicator) continue;
      index += j < i ? 1 : 0;
      ++same;
    }
    item.first = index == 0;
    execution.supervision = item.communicator->supervision();
    if (item.first && !item.communicator->wait_for_turn(call.turn)) {
      item.communicator->fail(Error(Code::timeout, "timed out waiting for earlier calls on this communicator"));
    }
    if (execution.status = item.communicator->status(); !execution.status.ok()) continue;
    try {
      execution.run = &item.communicator->prepare(call.call, index, same == 1);
      item.run = execution.run;
    } catch (const Error& error) {
      item.communicator->fail(error);
      execution.status = {error.code(), -1};
    } catch (const std::exception& error) {
      item.communicator->fail(Error(Code::system_error, std::string("no memory for a call: ") + error.what()));
      execution.status = {Code::system_error, -1};
    }
  }
}

Status run_batch(Batch& batch, Patience patience) noexcept {
  prepare(batch);
  std::chrono::nanoseconds wait = std::chrono::hours(24 * 365);
  for (const Batch::Item& item : batch.items) wait = std::min(wait, item.communicator->patience());
  Waiter waiter(style_of(batch, patience), control::doorbell(), wait);
  execute(batch.executions, waiter);
  Status first;
  for (std::size_t i = 0; i < batch.items.size(); ++i) {
    Batch::Item& item = batch.items[i];
    const Status status = batch.executions[i].status;
    if (!status.ok() && item.run != nullptr) item.communicator->fail(*item.run, status);
    if (first.ok() && !status.ok()) first = item.communicator->status();
  }
  for (const Batch::Item& item : batch.items) item.communicator->end_turns(1);
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
    std::array<Batch::Item, in_place> items;
    std::array<Execution, in_place> executions;
    Batch batch{calls, std::span(items).first(calls.size()), std::span(executions).first(calls.size())};
    return run_batch(batch, patience);
  }
  std::vector<Batch::Item> items(calls.size());
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
