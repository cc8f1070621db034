// Binomial trees: log2 n hops between a root and all others.  Any number of ranks, in ring order from the root, so that
// a subtree is a run of neighbours.
//
// Eight ranks, root 0, numbers relative to the root: a rank's children are 1, 2, 4, ... behind it, up to its own lowest
// bit.  Broadcast goes down (far children first: theirs are the deepest subtrees), reduce comes up.
//
//              0 ----------------- 4
//              | \                 | \             .
//              |  2 -- 3           |  6 -- 7
//              1                   5
//
// Reduce needs no scratch, and no `out` off the root: partial sums only travel.  Gather and scatter carry a subtree as
// one range of scratch in relative order, which the root copies from or to their places.
#include <algorithm>
#include <utility>

#include "plan/schedules.h"

namespace rondo::plan {
namespace {

using enum Operation;

/// One rank's place in the tree.
struct Place {
  const Topology& topology;
  int ranks, root_at, at;     // at: relative to the root
  std::vector<int> children;  // relative, near ones first
  Place(const Topology& topology, int rank, int root)
      : topology(topology),
        ranks(topology.ranks()),
        root_at(ring_position(topology, root)),
        at((ring_position(topology, rank) - root_at + ranks) % ranks) {
    for (int by = 1; by < (at == 0 ? ranks : at & -at) && at + by < ranks; by *= 2) children.push_back(at + by);
  }
  std::int32_t rank_of(int relative) const { return topology.ring_order[(relative + root_at) % ranks]; }
  std::vector<std::int32_t> all() const {
    std::vector<std::int32_t> list;
    for (int k = 0; k < ranks; ++k) list.push_back(rank_of(k));
    return list;
  }
  std::int32_t parent() const { return rank_of(at & (at - 1)); }
  /// Ranks in the subtree of `relative`, itself among them.
  int size_of(int relative) const {
    return relative == 0 ? ranks : std::min(relative + (relative & -relative), ranks) - relative;
  }
  std::vector<std::int32_t> child_ranks(bool far_first) const {
    std::vector<std::int32_t> list;
    for (const int child : children) list.push_back(rank_of(child));
    if (far_first) std::reverse(list.begin(), list.end());
    return list;
  }
};

}  // namespace

Plan binomial_broadcast(const Topology& topology, int rank, int root) {
  if (topology.ranks() == 1) return alone(false);
  const Place place(topology, rank, root);
  return pass_on(rank == root, place.parent(), place.child_ranks(true));
}

Plan binomial_reduce(const Topology& topology, int rank, int root) {
  if (topology.ranks() == 1) return alone(true);
  const Place place(topology, rank, root);
  Step step{.operation = send, .source = in(0)};
  if (rank != root) step.to = {place.parent()};
  if (!place.children.empty()) {
    step.from = place.child_ranks(false);
    step.from.insert(step.from.begin(), here);
    step.operation = recv_reduce_send;
  }
  if (rank == root) {
    step.operation = recv_reduce;
    step.target = out(0);
    step.finish = true;
  }
  return one_strand({std::move(step)});
}

Plan binomial_gather(const Topology& topology, int rank, int root) {
  if (topology.ranks() == 1) return alone(false);
  const Place place(topology, rank, root);
  std::vector<Step> steps{{.operation = copy, .source = in(0), .target = scratch(0)}};
  for (const int child : place.children)
    steps.push_back({.operation = recv_copy,
                     .from = {place.rank_of(child)},
                     .target = scratch(child - place.at, place.size_of(child))});
  if (rank != root) {
    steps.push_back({.operation = send, .to = {place.parent()}, .source = scratch(0, place.size_of(place.at))});
  } else {
    copy_in_runs(steps, Space::out, place.all());
  }
  return one_strand(std::move(steps), place.size_of(place.at));
}

Plan binomial_scatter(const Topology& topology, int rank, int root) {
  if (topology.ranks() == 1) return alone(false);
  const Place place(topology, rank, root);
  std::vector<Step> steps;
  if (rank != root) {
    steps.push_back({.operation = recv_copy, .from = {place.parent()}, .target = scratch(0, place.size_of(place.at))});
  } else {
    copy_in_runs(steps, Space::in, place.all());
  }
  for (auto child = place.children.rbegin(); child != place.children.rend(); ++child)
    steps.push_back({.operation = send,
                     .to = {place.rank_of(*child)},
                     .source = scratch(*child - place.at, place.size_of(*child))});
  steps.push_back({.operation = copy, .source = scratch(0), .target = out(0)});
  return one_strand(std::move(steps), place.size_of(place.at));
}

}  // namespace rondo::plan
