// The calling side of connections: see connector.h.
#include "control/connector.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>

namespace rondo::control {
namespace {

constexpr int pause_ms_max = 100;  // between attempts: 1, 2, 4, ... ms

}  // namespace

Connector::Connector(Loop& loop, Call call, Report report)
    : loop_(loop), call_(std::move(call)), report_(std::move(report)), timer_(loop) {
  timer_.start(Clock::now(), [this] { attempt(); });
}

Connector::~Connector() {
  if (channel_) channel_->stop();
}

void Connector::attempt() {
  Socket socket = connect_to(call_.name);
  if (!socket) {
    const std::string text = std::generic_category().message(errno);
    if (errno == EAGAIN) return again();  // its queue is full
    return conclude(errno == ECONNREFUSED ? Outcome::nobody : Outcome::broken, text);
  }
  const Credentials peer = peer_of(socket);
  if (!is_own_user(peer)) {
    return conclude(Outcome::broken, "it is served by another user (" + std::to_string(peer.uid) + ")");
  }
  channel_ = Channel::open(loop_, std::move(socket));
  channel_->handle({[this](Plane plane, Frame& frame) { receive(plane, frame); },
                    [this](const std::string& why) { conclude(Outcome::broken, "the connection ended: " + why); }});
  proved_ = false;
  hello_.key = call_.key;
  fill_random(hello_.nonce);
  channel_->send(Plane::control, handshake::hello, handshake::encode(hello_));
}

void Connector::receive(Plane plane, const Frame& frame) {
  if (plane == Plane::control && frame.kind == handshake::challenge && !proved_) return answer(frame);
  if (plane == Plane::control && frame.kind == handshake::welcome && proved_) {
    const std::shared_ptr<Channel> channel = std::move(channel_);
    channel->trust();
    channel->handle({});
    const Report report = std::move(report_);
    report(Outcome::connected, channel, {});
    return;
  }
  if (plane == Plane::control && frame.kind == handshake::refusal) {
    const auto reason = static_cast<handshake::Refusal>(ByteReader(frame.body).number<std::uint8_t>());
    const bool unknown = reason == handshake::Refusal::unknown_key;
    return conclude(unknown ? Outcome::unknown_key : Outcome::wrong_secret,
                    unknown ? "what was asked for is not there" : "the secrets differ");
  }
  conclude(Outcome::broken, "it broke the handshake");
}

void Connector::answer(const Frame& frame) {
  const auto challenge = handshake::decode_challenge(frame.body);
  if (!challenge) return conclude(Outcome::broken, "it broke the handshake");
  if (!equal(challenge->mac, handshake::server_mac(call_.secret, hello_, challenge->nonce))) {
    return conclude(Outcome::wrong_secret, "the secrets differ");
  }
  proved_ = true;
  const Mac mac = handshake::client_mac(call_.secret, hello_, challenge->nonce, call_.greeting);
  channel_->send(Plane::control, handshake::proof, handshake::encode(handshake::Proof{mac, call_.greeting}));
}

void Connector::again() {
  timer_.start(Clock::now() + std::chrono::milliseconds(pause_ms_), [this] { attempt(); });
  pause_ms_ = std::min(2 * pause_ms_, pause_ms_max);
}

void Connector::conclude(Outcome outcome, const std::string& text) {
  if (channel_) std::exchange(channel_, nullptr)->stop();
  last_trouble_ = text;
  const Report report = report_;  // it may destroy this connector, if it answers true
  if (!report(outcome, nullptr, text)) again();
}

}  // namespace rondo::control
