// What a mesh learns and tells: departures, deaths, failures; and how it closes.
//
// Who knows and who is told is News's; here are the channels that it comes and goes by.
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/limits.h"
#include "control/mesh_core.h"
#include "control/thread.h"
#include "control/words.h"

namespace rondo::control {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t sentence_bytes_max = 4096;

}  // namespace

void MeshCore::receive(int from, Plane plane, Frame& frame) {
  if (closing_ || !here(from)) return;
  if (plane == Plane::connection) {
    if (hooks_.frame) hooks_.frame(from, frame);
    ring(thread_.doorbell().ringer());
    return;
  }
  if (frame.kind == goodbye) return news_.note(from, State::left);
  if (frame.kind == sockets_wanted) return offer_sockets(from, frame);
  if (frame.kind == sockets_offered) return call_sockets(from, frame);
  if (!news_.receive(from, frame.kind, frame.body)) note_failed(from, "sent a malformed control frame");
}

/// A pair's channel may end before a reason could pass through it, while it was set up: the tree brings the reason.
void MeshCore::closed(int from, Use use, const std::string& why) {
  if (closing_ || !here(from)) return;
  if (use == Use::tree) return note_died(from, why);
  auto& timer = peer(from).pair_end;
  timer = std::make_unique<Timer>(thread_.loop());
  timer->start(Clock::now() + milliseconds(limits::news_wait_ms), [this, from, why] { note_died(from, why); });
}

void MeshCore::note_died(int rank, const std::string& how) {
  note_failed(rank, "died (" + how + ")");
  let_go(rank);
}

void MeshCore::note_failed(int rank, const std::string& what) {
  if (!closing_) news_.note(rank, State::failed, what);
}

void MeshCore::send(int to, std::uint16_t kind, View body) {
  if (const auto& channel = peer(to).tree.channel) channel->send(Plane::control, kind, body);
}

void MeshCore::mend_soon() {
  if (!closing_) mend_timer_->start(Clock::now() + milliseconds(limits::mend_pause_ms), [this] { news_.mend(); });
}

void MeshCore::gone(int rank, State how, const std::string& sentence) {
  const std::string who = in_words(membership_.members[static_cast<std::size_t>(rank)]);
  const bool awaited = news_.awaited().contains(rank);
  if (how == State::left) {
    let_go(rank);
    if (awaited) fail_creation({Code::remote_error, rank, who + " left while this rank started"});
    if (hooks_.left) hooks_.left(rank);
  } else {
    const Failure failure = {Code::remote_error, rank, who + " " + sentence};
    tell_pairs(rank, sentence);
    if (awaited) fail_creation(failure);
    if (hooks_.failed) hooks_.failed(failure);
  }
  ring(thread_.doorbell().ringer());
}

/// This rank's calls fail now, and its process may end: those with a pair channel to it must hear the reason before the
/// end.  The first failure only: it is the one that the communicator keeps.
void MeshCore::tell_pairs(int failed, const std::string& sentence) {
  if (std::exchange(told_pairs_, true)) return;
  const Bytes body = News::encode(failed, sentence, State::failed);
  for (auto& [rank, other] : peers_) {
    if (rank != failed && other.pair.channel) other.pair.channel->send(Plane::control, News::failed, body);
  }
}

/// Nothing more is expected of the rank.
void MeshCore::let_go(int rank) {
  const auto found = peers_.find(rank);
  if (found == peers_.end()) return;
  Peer& gone = found->second;
  gone.process_watch.reset();
  gone.process.reset();
  gone.pair_end.reset();
  gone.data = {};
  for (Line* line : {&gone.tree, &gone.pair}) {
    line->connector.reset();
    if (line->channel) line->channel->stop();
  }
}

void MeshCore::tell_failure(const std::string& sentence) {
  if (closing_) return;
  const Bytes body = News::encode(rank_, "failed: " + sentence.substr(0, sentence_bytes_max), State::failed);
  for (auto& [rank, other] : peers_) {
    for (const Line* line : {&other.tree, &other.pair}) {
      if (line->channel) line->channel->send(Plane::control, News::failed, body);
    }
  }
  if (own_failure_.empty()) own_failure_ = body;
}

void MeshCore::close(Deadline deadline, std::function<void()> done) {
  if (closing_) return done();
  closing_ = true;
  fail_creation({Code::invalid_usage, -1, "the communicator was closed while it was created"});
  close_done_ = std::move(done);
  if (mend_timer_) mend_timer_->cancel();
  unflushed_ = 1;  // this function
  const auto flushed = [self = shared_from_this()] {
    if (--self->unflushed_ == 0) self->finish_close();
  };
  timer_->start(deadline, [self = shared_from_this()] { self->finish_close(); });
  for (auto& [rank, other] : peers_) {
    other.process_watch.reset();
    other.pair_end.reset();
    other.data = {};
    for (Line* line : {&other.tree, &other.pair}) {
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
  mend_timer_.reset();
  const Key key = {Purpose::mesh, membership_.communicator, static_cast<std::uint32_t>(rank_)};
  const auto self = shared_from_this();  // the service holds the last reference
  thread_.reception().withdraw(key);
  for (auto& [rank, other] : peers_) {
    other.process.reset();
    for (Line* line : {&other.tree, &other.pair}) {
      if (line->channel) std::exchange(line->channel, nullptr)->stop();
    }
  }
  done();
}

}  // namespace rondo::control
