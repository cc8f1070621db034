// Calls in order, plans bound once, failures turned into sentences: see ../communicator.h for the contract.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <thread>

#include "base/env.h"
#include "base/log.h"
#include "base/processor.h"
#include "communicator/describe.h"
#include "communicator/impl.h"

namespace rondo {
Host host_of(const control::Membership& membership) {
  std::map<std::uint64_t, int> sets;
  Host host;
  for (const control::Member& member : membership.members) {
    if (member.host_key != membership.members[static_cast<std::size_t>(membership.rank)].host_key) continue;
    ++host.ranks;
    sets[member.cpus_key] = member.cpus == 0 ? CPU_SETSIZE : member.cpus;
  }
  for (const auto& [key, cpus] : sets) host.cpus += cpus;
  return host;
}

namespace {

using control::Clock;
using control::Deadline;

constexpr int ranks_listed_max = 16;  // in the log
constexpr int news_wait_ms = 2 * limits::news_wait_ms;

/// Callers may spin where every rank of this host has a CPU for each of its threads.
WaitStyle style_on(const Host& host, int threads) {
  return host.cpus >= host.ranks * threads ? WaitStyle::spin : WaitStyle::yield;
}

int threads_of(const LanePolicy& lanes, const Host& host) {
  return lanes.lanes == 1 ? 1 : lanes.threads_on(host.cpus, host.ranks);
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

/// The ranks that a plan sends to or receives from.
std::vector<int> peers_in(const plan::Plan& plan) {
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

}  // namespace

CommunicatorImpl::CommunicatorImpl(const control::Membership& membership, Parts parts, const Options& options,
                                   Deadline deadline)
    : reducer_(parts.reducer),
      topology_(topology_of(membership)),
      hosts_(static_cast<int>(topology_.hosts().size())),
      host_(host_of(membership)),
      chooser_(topology_.ranks(), hosts_, parts.policy.reach, host_.crowded(),
               parts.tuning.of(topology_.ranks(), hosts_)),
      transports_(names_of(parts)),
      lanes_(parts.lanes),
      peers_(membership, std::move(parts.transports), std::move(parts.policy), deadline),
      group_bytes_(static_cast<std::size_t>(env::integer("RONDO_GROUP_BYTES", 0, bundle::elements_max))),
      patience_(std::chrono::seconds(env::integer("RONDO_TIMEOUT", 1, 1'000'000))),
      threads_(threads_of(lanes_, host_)),
      style_(style_on(host_, threads_)),
      name_(options.name),
      doorbell_(control::doorbell()) {
  if (log::enabled(log::Subsystem::init)) announce();
}

CommunicatorImpl::~CommunicatorImpl() {
  (void)finalize();
  if (lane_helpers_ == nullptr || control::ForkGuard::forked() || !log::enabled(log::Subsystem::coll)) return;
  for (int i = 0; i < lane_helpers_->count(); ++i) {
    const LaneHelpers::Counts counts = lane_helpers_->counts(i);
    log::info(log::Subsystem::coll, "lane helper " + std::to_string(i + 1) + " walked " +
                                        std::to_string(counts.pieces) + " shares of " + std::to_string(counts.steps) +
                                        " steps");
  }
  log::info(log::Subsystem::coll, "calling threads walked " + std::to_string(steps_walked_) + " steps, and took back " +
                                      std::to_string(lane_helpers_->taken_back()) + " shares from lane helpers");
}

void CommunicatorImpl::begin_others(PreparedRun& prepared) noexcept {
  const RunArguments& a = prepared.run.arguments();
  int share = 0;
  for (const auto& run : prepared.others) {
    run->arguments() = a;
    run->arguments().share = ++share;
    run->start();
  }
}

std::string CommunicatorImpl::failure_sentence() const {
  if (control::ForkGuard::forked()) return control::forked_sentence;  // a lock may be held in the parent
  return peers_.failure_sentence();
}

void CommunicatorImpl::abort() noexcept {
  try {
    const std::string who = peers_.describe(rank());
    peers_.fail(Code::invalid_usage, "the communicator was aborted by " + who, true);
  } catch (const std::exception&) {
    peers_.fail(Code::invalid_usage, "the communicator was aborted", false);
  }
}

Status CommunicatorImpl::finalize() noexcept {
  const std::lock_guard lock(finalize_mutex_);
  if (finalized_) return {};
  finalized_ = true;
  order_.revoke();
  if (status().ok()) order_.wait_for_turn(order_.turns_taken(), patience_);
  const auto patience = status().ok() ? patience_ : std::chrono::milliseconds(limits::abort_timeout_ms);
  peers_.close(Clock::now() + patience);
  return {};
}

void CommunicatorImpl::run_failed(const Run& run, const Status& status) noexcept {
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
        if (((m.theirs.collective | run.signature().collective) & bundle::mark) != 0) {
          theirs += "; all ranks must make the same groups of small all-reduces (or set RONDO_GROUP_BYTES=0)";
        }
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
        const std::string why = peers_.trouble(peer);
        const std::string what = !why.empty()            ? " cannot be reached: " + why
                                 : peers_.has_left(peer) ? " has left the communicator"
                                                         : " cannot be reached any more";
        return peers_.fail(status.code, call + ": " + peers_.describe(peer) + what, true);
      }
    }
  } catch (const std::exception&) {
    peers_.fail(status.code, "a call failed, and there was no memory to say which", true);
  }
}

