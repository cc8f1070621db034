// The calling side of connections: see connector.h.
#include "control/connector.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>

#include "base/limits.h"
#include "base/result.h"
#include "control/interfaces.h"

namespace rondo::control {
namespace {

using std::chrono::milliseconds;

constexpr int pause_ms_max = 100;  // between rounds: 1, 2, 4, ... ms

std::string error_text(int error) { return std::generic_category().message(error); }

}  // namespace

std::vector<Address> in_order_of_promise(const std::vector<Address>& addresses) {
  if (addresses.empty()) return {};
  std::vector<Interface> own;
  try {
    own = list_interfaces();
  } catch (const Error&) {
    return addresses;  // a matter of order only
  }
  const auto grade = [&](const Address& address) {
    const bool near = std::any_of(own.begin(), own.end(), [&](const Interface& interface) {
      return share_prefix(interface.address, address, interface.prefix_bits);
    });
    return is_loopback(address) ? 2 : near ? 0 : 1;
  };
  std::vector<Address> ordered;
  for (const Address& address : addresses) {
    if (!is_link_local(address) || address.scope != 0) {
      ordered.push_back(address);
      continue;
    }
    for (const Interface& interface : own) {
      if (!is_link_local(interface.address)) continue;
      ordered.push_back(address);
      ordered.back().scope = interface.address.scope;
    }
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [&](const Address& a, const Address& b) { return grade(a) < grade(b); });
  return ordered;
}

Connector::Connector(Loop& loop, Call call, Report report)
    : loop_(loop), call_(std::move(call)), report_(std::move(report)), timer_(loop) {
  timer_.start(Clock::now(), [this] { start_round(); });
}

Connector::~Connector() {
  for (Attempt& attempt : attempts_) end(attempt);
}

void Connector::start_round() {
  attempts_.clear();
  begun_ = 0;
  begin_next();
}

void Connector::begin_next() {
  const std::size_t local = call_.name.empty() ? 0 : 1;
  if (begun_ == local + call_.addresses.size()) return;
  const std::size_t way = begun_++;
  const Place attempt = attempts_.emplace(attempts_.end());
  attempt->deadline = std::make_unique<Timer>(loop_);
  attempt->deadline->start(Clock::now() + milliseconds(limits::call_timeout_ms),
                           [this, attempt] { fail(attempt, Outcome::broken, "no answer"); });
  timer_.start(Clock::now() + milliseconds(limits::call_stagger_ms), [this] { begin_next(); });
  if (way < local) return begin_local(attempt);
  begin_remote(attempt, call_.addresses[way - local]);
}

void Connector::begin_local(Place attempt) {
  attempt->way = "this host";
  Socket socket = connect_to(call_.name);
  if (!socket) {
    if (errno == EAGAIN) return again();  // its queue is full
    return fail(attempt, errno == ECONNREFUSED ? Outcome::nobody : Outcome::broken, error_text(errno));
  }
  const Credentials peer = peer_of(socket);
  if (!is_own_user(peer)) {
    return fail(attempt, Outcome::broken, "it is served by another user (" + std::to_string(peer.uid) + ")");
  }
  greet(attempt, std::move(socket));
}

void Connector::begin_remote(Place attempt, const Address& address) {
  attempt->way = in_words(address);
  attempt->socket = begin_to_connect(address);
  if (!attempt->socket) return fail(attempt, Outcome::broken, error_text(errno));
  // An error shows as readable, too.
  attempt->watch = std::make_unique<Watch>(loop_, attempt->socket.get(), [this, attempt] { connected(attempt); });
  attempt->watch->await_writable([this, attempt] { connected(attempt); });
}

void Connector::connected(Place attempt) {
  attempt->watch.reset();
  const int error = outcome_of(attempt->socket);
  if (error != 0) {
    return fail(attempt, error == ECONNREFUSED ? Outcome::nobody : Outcome::broken, error_text(error));
  }
  greet(attempt, std::move(attempt->socket));
}

void Connector::greet(Place attempt, Socket socket) {
  attempt->channel = Channel::open(loop_, std::move(socket));
  attempt->channel->handle(
      {[this, attempt](Plane plane, Frame& frame) { receive(attempt, plane, frame); },
       [this, attempt](const std::string& why) { fail(attempt, Outcome::broken, "the connection ended: " + why); }});
  attempt->hello.key = call_.key;
  fill_random(attempt->hello.nonce);
  attempt->channel->send(Plane::control, handshake::hello, handshake::encode(attempt->hello));
}

void Connector::receive(Place attempt, Plane plane, const Frame& frame) {
  if (plane == Plane::control && frame.kind == handshake::challenge && !attempt->proved) return answer(attempt, frame);
  if (plane == Plane::control && frame.kind == handshake::welcome && attempt->proved) {
    const std::shared_ptr<Channel> channel = std::move(attempt->channel);
    channel->trust();
    channel->handle({});
    end(*attempt);
    const Report report = std::move(report_);
    report(Outcome::connected, channel, {});
    return;
  }
  if (plane == Plane::control && frame.kind == handshake::refusal) {
    const auto reason = static_cast<handshake::Refusal>(ByteReader(frame.body).number<std::uint8_t>());
    const bool unknown = reason == handshake::Refusal::unknown_key;
    return fail(attempt, unknown ? Outcome::unknown_key : Outcome::wrong_secret,
                unknown ? "what was asked for is not there" : "the secrets differ");
  }
  fail(attempt, Outcome::broken, "it broke the handshake");
}

void Connector::answer(Place attempt, const Frame& frame) {
  const auto challenge = handshake::decode_challenge(frame.body);
  if (!challenge) return fail(attempt, Outcome::broken, "it broke the handshake");
  if (!equal(challenge->mac, handshake::server_mac(call_.secret, attempt->hello, challenge->nonce))) {
    return fail(attempt, Outcome::wrong_secret, "the secrets differ");
  }
  // This is the peer, and so the way: the others are given up.
  timer_.cancel();
  begun_ = (call_.name.empty() ? 0 : 1) + call_.addresses.size();
  for (Place other = attempts_.begin(); other != attempts_.end(); ++other) {
    if (other != attempt) end(*other);
  }
  attempt->proved = true;
  const Mac mac = handshake::client_mac(call_.secret, attempt->hello, challenge->nonce, call_.greeting);
  attempt->channel->send(Plane::control, handshake::proof, handshake::encode(handshake::Proof{mac, call_.greeting}));
}

void Connector::end(Attempt& attempt) noexcept {
  attempt.over = true;
  attempt.watch.reset();
  attempt.socket.reset();
  attempt.deadline.reset();
  if (attempt.channel) std::exchange(attempt.channel, nullptr)->stop();
}

void Connector::fail(Place attempt, Outcome outcome, const std::string& text) {
  end(*attempt);
  attempt->outcome = outcome;
  attempt->trouble = attempt->way + ": " + text;
  if (begun_ < (call_.name.empty() ? 0u : 1u) + call_.addresses.size()) {
    timer_.start(Clock::now(), [this] { begin_next(); });
    return;
  }
  if (std::all_of(attempts_.begin(), attempts_.end(), [](const Attempt& one) { return one.over; })) conclude();
}

void Connector::again() {
  for (Attempt& attempt : attempts_) end(attempt);
  timer_.start(Clock::now() + milliseconds(pause_ms_), [this] { start_round(); });
  pause_ms_ = std::min(2 * pause_ms_, pause_ms_max);
}

/// The outcome of a round: what is not final on any way is worth another try, and "nobody" needs them all.
void Connector::conclude() {
  timer_.cancel();
  const auto any = [this](Outcome outcome) {
    return std::any_of(attempts_.begin(), attempts_.end(), [=](const Attempt& one) { return one.outcome == outcome; });
  };
  Outcome outcome = Outcome::nobody;
  for (const Outcome one : {Outcome::unknown_key, Outcome::wrong_secret, Outcome::broken}) {
    if (any(one)) outcome = one;
  }
  last_trouble_.clear();
  for (const Attempt& attempt : attempts_) {
    if (!attempt.trouble.empty()) last_trouble_ += (last_trouble_.empty() ? "" : "; ") + attempt.trouble;
  }
  const Report report = report_;  // it may destroy this connector, if it answers true
  if (!report(outcome, nullptr, last_trouble_)) again();
}

}  // namespace rondo::control
