// The tree, the pairs and their channels: see mesh_core.h.  What their frames and ends mean is in mesh_news.cpp.
#include "control/mesh_core.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/limits.h"
#include "control/fork_guard.h"
#include "control/thread.h"
#include "control/words.h"

namespace rondo::control {
namespace {

using std::chrono::milliseconds;

/// Who was told of all members starts its part at once, unless the machine is very slow.
constexpr milliseconds start_wait(15'000);

Key key_of(const Membership& membership, int rank) {
  return {Purpose::mesh, membership.communicator, static_cast<std::uint32_t>(rank)};
}

Secret secret_of(const Membership& membership) {
  Secret secret;
  std::copy(std::begin(membership.secret), std::end(membership.secret), secret.begin());
  return secret;
}

}  // namespace

MeshCore::MeshCore(ControlThread& thread, const Membership& membership, Mesh::Hooks hooks)
    : thread_(thread),
      membership_(membership),
      rank_(membership.rank),
      hooks_(std::move(hooks)),
      news_(membership.rank, static_cast<int>(membership.members.size()), *this) {}

MeshCore::Peer& MeshCore::peer(int rank) { return peers_.try_emplace(rank, *this, rank).first->second; }

Service MeshCore::service() {
  Service service;
  service.secret = secret_of(membership_);
  // These keep the core alive until it withdraws the service.
  service.accept = [self = shared_from_this()](std::shared_ptr<Channel> channel, View greeting) {
    self->accept(std::move(channel), greeting);
  };
  service.leave = [self = shared_from_this()](Deadline deadline, std::function<void()> done) {
    self->close(deadline, std::move(done));
  };
  return service;
}

void MeshCore::start(Deadline deadline) {
  patience_ = time_left(deadline);
  timer_ = std::make_unique<Timer>(thread_.loop());
  timer_->start(deadline, [this] { creation_expired(); });
  thread_.reception().offer(key_of(membership_, rank_), service());
  mend_timer_ = std::make_unique<Timer>(thread_.loop());
  news_.start();
  check_created();
}

Call MeshCore::call_to(int to, Use use) const {
  Call call;
  const Member& callee = membership_.members[static_cast<std::size_t>(to)];
  call.name = callee.listener;  // on another host nobody has that name
  call.addresses = in_order_of_promise(callee.addresses);
  call.key = key_of(membership_, to);
  call.secret = secret_of(membership_);
  call.greeting = ByteWriter().number(static_cast<std::uint32_t>(rank_)).number(static_cast<std::uint8_t>(use)).bytes();
  return call;
}

void MeshCore::call(int to, Use use) {
  Line& line = use == Use::tree ? peer(to).tree : peer(to).pair;
  line.connector = std::make_unique<Connector>(
      thread_.loop(), call_to(to, use),
      [this, to, use](Outcome outcome, std::shared_ptr<Channel> channel, const std::string& text) {
        return called(to, use, outcome, std::move(channel), text);
      });
}

bool MeshCore::called(int to, Use use, Outcome outcome, std::shared_ptr<Channel> channel, const std::string& text) {
  Peer& callee = peer(to);
  if (outcome == Outcome::connected) {
    (use == Use::tree ? callee.tree : callee.pair).connector.reset();
    adopt(to, use, std::move(channel));
    return true;
  }
  // A rank that lost its parent looks for another, which may be leaving as well.
  const bool mends = use == Use::tree && !news_.awaited().contains(to);
  if (mends && outcome != Outcome::broken) {
    callee.tree.connector.reset();
    news_.unreachable(to);
    return true;
  }
  if (outcome == Outcome::nobody) {
    if (callee.refused_since == Deadline{}) callee.refused_since = Clock::now();
    // A listener that refuses belongs to a process that ended; how it ended may still be on its way.
    if (Clock::now() - callee.refused_since < milliseconds(limits::news_wait_ms)) return false;
    note_died(to, "its process has ended");
    return true;
  }
  // Its process is there, but this communicator is not: not yet, or not any more and nobody has heard.
  if (outcome == Outcome::unknown_key) {
    if (callee.refused_since == Deadline{}) callee.refused_since = Clock::now();
    if (Clock::now() - callee.refused_since < start_wait) return false;
    news_.note(to, State::left);
    return true;
  }
  if (outcome == Outcome::wrong_secret) {
    note_failed(to, "cannot be authenticated: " + text);
    return true;
  }
  return false;
}

void MeshCore::accept(std::shared_ptr<Channel> channel, View greeting) {
  ByteReader reader(greeting);
  const auto from = reader.number<std::uint32_t>();
  const auto use = static_cast<Use>(reader.number<std::uint8_t>());
  const auto index = use == Use::data ? reader.number<std::uint32_t>() : 0;
  const bool fits =
      use == Use::data || (use == Use::tree ? from > static_cast<std::uint32_t>(rank_)
                                            : use == Use::pair && from < static_cast<std::uint32_t>(rank_));
  const bool known = from < membership_.members.size() && static_cast<int>(from) != rank_;
  if (!reader.complete() || !fits || !known || closing_) return channel->stop();
  const int caller = static_cast<int>(from);
  if (use == Use::data) return accept_socket(caller, index, *channel);
  const Line& line = use == Use::tree ? peer(caller).tree : peer(caller).pair;
  if (line.channel || !here(caller)) return channel->stop();
  adopt(caller, use, std::move(channel));
}

void MeshCore::adopt(int with, Use use, std::shared_ptr<Channel> channel) {
  Peer& other = peer(with);
  (use == Use::tree ? other.tree : other.pair).channel = channel;
  channel->handle({[this, with](Plane plane, Frame& frame) { receive(with, plane, frame); },
                   [this, with, use](const std::string& why) { closed(with, use, why); }});
  if (!own_failure_.empty()) channel->send(Plane::control, News::failed, own_failure_);
  if (use == Use::tree) {
    watch_process(with, channel->peer_pid());
    news_.attached(with);
    check_created();
    return ring(thread_.doorbell().ringer());
  }
  other.wire.opened(*channel);
  if (hooks_.opened) {
    hooks_.opened(with, other.wire);
  }
  ring(thread_.doorbell().ringer());
}

/// The end of a process whose sockets live on in a child that it forked is seen only so.
void MeshCore::watch_process(int who, pid_t pid) {
  if (pid == ::getpid()) return;
  Peer& watched = peer(who);
  watched.process = control::watch_process(pid);
  if (!watched.process) return;  // another pid namespace: the sockets' end must do
  watched.process_watch = std::make_unique<Watch>(thread_.loop(), watched.process.get(), [this, who] {
    Peer& ended = peer(who);
    // Its last words come first: a goodbye makes this a departure.
    for (const auto& channel : {ended.tree.channel, ended.pair.channel}) {
      if (channel) channel->receive_now();
    }
    note_died(who, "its process has ended");
  });
}

void MeshCore::check_created() {
  if (!creating_ || !news_.complete()) return;
  creating_ = false;
  timer_->cancel();
  created_.set_value({});
}

void MeshCore::creation_expired() {
  const std::vector<int> missing(news_.awaited().begin(), news_.awaited().end());
  const std::string sentence = "timed out after " + in_words(patience_) + " waiting for " + in_words(missing) + " of " +
                               std::to_string(membership_.members.size()) +
                               " to open the liveness channel: set RONDO_TIMEOUT (seconds) higher";
  tell_failure(sentence);
  fail_creation({Code::timeout, -1, sentence});
}

void MeshCore::fail_creation(const Failure& failure) {
  if (!std::exchange(creating_, false)) return;
  timer_->cancel();
  created_.set_value(failure);
}

void MeshCore::want(int with) {
  const bool valid = with >= 0 && with < static_cast<int>(membership_.members.size());
  if (closing_ || !valid || with <= rank_ || !here(with)) return;
  const Line& line = peer(with).pair;
  if (!line.channel && !line.connector) call(with, Use::pair);
}

void MeshCore::PairWire::send(std::uint16_t kind, std::span<const std::byte> body, std::span<const int> descriptors) {
  if (!ControlThread::usable()) return;
  if (body.size() > limits::frame_bytes_max || descriptors.size() > limits::frame_descriptors_max ||
      (!descriptors.empty() && !passes_descriptors_)) {
    throw Error(Code::internal_error, "a frame of " + std::to_string(body.size()) + " bytes and " +
                                          std::to_string(descriptors.size()) + " descriptors cannot be sent to rank " +
                                          std::to_string(peer_));
  }
  std::vector<Descriptor> own;
  for (const int fd : descriptors) {
    Descriptor duplicate(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!duplicate) throw_system_error("duplicate a descriptor to pass to rank " + std::to_string(peer_));
    own.push_back(std::move(duplicate));
  }
  const auto send_now = [peer = peer_, kind](MeshCore& core, View bytes, std::vector<Descriptor> passed) {
    const auto& channel = core.peer(peer).pair.channel;
    if (channel && !core.closing_) channel->send(Plane::connection, kind, bytes, std::move(passed));
  };
  if (core_.thread_.loop().on_thread()) return send_now(core_, body, std::move(own));
  // Shared only because a task must be copyable.
  const auto passed = std::make_shared<std::vector<Descriptor>>(std::move(own));
  core_.thread_.loop().post([core = core_.shared_from_this(), bytes = Bytes(body.begin(), body.end()), passed,
                             send_now] { send_now(*core, bytes, std::move(*passed)); });
}

}  // namespace rondo::control
