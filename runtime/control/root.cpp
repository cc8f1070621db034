// The root of a unique id: see root.h.
#include "control/root.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "control/interfaces.h"
#include "control/thread.h"
#include "control/tree.h"
#include "control/words.h"

namespace rondo::control {

using std::chrono::milliseconds;

Root::Root(ControlThread& thread, RootAddress address)
    : thread_(thread), address_(std::move(address)), timer_(thread.loop()) {
  if (address_.derived) thread_.reception().listen(address_.name);
  if (address_.derived && address_.networked()) {
    try {
      thread_.reception().listen(PortRange{address_.port, address_.port}, socket_family());
    } catch (const Error&) {
      thread_.reception().unlisten(address_.name);
      throw;
    }
  }
  Service service;
  service.secret = address_.secret;
  service.accept = [this](std::shared_ptr<Channel> channel, View body) { accept(std::move(channel), body); };
  thread_.reception().offer(address_.key(), std::move(service));
}

Root::~Root() {
  withdraw();
  for (auto& [number, joined] : joined_) joined.channel->stop();
}

void Root::accept(std::shared_ptr<Channel> channel, View body) {
  auto greeting = joining::decode_greeting(body);
  if (!greeting) return channel->stop();
  const auto objected = failure_ ? std::nullopt : objection(*greeting);
  const std::uint64_t number = next_++;
  channel->handle({[this, number](Plane, Frame& frame) {
                     if (frame.kind == joining::served) joined_.at(number).served = complete_;
                   },
                   [this, number](const std::string&) { closed(number); }});
  const milliseconds left(std::min<std::uint64_t>(greeting->left_ms, 366ull * 24 * 3600 * 1000));
  joined_[number] = {channel, std::move(*greeting), Clock::now() + left, false};
  if (failure_) return channel->send(Plane::control, joining::failure, joining::encode(*failure_));
  if (objected) return fail(*objected);
  if (joined_.size() == joined_[number].greeting.ranks) return succeed();
  watch_deadlines();
}

std::optional<Error> Root::objection(const joining::Greeting& greeting) const {
  const Member& member = greeting.member;
  const std::string who = in_words(member);
  if (greeting.ranks < 1 || greeting.ranks > limits::ranks_max || member.rank < 0 ||
      static_cast<std::uint32_t>(member.rank) >= greeting.ranks) {
    return Error(Code::invalid_argument, who + " is outside its world of " + std::to_string(greeting.ranks) + " ranks");
  }
  for (const auto& [number, other] : joined_) {
    const Member& first = other.greeting.member;
    if (other.greeting.ranks != greeting.ranks) {
      return Error(Code::invalid_argument, "the ranks disagree on the world size: " + in_words(first) + " says " +
                                               std::to_string(other.greeting.ranks) + ", " + who + " says " +
                                               std::to_string(greeting.ranks) + "; give every rank the same");
    }
    if (other.greeting.settings_digest != greeting.settings_digest) {
      const auto set = [](const joining::Greeting& g) { return g.settings.empty() ? "nothing" : g.settings; };
      return Error(Code::invalid_usage, "the ranks' settings differ: " + in_words(first) + " has " +
                                            set(other.greeting) + ", " + who + " has " + set(greeting) +
                                            "; set them alike on every rank");
    }
    if (first.rank == member.rank) {
      return Error(Code::invalid_argument, "rank " + std::to_string(member.rank) + " joined twice: pid " +
                                               std::to_string(first.pid) + " on host " + first.host + " and pid " +
                                               std::to_string(member.pid) + " on host " + member.host +
                                               "; give every rank its own number");
    }
  }
  return {};
}

void Root::closed(std::uint64_t number) {
  const Member member = joined_.at(number).greeting.member;
  const bool served = joined_.at(number).served;
  joined_.erase(number);
  if (complete_ && joined_.empty()) return end();
  if (!failure_ && !served) fail(Error(Code::remote_error, in_words(member) + " died while the ranks were joining"));
}

void Root::watch_deadlines() {
  const auto earliest = std::min_element(joined_.begin(), joined_.end(), [](const auto& a, const auto& b) {
    return a.second.deadline < b.second.deadline;
  });
  timer_.start(earliest->second.deadline, [this] { expire(); });
}

void Root::expire() {
  const auto late = std::min_element(joined_.begin(), joined_.end(), [](const auto& a, const auto& b) {
    return a.second.deadline < b.second.deadline;
  });
  const joining::Greeting& greeting = late->second.greeting;
  std::vector<bool> here(greeting.ranks);
  for (const auto& [number, joined] : joined_) here[static_cast<std::size_t>(joined.greeting.member.rank)] = true;
  std::vector<int> missing;
  for (std::size_t rank = 0; rank < here.size(); ++rank) {
    if (!here[rank]) missing.push_back(static_cast<int>(rank));
  }
  fail(Error(Code::timeout,
             "timed out after " + in_words(milliseconds(greeting.patience_ms)) + " waiting for " + in_words(missing) +
                 " of " + std::to_string(greeting.ranks) +
                 " to join: see whether they run, or give them more time (set RONDO_TIMEOUT, in seconds)"));
}

void Root::succeed() {
  complete_ = true;
  timer_.cancel();
  withdraw();  // first: who is told may at once serve or seek the next root of the same name
  Membership membership;
  membership.communicator = random_number();
  const Secret secret = random_secret();
  std::copy(secret.begin(), secret.end(), membership.secret);
  membership.members.resize(joined_.size());
  for (auto& [number, joined] : joined_) {
    const Member& member = joined.greeting.member;
    membership.members[static_cast<std::size_t>(member.rank)] = member;
  }
  for (auto& [number, joined] : joined_) {
    const int rank = joined.greeting.member.rank;
    if (rank == 0) {
      for (const Bytes& frame : joining::encode(membership)) {
        joined.channel->send(Plane::control, joining::members, frame);
      }
      continue;
    }
    const Member& parent = membership.members[static_cast<std::size_t>(tree_parent(rank))];
    joined.channel->send(Plane::control, joining::placed,
                         joining::encode(joining::Place{membership.communicator, secret, parent}));
  }
}

void Root::fail(const Error& error) {
  failure_ = error;
  log::info(log::Subsystem::bootstrap, std::string("the ranks cannot join: ") + error.what());
  Deadline last = Clock::now() + milliseconds(limits::handshake_timeout_ms);
  for (auto& [number, joined] : joined_) {
    joined.channel->send(Plane::control, joining::failure, joining::encode(error));
    last = std::max(last, joined.deadline);
  }
  timer_.start(last, [this] { end(); });
}

void Root::withdraw() {
  if (!std::exchange(offered_, false)) return;
  thread_.reception().withdraw(address_.key());
  if (!address_.derived) return;
  thread_.reception().unlisten(address_.name);
  if (address_.networked()) thread_.reception().unlisten(address_.port);
}

void Root::end() { thread_.roots().erase(this); }

namespace {

/// Those of rank 0's addresses that ranks may meet at.  Throws Error: none.
std::vector<Address> meeting_addresses(const Rendezvous& rendezvous, const std::vector<Address>& addresses) {
  const std::string what = rendezvous.variable + "=" + rendezvous.host;
  return usable_addresses(what, addresses, socket_family(), list_interfaces());
}

UniqueId serve(RootAddress address) {
  ControlThread& thread = ControlThread::get();
  thread.call([&] {
    auto& roots = thread.roots();
    const auto old =
        std::find_if(roots.begin(), roots.end(), [&](const auto& root) { return root.second->serves(address); });
    // A root that failed only stays to tell the late ones; a new one takes its place.
    if (old != roots.end() && old->second->failed()) {
      roots.erase(old);
    } else if (old != roots.end()) {
      throw Error(Code::invalid_usage, "this process already serves the rendezvous '" + address.name + "'");
    }
    if (roots.size() >= limits::roots_max) {
      throw Error(Code::invalid_usage, "this process has made " + std::to_string(limits::roots_max) +
                                           " unique ids that no rank has joined yet: that is the limit");
    }
    auto root = std::make_unique<Root>(thread, address);
    roots.emplace(root.get(), std::move(root));
  });
  return encode(address);
}

}  // namespace

UniqueId create_unique_id() {
  RootAddress address;
  ControlThread& thread = ControlThread::get();
  thread.call([&] { address.addresses = thread.addresses(); });
  address.name = thread.listener_name();
  address.port = address.addresses.empty() ? 0 : address.addresses.front().port;
  address.root = random_number();
  address.secret = random_secret();
  return serve(std::move(address));
}

UniqueId create_derived_root(const Rendezvous& rendezvous) {
  if (rendezvous.port != 0) {
    const auto numbers = parse_address(rendezvous.host, rendezvous.port);
    (void)meeting_addresses(rendezvous, numbers ? std::vector{*numbers} : std::vector<Address>());
  }
  return serve(derive(rendezvous));
}

UniqueId derived_unique_id(const Rendezvous& rendezvous) {
  RootAddress address = derive(rendezvous);
  if (rendezvous.port != 0) {
    // This host's own name is never looked up: who has it shares the socket with rank 0.
    const bool own = rendezvous.host == host_name();
    const auto known = own ? std::vector<Address>() : resolve(rendezvous.host, rendezvous.port);
    address.addresses = meeting_addresses(rendezvous, known);
  }
  return encode(address);
}

}  // namespace rondo::control
