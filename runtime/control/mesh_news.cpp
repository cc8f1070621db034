// What a mesh learns and tells: departures, deaths, failures; and how it closes.
//
// Each rank tells rank 0, and rank 0 tells all.  News of a rank counts once: the first of departure, death and failure.
#include <sys/types.h>

#include <algorithm>
#include <utility>

#include "control/mesh_core.h"
#include "control/thread.h"
#include "control/words.h"

namespace rondo::control {
namespace {

constexpr std::size_t sentence_bytes_max = 4096;

}  // namespace

void MeshCore::receive(int from, Plane plane, Frame& frame) {
  if (closing_ || states_[static_cast<std::size_t>(from)] != State::here) return;
  if (plane == Plane::connection) {
    if (hooks_.frame) hooks_.frame(from, frame);
    ring(thread_.doorbell().page());
    return;
  }
  if (frame.kind == goodbye) return note_left(from);
  if (frame.kind == sockets_wanted) return offer_sockets(from, frame);
  if (frame.kind == sockets_offered) return call_sockets(from, frame);
  ByteReader reader(frame.body);
  const auto rank = reader.number<std::uint32_t>();
  const std::string sentence = frame.kind == failed ? reader.text() : std::string();
  // Of others, only rank 0 may bring news.
  const bool allowed = static_cast<int>(rank) == from || (from == 0 && rank < states_.size());
  if (!reader.complete() || !allowed || (frame.kind != left && frame.kind != failed)) {
    return note_failed(from, "sent a malformed control frame");
  }
  if (static_cast<int>(rank) == rank_) return;
  if (frame.kind == left) return note_left(static_cast<int>(rank));
  note_failed(static_cast<int>(rank), sentence);
}

void MeshCore::closed(int from, const std::string& why) {
  if (closing_) return;
  note_died(from, why);
}

void MeshCore::note_left(int rank) {
  State& state = states_[static_cast<std::size_t>(rank)];
  if (closing_ || state != State::here) return;
  state = State::left;
  if (rank_ == 0) tell(rank, left, ByteWriter().number(static_cast<std::uint32_t>(rank)).bytes());
  let_go(rank);
  if (rank == 0) {
    fail_creation({Code::remote_error, 0, in_words(membership_.members[0]) + " left while this rank started"});
  }
  if (hooks_.left) hooks_.left(rank);
  ring(thread_.doorbell().page());
}

void MeshCore::note_died(int rank, const std::string& how) {
  note_failed(rank, "died (" + how + ")");
  let_go(rank);
}

void MeshCore::note_failed(int rank, const std::string& what) {
  State& state = states_[static_cast<std::size_t>(rank)];
  if (closing_ || state != State::here) return;
  state = State::failed;
  if (rank_ == 0) tell(rank, failed, ByteWriter().number(static_cast<std::uint32_t>(rank)).text(what).bytes());
  const Failure failure = {Code::remote_error, rank,
                           in_words(membership_.members[static_cast<std::size_t>(rank)]) + " " + what};
  if (rank == 0) fail_creation(failure);
  if (hooks_.failed) hooks_.failed(failure);
  ring(thread_.doorbell().page());
}

/// Nothing more is expected of the rank.
void MeshCore::let_go(int rank) {
  const auto found = peers_.find(rank);
  if (found == peers_.end()) return;
  Peer& gone = found->second;
  gone.process_watch.reset();
  gone.process.reset();
  gone.data = {};
  for (Line* line : {&gone.star, &gone.pair}) {
    line->connector.reset();
    if (line->channel) line->channel->stop();
  }
}

void MeshCore::tell(int except, std::uint16_t kind, View body) {
  for (auto& [rank, other] : peers_) {
    if (rank != except && other.star.channel) other.star.channel->send(Plane::control, kind, body);
  }
}

void MeshCore::tell_failure(const std::string& sentence) {
  if (closing_) return;
  const Bytes body = ByteWriter()
                         .number(static_cast<std::uint32_t>(rank_))
                         .text("failed: " + sentence.substr(0, sentence_bytes_max))
                         .bytes();
  for (auto& [rank, other] : peers_) {
    for (const Line* line : {&other.star, &other.pair}) {
      if (line->channel) line->channel->send(Plane::control, failed, body);
    }
  }
}

void MeshCore::close(Deadline deadline, std::function<void()> done) {
  if (closing_) return done();
  closing_ = true;
  fail_creation({Code::invalid_usage, -1, "the communicator was closed while it was created"});
  close_done_ = std::move(done);
  unflushed_ = 1;  // this function
  const auto flushed = [self = shared_from_this()] {
    if (--self->unflushed_ == 0) self->finish_close();
  };
  timer_->start(deadline, [self = shared_from_this()] { self->finish_close(); });
  for (auto& [rank, other] : peers_) {
    other.process_watch.reset();
    other.data = {};
    for (Line* line : {&other.star, &other.pair}) {
      line->connector.reset();
      if (!line->channel || line->channel->stopped()) continue;
      line->channel->handle({});
      line->channel->send(Plane::control, goodbye, {});
      ++unflushed_;
      line->channel->await_flush(flushed);
    }
  }
  flushed();
}

void MeshCore::finish_close() {
  if (!close_done_) return;
  const std::function<void()> done = std::exchange(close_done_, nullptr);
  timer_.reset();
  const Key key = {Purpose::mesh, membership_.communicator, static_cast<std::uint32_t>(rank_)};
  const auto self = shared_from_this();  // the service holds the last reference
  thread_.reception().withdraw(key);
  for (auto& [rank, other] : peers_) {
    other.process.reset();
    for (Line* line : {&other.star, &other.pair}) {
      if (line->channel) std::exchange(line->channel, nullptr)->stop();
    }
  }
  done();
}

}  // namespace rondo::control