void CommunicatorImpl::announce() const {
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
  const std::size_t slots = lanes_.lanes == 1 ? limits::slot_bytes + limits::second_slot_bytes
                                              : limits::slot_bytes * static_cast<std::size_t>(lanes_.lanes);
  say("buffers: " + std::to_string(2 * limits::credits * slots / 1024) + " KiB for each peer in use" +
      (lanes_.lanes == 1 ? "" : " on " + std::to_string(lanes_.lanes) + " lanes") + "; " + "waiting calls " +
      (style_ == WaitStyle::spin ? "spin" : "yield") + ", then sleep; RONDO_TIMEOUT " +
      std::to_string(std::chrono::duration_cast<std::chrono::seconds>(patience_).count()) + " s");
  for (const std::string& line : chooser_.describe()) say("algorithm of " + line);
}

void CommunicatorImpl::want_links(const Call& call) {
  const Blueprint blueprint = choose(call);
  if (!programs_.contains(blueprint.key)) peers_.want(peers_in(draw(blueprint, call)));
}

void CommunicatorImpl::lay_out(PreparedRun& prepared, const Call& call, std::span<const int> together) {
  prepared.laid_out = false;  // stays so if anything below throws
  prepared.shared = shares(call);
  if (prepared.shared && lane_helpers_ == nullptr) lane_helpers_ = std::make_unique<LaneHelpers>(threads_ - 1);
  const std::size_t others = call.kind == CollectiveKind::send_recv ? 0 : static_cast<std::size_t>(threads_) - 1;
  while (prepared.others.size() < others) prepared.others.push_back(std::make_unique<Run>());
  const Blueprint blueprint = choose(call);
  if (blueprint.schedule != nullptr && log::enabled(log::Subsystem::tuning)) {
    log::info(log::Subsystem::tuning,
              std::string(plan::name(call.kind)) + " of " + std::to_string(bytes_of(call)) + " bytes: " +
                  std::string(plan::name(blueprint.schedule->algorithm)) + " (" + std::string(blueprint.reason) + ")" +
                  (blueprint.stripes > 1 ? " in " + plural(blueprint.stripes, "stripe") : "") +
                  ", messages of at most " + std::to_string(blueprint.cut.slot_bytes / 1024) + " KiB");
  }
  const Program& program = bind(blueprint, call, together);
  RunArguments& a = prepared.run.arguments();
  a.program = &program;
  a.layout = plan::Layout(program.shape(), call.count, call.type, blueprint.cut);
  a.lending = {};
  if (blueprint.lending != nullptr) a.lending = alternative(blueprint, call, together);
  assert(a.lending.program == nullptr || (a.layout.tiles() == 1 && a.layout.slices() == 1));
  prepared.scratch.resize(a.layout.scratch_bytes());
  a.scratch = prepared.scratch.data();
  a.reduction = {call.type, call.op, ranks(), 0};
  a.reduce = reducer_.find(call.type, call.op);
  const bool bundled = call.bundle != 0;
  a.signature = {bundled ? call.bundle : call.count,
                 0,
                 static_cast<std::uint8_t>(static_cast<int>(call.kind) | (bundled ? bundle::mark : 0)),
                 static_cast<std::uint8_t>(call.type),
                 static_cast<std::uint8_t>(call.op),
                 static_cast<std::uint8_t>(call.root)};
  a.may_lend = call.op != Operator::premul_sum;
  const Copying copying{ranks(), host_.crowded(), processor::writers_wait_for_readers()};
  a.by_address = gains_by_address(call.kind, a.layout.total_bytes(), copying);
  a.shelf = blueprint.shelf && call.root == rank() ? shelf() : nullptr;
  prepared.run.prepare();
  prepared.call = call;
  prepared.laid_out = true;
}

Shelf* CommunicatorImpl::shelf() {
  if (shelf_ != nullptr) return shelf_.get();
  constexpr std::size_t bytes = limits::shelf_rooms * limits::slot_bytes;
  try {
    shelf_memory_.reset(static_cast<std::byte*>(memory_alloc(bytes)));
  } catch (const Error& error) {
    log::info(log::Subsystem::alloc, std::string("Broadcasts go without a shelf: ") + error.what() + ".");
    return nullptr;
  }
  shelf_ = std::make_unique<Shelf>(shelf_memory_.get(), limits::slot_bytes, limits::shelf_rooms,
                                   static_cast<std::size_t>(ranks()) - 1);
  return shelf_.get();
}

