// All-gather and reduce-scatter in log2 n hops, for any number of ranks: what a rank has doubles each step, and in the
// reduce-scatter, the same run backwards, what it still has to give halves.
//
// halving_doubling (Bruck): near partners first.  Scratch holds blocks by distance: place j is the block of the rank j
// behind.  Four ranks, rank 0, blocks a b c d:
//
//   place:                   0  1  2  3
//   own                      a
//   from 1 (1 behind)        a  b
//   from 2 (2 behind)        a  b  c  d         then copied to its place in `out`
//
// pat (the order of NCCL's parallel aggregated trees): far partners first, so that the long way carries one block and
// only the last hop, to a neighbour, carries half of all; ranks in ring order, so that neighbours share a host.
//
//   own                      a
//   from 2 (2 behind)        a  c
//   from 1 (1 behind)        a  c  b  d
//
// What a rank sends on is always a run of places: the blocks at multiples of 2d, without the last one where its image,
// d further, does not exist.  So the last one is kept at the end: where it has no image the new ones go in front.
#include <algorithm>
#include <bit>
#include <utility>

#include "plan/schedules.h"

namespace rondo::plan {
namespace {

using enum Operation;

/// The largest power of two below n, n > 1.
int half_above(int n) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(n - 1))); }

/// One exchange of a far-first gather: what is at the places first..first+count-1 goes `distance` ahead, what comes
/// from `distance` behind goes to `target` and on.
struct Hop {
  int distance, first, count, target;
};

/// The places of a far-first gather over n ranks, and its exchanges.
struct FarFirst {
  std::vector<int> offsets;  // by place: how far behind the block's rank is
  std::vector<Hop> hops;
  explicit FarFirst(int n) {
    offsets = {0};
    int front = 0;  // places added before the first one; made absolute below
    for (int d = half_above(n); d > 0; d /= 2) {
      const int held = static_cast<int>(offsets.size());
      const bool all = offsets.back() + d < n;
      const int count = all ? held : held - 1;
      hops.push_back({d, -front, count, all ? held - front : -front - count});
      std::vector<int> images;
      for (int i = 0; i < count; ++i) images.push_back(offsets[i] + d);
      offsets.insert(all ? offsets.end() : offsets.begin(), images.begin(), images.end());
      if (!all) front += count;
    }
    own = front;
    for (Hop& hop : hops) {
      hop.first += front;
      hop.target += front;
    }
  }
  int own;  // place of this rank's block
};

/// A rank's neighbours in ring order, by distance.
struct Place {
  const Topology& topology;
  int ranks, at;
  Place(const Topology& topology, int rank)
      : topology(topology), ranks(topology.ranks()), at(ring_position(topology, rank)) {}
  std::int32_t behind(int distance) const { return topology.ring_order[(at + distance) % ranks]; }
  std::vector<std::int32_t> behind(const std::vector<int>& distances) const {
    std::vector<std::int32_t> list;
    for (const int distance : distances) list.push_back(behind(distance));
    return list;
  }
  std::int32_t ahead(int distance) const { return behind(ranks - distance); }
};

/// The blocks of scratch by distance, in rank order.
std::vector<std::int32_t> by_distance(int rank, int ranks) {
  std::vector<std::int32_t> list;
  for (int k = 0; k < ranks; ++k) list.push_back((rank + k) % ranks);
  return list;
}

}  // namespace

Plan halving_doubling_all_gather(const Topology& topology, int rank, int) {
  const int n = topology.ranks();
  if (n == 1) return alone(false);
  std::vector<Step> steps{{.operation = copy, .source = in(0), .target = scratch(0)}};
  for (int d = 1; d < n; d *= 2) {
    const int count = std::min(d, n - d);
    steps.push_back({.operation = send, .to = {(rank - d + n) % n}, .source = scratch(0, count)});
    steps.push_back({.operation = recv_copy, .from = {(rank + d) % n}, .target = scratch(d, count)});
  }
  copy_in_runs(steps, Space::out, by_distance(rank, n));
  return one_strand(std::move(steps), n);
}

Plan halving_doubling_reduce_scatter(const Topology& topology, int rank, int) {
  const int n = topology.ranks();
  if (n == 1) return alone(true);
  std::vector<Step> steps;
  copy_in_runs(steps, Space::in, by_distance(rank, n));
  for (int d = half_above(n); d > 0; d /= 2) {
    const int count = std::min(d, n - d);
    steps.push_back({.operation = send, .to = {(rank + d) % n}, .source = scratch(d, count)});
    steps.push_back({.operation = recv_reduce,
                     .from = {(rank - d + n) % n, here},
                     .source = scratch(0, count),
                     .target = d > 1 ? scratch(0, count) : out(0),
                     .finish = d == 1});
  }
  return one_strand(std::move(steps), n);
}

Plan pat_all_gather(const Topology& topology, int rank, int) {
  if (topology.ranks() == 1) return alone(false);
  const Place place(topology, rank);
  const FarFirst far(place.ranks);
  std::vector<Step> steps{{.operation = copy, .source = in(0), .target = scratch(far.own)}};
  for (const Hop& hop : far.hops) {
    steps.push_back({.operation = send, .to = {place.ahead(hop.distance)}, .source = scratch(hop.first, hop.count)});
    steps.push_back(
        {.operation = recv_copy, .from = {place.behind(hop.distance)}, .target = scratch(hop.target, hop.count)});
  }
  copy_in_runs(steps, Space::out, place.behind(far.offsets));
  return one_strand(std::move(steps), place.ranks);
}

Plan pat_reduce_scatter(const Topology& topology, int rank, int) {
  if (topology.ranks() == 1) return alone(true);
  const Place place(topology, rank);
  const FarFirst far(place.ranks);
  std::vector<Step> steps;
  copy_in_runs(steps, Space::in, place.behind(far.offsets));
  for (auto hop = far.hops.rbegin(); hop != far.hops.rend(); ++hop) {
    const bool last = hop + 1 == far.hops.rend();
    steps.push_back(
        {.operation = send, .to = {place.behind(hop->distance)}, .source = scratch(hop->target, hop->count)});
    steps.push_back({.operation = recv_reduce,
                     .from = {place.ahead(hop->distance), here},
                     .source = scratch(hop->first, hop->count),
                     .target = last ? out(0) : scratch(hop->first, hop->count),
                     .finish = last});
  }
  return one_strand(std::move(steps), place.ranks);
}

int widest_halving(const Topology& topology) {
  const int n = topology.ranks();
  if (n <= 2) return 1;
  const int d = half_above(n);
  return std::max(n - d, d / 2);
}

int widest_pat(const Topology& topology) { return std::max(1, topology.ranks() / 2); }

}  // namespace rondo::plan
