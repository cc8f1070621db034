// The serving side of connections: see reception.h.
#include "control/reception.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/limits.h"
#include "base/log.h"
#include "base/result.h"

namespace rondo::control {

using std::chrono::milliseconds;

namespace {

std::string key_of(std::uint16_t port) { return "tcp " + std::to_string(port); }  // no name has a space

}  // namespace

void Reception::listen(const std::string& name) {
  Socket socket = listen_on(name);
  Listener& listener = listeners_[name];
  listener.socket = std::move(socket);
  watch(listener);
}

std::uint16_t Reception::listen(const PortRange& range, const std::string& family) {
  if (const auto found = listeners_.find(key_of(range.first)); range.first != 0 && found != listeners_.end()) {
    ++found->second.users;
    return range.first;
  }
  std::uint16_t port = 0;
  Socket socket = listen_on(range, family, port);
  Listener& listener = listeners_[key_of(port)];
  listener.socket = std::move(socket);
  watch(listener);
  return port;
}

void Reception::unlisten(std::uint16_t port) {
  const auto found = listeners_.find(key_of(port));
  if (found != listeners_.end() && --found->second.users == 0) listeners_.erase(found);
}

void Reception::watch(Listener& listener) {
  listener.watch = std::make_unique<Watch>(loop_, listener.socket.get(), [this, &listener] { accept(listener); });
}

void Reception::accept(Listener& listener) {
  constexpr int accepts_a_turn = 64;
  for (int i = 0; i < accepts_a_turn; ++i) {
    Socket socket = accept_from(listener.socket);
    if (socket) {
      admit(std::move(socket));
      continue;
    }
    if (errno == EAGAIN) return;
    const std::string why = std::generic_category().message(errno);
    if (!arrivals_.empty()) {
      if (const auto now = Clock::now(); now >= next_warning_) {
        log::warn("turns away who wants to connect: " + why + " (see ulimit -n)");
        next_warning_ = now + std::chrono::seconds(10);
      }
      make_room("its descriptor is needed: " + why);
      continue;
    }
    // No descriptor or memory left: trying again at once would spin.
    log::warn("cannot accept a control connection: " + why + "; trying again (see ulimit -n)");
    listener.watch.reset();
    listener.pause = std::make_unique<Timer>(loop_);
    listener.pause->start(Clock::now() + milliseconds(100), [this, &listener] { watch(listener); });
    return;
  }
}

void Reception::admit(Socket socket) {
  const bool local = is_unix(socket);
  const Credentials peer = peer_of(socket);
  if (local && !is_own_user(peer)) {
    log::info(log::Subsystem::bootstrap, "dropped a connection of user " + std::to_string(peer.uid) + ", pid " +
                                             std::to_string(peer.pid) + ": another user");
    return;
  }
  if (!local) tune(socket);
  if (arrivals_.size() >= limits::handshakes_max) make_room("too many wait");
  const Place arrival = arrivals_.emplace(arrivals_.end());
  arrival->local = local;
  arrival->channel = Channel::open(loop_, std::move(socket));
  arrival->channel->handle({[this, arrival](Plane plane, Frame& frame) { receive(arrival, plane, frame); },
                            [this, arrival](const std::string& why) { drop(arrival, why); }});
  arrival->deadline = std::make_unique<Timer>(loop_);
  arrival->deadline->start(Clock::now() + milliseconds(limits::handshake_timeout_ms), [this, arrival] {
    if (arrival->greeted && !arrival->challenged) return refuse(arrival, handshake::Refusal::unknown_key);
    drop(arrival, "it did not prove itself in time");
  });
}

/// The oldest of another host; else the oldest.
void Reception::make_room(const std::string& why) {
  const Place remote =
      std::find_if(arrivals_.begin(), arrivals_.end(), [](const Arrival& arrival) { return !arrival.local; });
  drop(remote != arrivals_.end() ? remote : arrivals_.begin(), why + ", and it is the oldest");
}

void Reception::receive(Place arrival, Plane plane, const Frame& frame) {
  if (plane != Plane::control) return drop(arrival, "it broke the handshake");
  if (frame.kind == handshake::hello && !arrival->greeted) {
    const auto hello = handshake::decode_hello(frame.body);
    if (!hello) return drop(arrival, "its hello is malformed");
    arrival->hello = *hello;
    arrival->greeted = true;
    if (services_.contains(hello->key)) return answer(arrival);
    if (hello->key.purpose == Purpose::join) refuse(arrival, handshake::Refusal::unknown_key);
    return;
  }
  const auto proof = handshake::decode_proof(frame.body);
  if (frame.kind != handshake::proof || !arrival->challenged || !proof) return drop(arrival, "it broke the handshake");
  const auto service = services_.find(arrival->hello.key);
  if (service == services_.end()) return refuse(arrival, handshake::Refusal::unknown_key);
  const Mac expected = handshake::client_mac(service->second.secret, arrival->hello, arrival->nonce, proof->greeting);
  if (!equal(proof->mac, expected)) return refuse(arrival, handshake::Refusal::wrong_proof);
  const std::shared_ptr<Channel> channel = arrival->channel;
  arrivals_.erase(arrival);
  channel->trust();
  channel->handle({});
  channel->send(Plane::control, handshake::welcome, {});
  const auto accept = service->second.accept;  // it may withdraw the service
  accept(channel, proof->greeting);
}

void Reception::answer(Place arrival) {
  const Secret& secret = services_.at(arrival->hello.key).secret;
  fill_random(arrival->nonce);
  arrival->challenged = true;
  const handshake::Challenge challenge = {arrival->nonce,
                                          handshake::server_mac(secret, arrival->hello, arrival->nonce)};
  arrival->channel->send(Plane::control, handshake::challenge, handshake::encode(challenge));
}

void Reception::refuse(Place arrival, handshake::Refusal reason) {
  const ByteWriter body = ByteWriter().number(static_cast<std::uint8_t>(reason));
  arrival->channel->send(Plane::control, handshake::refusal, body.bytes());
  drop(arrival,
       reason == handshake::Refusal::wrong_proof ? "it does not know the secret" : "what it asked for is not here");
}

void Reception::drop(Place arrival, const std::string& why) {
  if (log::enabled(log::Subsystem::bootstrap)) {
    log::info(log::Subsystem::bootstrap, "dropped a connection of " + arrival->channel->peer_in_words() + ": " + why);
  }
  arrival->channel->stop();
  arrivals_.erase(arrival);
}

void Reception::offer(const Key& key, Service service) {
  services_[key] = std::move(service);
  for (Place arrival = arrivals_.begin(); arrival != arrivals_.end(); ++arrival) {
    if (arrival->greeted && !arrival->challenged && arrival->hello.key == key) answer(arrival);
  }
}

void Reception::leave_all(Deadline deadline, std::function<void()> done) {
  const auto leaves = std::make_shared<std::vector<decltype(Service::leave)>>();
  for (const auto& [key, service] : services_) {
    if (service.leave) leaves->push_back(service.leave);
  }
  if (leaves->empty()) return done();
  const auto left = std::make_shared<std::size_t>(leaves->size());  // shared by the callbacks
  for (const auto& leave : *leaves) {
    leave(deadline, [left, done] {
      if (--*left == 0) done();
    });
  }
}

}  // namespace rondo::control
