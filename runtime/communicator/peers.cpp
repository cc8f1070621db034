// Opening connections and keeping the first failure: see peers.h.
#include "communicator/peers.h"

#include <algorithm>

#include "base/log.h"
#include "base/threads.h"
#include "control/bytes.h"
#include "control/fork_guard.h"

namespace rondo {

namespace {

constexpr std::uint16_t offer_frame = 0xfffe;  // the first frame of a pair, each way

/// What a rank says of itself to a peer that it opens links to.
struct Offer {
  std::string transports;  // names, each between spaces
  Reach reach = Reach::near;
};

control::Bytes encode(const Offer& offer) {
  return control::ByteWriter().text(offer.transports).number(static_cast<std::uint8_t>(offer.reach)).bytes();
}

Offer decode(const Frame& frame) {
  control::ByteReader reader(frame.body);
  Offer offer{reader.text(), Reach{reader.number<std::uint8_t>()}};
  if (frame.kind != offer_frame || !reader.complete()) {
    throw Error(Code::internal_error, "the peer does not offer its transports first");
  }
  return offer;
}

/// " shm "
std::string quoted(const Transport& transport) {
  std::string text(1, ' ');
  text.append(transport.name()).append(1, ' ');
  return text;
}

bool contains(std::span<const int> ranks, int rank) { return std::ranges::find(ranks, rank) != ranks.end(); }

constexpr int look_up_ms = 50;

bool holds(const Offer& offer, const Transport& transport) {
  return offer.transports.find(quoted(transport)) != std::string::npos;
}

}  // namespace

Peers::Peers(const control::Membership& membership, std::vector<std::unique_ptr<Transport>> transports,
             LinkPolicy policy, control::Deadline deadline)
    : membership_(membership),
      transports_(std::move(transports)),
      policy_(std::move(policy)),
      peers_(membership.members.size()),
      orders_(2 * membership.members.size() *
              static_cast<std::size_t>(std::max(policy_.lanes, limits::plan_lanes_max))) {
  for (std::size_t i = 0; peers_[rank()].connection == nullptr && i < transports_.size(); ++i) {
    peers_[rank()].connection = transports_[i]->open_self();
  }
  for (const control::Member& member : membership_.members) {
    const bool here = member.listener == membership_.members[rank()].listener;
    if (here && member.rank != rank()) siblings_.push_back(member.rank);
  }
  control::Mesh::Hooks hooks;
  hooks.opened = [this](int peer, Wire& wire) { guard(peer, [&] { opened(peer, wire); }); };
  hooks.frame = [this](int peer, Frame& frame) { guard(peer, [&] { received(peer, frame); }); };
  hooks.failed = [this](const control::Failure& failure) { fail(failure.code, failure.sentence, false); };
  hooks.left = [this](int peer) { left(peer); };
  mesh_ = control::Mesh::create(membership_, std::move(hooks));
  mesh_->start(deadline);
}

Peers::~Peers() {
  mesh_->close(control::Clock::now());                // no hook runs any more
  for (Peer& peer : peers_) peer.connection.reset();  // another thread's ncclMemFree may use its wire until here
  mesh_.reset();
}

std::string Peers::describe(int rank) const {
  const control::Member& member = membership_.members[rank];
  return "rank " + std::to_string(rank) + " (host " + member.host + ", pid " + std::to_string(member.pid) + ")";
}

bool Peers::has_left(int rank) const {
  const std::lock_guard lock(mutex_);
  return peers_[rank].left;
}

std::string Peers::stranded(int sibling) const {
  return describe(sibling) +
         " is in this same process, and no other thread is there to make its call: a thread that calls for several "
         "ranks must put the calls between ncclGroupStart and ncclGroupEnd";
}

int Peers::unopened_sibling(std::span<const int> peers, std::span<const int> together) const {
  for (const int peer : peers) {
    const bool ours_to_wait = peer < rank() && peers_[peer].connection == nullptr;
    if (ours_to_wait && contains(siblings_, peer) && !contains(together, peer)) {
      return threads::only_this_one_acts() ? peer : -1;
    }
  }
  return -1;
}

void Peers::want(std::span<const int> peers) {
  for (const int peer : peers) {
    if (peer != rank()) mesh_->want(peer);
  }
}

void Peers::connect(std::span<const int> peers, std::span<const int> together, control::Deadline deadline) {
  std::unique_lock lock(mutex_);
  const auto open = [&](int peer) { return peers_[peer].connection != nullptr && peers_[peer].connection->ready(); };
  if (std::all_of(peers.begin(), peers.end(), open)) return;
  lock.unlock();
  want(peers);
  lock.lock();
  for (;;) {
    if (failed_.load(std::memory_order_acquire) != 0) throw Error(static_cast<Code>(failed_.load()), sentence_);
    std::string missing;
    for (const int peer : peers) {
      if (open(peer)) continue;
      if (peers_[peer].left) throw Error(Code::remote_error, describe(peer) + " has left the communicator");
      missing += (missing.empty() ? "" : ", ") + describe(peer);
    }
    if (missing.empty()) return;
    if (const int peer = unopened_sibling(peers, together); peer >= 0) {
      throw Error(Code::invalid_usage, stranded(peer));
    }
    // Threads come and go without a notice.
    const control::Deadline look = control::Clock::now() + std::chrono::milliseconds(look_up_ms);
    changed_.wait_until(lock, siblings_.empty() ? deadline : std::min(look, deadline));
    if (control::Clock::now() >= deadline) {
      throw Error(Code::timeout, "timed out opening links to " + missing + "; RONDO_TIMEOUT sets the limit");
    }
  }
}

void Peers::guard(int peer, const std::function<void()>& action) noexcept {
  try {
    action();
  } catch (const Error& error) {
    fail(error.code(), "links to " + describe(peer) + ": " + error.what(), true);
  } catch (const std::exception& error) {
    fail(Code::internal_error, "links to " + describe(peer) + ": " + error.what(), true);
  }
}

void Peers::opened(int peer, Wire& wire) {
  Offer mine{"", policy_.reach};
  for (const auto& transport : transports_) {
    const bool wanted = policy_.only.empty() || policy_.only == transport->name();
    if (wanted && transport->reaches(wire)) mine.transports += quoted(*transport);
  }
  if (mine.transports.empty()) {
    throw Error(Code::invalid_usage, "RONDO_TRANSPORT=" + policy_.only + " does not reach it");
  }
  peers_[peer].wire = &wire;
  wire.send(offer_frame, encode(mine));
}

void Peers::agree(int peer, const Frame& offer) {
  const Offer theirs = decode(offer);
  Wire& wire = *peers_[peer].wire;
  if (theirs.reach != policy_.reach) {
    throw Error(
        Code::invalid_usage,
        "the two choose schedules for different links: RONDO_TRANSPORT, NCCL_SHM_DISABLE, NCCL_NSOCKS_PERTHREAD "
        "and NCCL_SOCKET_NTHREADS must be the same on all ranks");
  }
  const auto host_of = [&](int rank) { return membership_.members[rank].host_key; };
  for (const auto& transport : transports_) {
    const bool wanted = policy_.only.empty() || policy_.only == transport->name();
    const bool apart = policy_.only.empty() && transport->local() && host_of(peer) != host_of(rank());
    if (!wanted || apart || !transport->reaches(wire) || !holds(theirs, *transport)) continue;
    auto connection = transport->open(peer, rank() < peer, wire);
    const std::lock_guard lock(mutex_);
    peers_[peer].transport = transport.get();
    peers_[peer].connection = std::move(connection);
    return;
  }
  throw Error(Code::invalid_usage, "it offers the transports (" + theirs.transports + "), and this rank wants (" +
                                       (policy_.only.empty() ? "any" : policy_.only) +
                                       "): RONDO_TRANSPORT and NCCL_SHM_DISABLE must be the same on all ranks");
}

void Peers::received(int peer, Frame& frame) {
  if (peers_[peer].connection == nullptr) return agree(peer, frame);
  Connection& connection = *peers_[peer].connection;
  const bool was_ready = connection.ready();
  connection.receive(frame);
  if (was_ready || !connection.ready()) return;
  log::info(log::Subsystem::init, "rank " + std::to_string(rank()) + " <-> " + describe(peer) + " via " +
                                      std::string(peers_[peer].transport->name()) + ": " + connection.describe());
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void Peers::left(int peer) {
  const std::lock_guard lock(mutex_);
  peers_[peer].left = true;
  if (peers_[peer].connection != nullptr) peers_[peer].connection->fail(Code::remote_error);
  changed_.notify_all();
  wake_sleepers(control::doorbell().ringer());
}

std::string Peers::failure_sentence() const {
  const std::lock_guard lock(mutex_);
  return sentence_;
}

void Peers::fail(Code code, const std::string& sentence, bool tell) noexcept {
  {
    // Held until the others are told: close() takes it too, and its goodbye must not overtake the reason.
    const std::lock_guard lock(mutex_);
    if (failed_.load(std::memory_order_relaxed) != 0) return;
    sentence_ = sentence;
    failed_.store(static_cast<int>(code), std::memory_order_release);
    changed_.notify_all();
    try {
      if (tell) mesh_->tell_failure(sentence);
    } catch (const std::exception& error) {
      log::warn(std::string("cannot tell the other ranks: ") + error.what());
    }
  }
  log::warn(sentence);
  wake_sleepers(control::doorbell().ringer());
  if (tell) mesh_->await_told();  // the caller may end its process: the others must not hear of the end alone
}

void Peers::close(control::Deadline deadline) noexcept {
  // A forked child has its parent's sockets, and must not end their streams.
  if (!control::ForkGuard::forked()) {
    const std::lock_guard lock(mutex_);  // a failure that is being told goes out first
    for (Peer& peer : peers_) {
      if (peer.connection != nullptr) peer.connection->finish();
    }
  }
  mesh_->close(deadline);
}

}  // namespace rondo
