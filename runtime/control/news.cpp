// News along the tree: see news.h.
#include "control/news.h"

#include "control/tree.h"

namespace rondo::control {

News::News(int rank, int ranks, Owner& owner)
    : rank_(rank), owner_(owner), states_(static_cast<std::size_t>(ranks), State::here), parent_(tree_parent(rank)) {
  for (const int child : tree_children(rank, ranks)) awaited_.insert(child);
  if (parent_ >= 0) awaited_.insert(parent_);
}

void News::start() {
  if (parent_ >= 0) owner_.call(parent_);
}

Bytes News::encode(int rank, const std::string& sentence, State how) {
  ByteWriter writer;
  writer.number(static_cast<std::uint32_t>(rank));
  if (how == State::failed) writer.text(sentence);
  return writer.bytes();
}

void News::attached(int rank) {
  awaited_.erase(rank);
  lines_.insert(rank);
  for (const auto& [other, sentence] : sentences_) {
    if (other == rank) continue;
    const State how = state(other);
    owner_.send(rank, how == State::left ? left : failed, encode(other, sentence, how));
  }
}

void News::unreachable(int rank) {
  unreachable_.insert(rank);
  if (rank != parent_) return;
  parent_ = -1;
  owner_.mend_soon();
}

void News::mend() {
  if (parent_ >= 0) return;
  parent_ = next_parent();
  if (parent_ >= 0) owner_.call(parent_);
}

int News::next_parent() const {
  const auto fits = [this](int rank) { return state(rank) == State::here && !unreachable_.contains(rank); };
  for (int rank = tree_parent(rank_); rank >= 0; rank = tree_parent(rank)) {
    if (fits(rank)) return rank;
  }
  for (int rank = 1; rank < rank_; ++rank) {
    if (fits(rank)) return rank;
  }
  return -1;
}

bool News::receive(int from, std::uint16_t kind, View body) {
  ByteReader reader(body);
  const auto rank = reader.number<std::uint32_t>();
  const std::string sentence = kind == failed ? reader.text() : std::string();
  if (!reader.complete() || rank >= states_.size() || (kind != left && kind != failed)) return false;
  learn(static_cast<int>(rank), kind == left ? State::left : State::failed, sentence, from);
  return true;
}

void News::learn(int rank, State how, const std::string& sentence, int from) {
  if (rank == rank_ || state(rank) != State::here) return;
  states_[static_cast<std::size_t>(rank)] = how;
  sentences_[rank] = sentence;
  lines_.erase(rank);
  const Bytes body = encode(rank, sentence, how);
  for (const int neighbour : lines_) {
    if (neighbour != from) owner_.send(neighbour, how == State::left ? left : failed, body);
  }
  if (rank == parent_) {
    parent_ = -1;
    owner_.mend_soon();
  }
  owner_.gone(rank, how, sentence);
}

}  // namespace rondo::control