Alternative CommunicatorImpl::alternative(Blueprint blueprint, const Call& call, std::span<const int> together) {
  blueprint.schedule = blueprint.lending;
  std::get<1>(blueprint.key) = static_cast<int>(blueprint.schedule->algorithm);
  const Program& program = bind(blueprint, call, together);
  const plan::Layout layout(program.shape(), call.count, call.type, blueprint.cut);
  assert(layout.tiles() == 1 && layout.slices() == 1 && layout.scratch_bytes() == 0);
  return {&program, layout};
}

std::size_t CommunicatorImpl::bundle_bytes_max() noexcept {
  if (bundle_bytes_max_) return *bundle_bytes_max_;
  std::size_t bytes = 0;
  const auto suits = [&](std::size_t size) {
    return chooser_.choose(CollectiveKind::all_reduce, size).algorithm == plan::Algorithm::one_shot;
  };
  while (ranks() > 1 && bytes < group_bytes_ && suits(bytes + 1)) ++bytes;
  return *(bundle_bytes_max_ = bytes);
}

std::uint64_t CommunicatorImpl::bytes_of(const Call& call) const noexcept {
  const bool whole = call.kind == CollectiveKind::all_reduce || call.kind == CollectiveKind::broadcast ||
                     call.kind == CollectiveKind::reduce;
  return call.count * element_bytes(call.type) * (whole ? 1 : ranks());
}

CommunicatorImpl::Blueprint CommunicatorImpl::choose(const Call& call) const {
  Blueprint blueprint;
  if (call.kind == CollectiveKind::send_recv) {
    const bool short_one = call.count * element_bytes(call.type) <= limits::sent_bytes_max;
    const Side side = call.receives ? receives : short_one ? sends : lends;
    blueprint.key = {call.kind, side, call.receives ? call.root : call.peer, 1};
    return blueprint;
  }
  const std::uint64_t bytes = bytes_of(call);
  const Choice choice = chooser_.choose(call.kind, bytes);
  blueprint.schedule = plan::find(call.kind, choice.algorithm);
  assert(blueprint.schedule != nullptr);
  blueprint.reason = choice.reason;
  if (choice.lending) blueprint.lending = plan::find(call.kind, *choice.lending);
  // Two programs tell each other apart by the first message, which must be of the whole call.
  const bool striped = bytes >= lanes_.bytes_min && blueprint.lending == nullptr && call.bundle == 0;
  if (striped) blueprint.stripes = std::max(1, lanes_.lanes / blueprint.schedule->lanes);
  blueprint.key = {call.kind, static_cast<int>(choice.algorithm), call.root, blueprint.stripes};
  blueprint.cut = choice.cut;
  blueprint.shelf = choice.shelf;
  if (blueprint.schedule->lanes > 1 && lanes_.lanes == 1) {
    blueprint.cut.slot_bytes = std::min(blueprint.cut.slot_bytes, limits::second_slot_bytes);
  }
  return blueprint;
}

plan::Plan CommunicatorImpl::draw(const Blueprint& blueprint, const Call& call) const {
  if (blueprint.schedule != nullptr) {
    plan::Plan plan = blueprint.schedule->build(topology_, rank(), call.root);
    return blueprint.stripes == 1 ? plan : plan::striped(plan, blueprint.schedule->lanes, blueprint.stripes);
  }
  const auto [kind, side, other, stripes] = blueprint.key;
  return side == receives ? plan::receive_from(other) : plan::send_to(other, side == lends);
}

const Program& CommunicatorImpl::bind(const Blueprint& blueprint, const Call& call, std::span<const int> together) {
  if (const auto found = programs_.find(blueprint.key); found != programs_.end()) return *found->second;
  const plan::Plan plan = draw(blueprint, call);
  peers_.connect(peers_in(plan), together, Clock::now() + patience_);
  const bool message = blueprint.schedule == nullptr;
  const plan::Collective collective{call.kind, ranks(), message ? 1 : blueprint.schedule->blocks(topology_), call.root,
                                    message ? call.peer : 0};
  const int widest = message ? 1 : blueprint.schedule->widest(topology_);
  auto program = std::make_unique<Program>(collective, plan, widest, peers_, threads_);
  return *programs_.emplace(blueprint.key, std::move(program)).first->second;
}

std::unique_ptr<Communicator> make_communicator(const control::Membership& membership, Parts parts,
                                                const Communicator::Options& options, Deadline deadline) {
  return std::make_unique<CommunicatorImpl>(membership, std::move(parts), options, deadline);
}

}  // namespace rondo
