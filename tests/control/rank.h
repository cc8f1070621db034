// A rank for tests: joins, holds a mesh, and remembers all the news it had.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "control.h"
#include "processes.h"

namespace rondo::test {

/// A rank with its mesh, and all the news it had.
class Rank {
 public:
  Rank(const control::UniqueId& id, int rank, int ranks, const std::function<void(control::Mesh&)>& before_start = {})
      : membership_(control::join(id, rank, ranks, in_seconds(20))) {
    control::Mesh::Hooks hooks;
    hooks.opened = [this](int peer, Wire& wire) { note([&] { wires_[peer] = &wire; }); };
    hooks.frame = [this](int peer, Frame& frame) { note([&] { frames_[peer].push_back(std::move(frame)); }); };
    hooks.failed = [this](const control::Failure& failure) { note([&] { failures_.push_back(failure); }); };
    hooks.left = [this](int rank) { note([&] { left_.push_back(rank); }); };
    mesh_ = control::Mesh::create(membership_, std::move(hooks));
    if (before_start) before_start(*mesh_);
    mesh_->start(in_seconds(20));
  }

  control::Mesh& mesh() { return *mesh_; }
  void close() { mesh_->close(in_seconds(5)); }
  const control::Membership& membership() const { return membership_; }

  Wire& wire(int peer) {
    mesh_->want(peer);
    const auto lock = await("a pair channel", [&] { return wires_.contains(peer); });
    return *wires_[peer];
  }
  Frame frame(int peer) {
    const auto lock = await("a frame", [&] { return !frames_[peer].empty(); });
    Frame first = std::move(frames_[peer].front());
    frames_[peer].erase(frames_[peer].begin());
    return first;
  }
  control::Failure failure() {
    const auto lock = await("a failure", [&] { return !failures_.empty(); });
    return failures_.front();
  }
  void await_left(int rank) {
    await("a departure", [&] { return std::find(left_.begin(), left_.end(), rank) != left_.end(); });
  }
  std::size_t failure_count() {
    const std::lock_guard lock(mutex_);
    return failures_.size();
  }

 private:
  template <typename Change>
  void note(Change&& change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  template <typename Condition>
  std::unique_lock<std::mutex> await(const std::string& what, Condition&& condition) {
    std::unique_lock lock(mutex_);
    expect(changed_.wait_until(lock, in_seconds(20), condition), what);
    return lock;
  }

  control::Membership membership_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Wire*> wires_;
  std::map<int, std::vector<Frame>> frames_;
  std::vector<control::Failure> failures_;
  std::vector<int> left_;
  std::unique_ptr<control::Mesh> mesh_;
};

/// Rank 0 makes the id (the first or the second of a test); all get it.
inline control::UniqueId shared_id(Board& board, int rank, int which = 0) {
  if (rank == 0) board.publish(control::create_unique_id(), which);
  return board.await_id(which);
}

}  // namespace rondo::test
