// Ring all-reduce, reduce-scatter and all-gather: every rank talks to its two neighbours only, and each link carries
// (n-1)/n of the buffer a phase, whatever n.  Any number of ranks, in the topology's ring order.
//
// Four ranks, blocks a b c d, ring order 0 1 2 3.  Reduce-scatter: in each step a rank adds its own part to what it
// received and sends the sum on; after three steps it holds one block complete.  (b01 = rank 0's b plus rank 1's b)
//
//              rank 0           rank 1           rank 2           rank 3
//   step 1       d0 ------------> a1 ------------> b2 ------------> c3 ------------> (rank 0)
//   step 2       c30 -----------> d01 -----------> a12 -----------> b23 -----------> (rank 0)
//   step 3       b230 ----------> c301 ----------> d012 ----------> a123 ----------> (rank 0)
//   complete     a1230            b2301            c3012            d0123
//
// All-gather: each rank sends its complete block, then passes on what it receives.
//
//   step 4       a -------------> b -------------> c -------------> d -------------> (rank 0)
//   step 5       d -------------> a -------------> b -------------> c -------------> (rank 0)
//   step 6       c -------------> d -------------> a -------------> b -------------> (rank 0)
//   all hold     b                c                d                a               received last
//
// Step 4's send is fused with the last reduction, so an all-reduce is 2n-1 steps.  The sum of a block
// begins behind its owner in the ring: equal on all ranks, but not in rank order (not a left fold).
#include <utility>

#include "plan/schedules.h"

namespace rondo::plan {
namespace {

using enum Operation;

/// One rank's place in the ring.  Block k is that of the rank at position k; positions wrap.
struct Place {
  const Topology& topology;
  int ranks;
  int at;
  Place(const Topology& topology, int rank)
      : topology(topology), ranks(topology.ranks()), at(ring_position(topology, rank)) {}
  std::int32_t block(int position) const { return topology.ring_order[(position % ranks + ranks) % ranks]; }
  std::int32_t next() const { return block(at + 1); }
  std::int32_t previous() const { return block(at - 1); }
};

/// Appends the reduce-scatter: leaves this rank's block complete in `target`, and also sends it on if `onward`.
void reduce_scatter(std::vector<Step>& steps, const Place& place, Range target, bool onward) {
  steps.push_back({.operation = send, .to = {place.next()}, .source = in(place.block(place.at - 1))});
  for (int k = 2; k < place.ranks; ++k)
    steps.push_back({.operation = recv_reduce_send,
                     .from = {place.previous(), here},
                     .to = {place.next()},
                     .source = in(place.block(place.at - k))});
  Step last{.operation = recv_reduce,
            .from = {place.previous(), here},
            .source = in(place.block(place.at)),
            .target = target,
            .finish = true};
  if (onward) {
    last.operation = recv_reduce_copy_send;
    last.to = {place.next()};
  }
  steps.push_back(std::move(last));
}

/// Appends the all-gather, whose first send (of this rank's own block) is already done.
void all_gather(std::vector<Step>& steps, const Place& place) {
  for (int k = 1; k < place.ranks - 1; ++k)
    steps.push_back({.operation = recv_copy_send,
                     .from = {place.previous()},
                     .to = {place.next()},
                     .target = out(place.block(place.at - k))});
  steps.push_back({.operation = recv_copy, .from = {place.previous()}, .target = out(place.block(place.at + 1))});
}

}  // namespace

Plan ring_all_reduce(const Topology& topology, int rank, int) {
  const Place place(topology, rank);
  if (place.ranks == 1) return alone(true);
  std::vector<Step> steps;
  steps.reserve(2 * place.ranks - 1);
  reduce_scatter(steps, place, out(rank), true);
  all_gather(steps, place);
  return one_strand(std::move(steps));
}

Plan ring_reduce_scatter(const Topology& topology, int rank, int) {
  const Place place(topology, rank);
  if (place.ranks == 1) return alone(true);
  std::vector<Step> steps;
  steps.reserve(place.ranks);
  reduce_scatter(steps, place, out(0), false);
  return one_strand(std::move(steps));
}

Plan ring_all_gather(const Topology& topology, int rank, int) {
  const Place place(topology, rank);
  if (place.ranks == 1) return alone(false);
  std::vector<Step> steps;
  steps.reserve(place.ranks);
  steps.push_back({.operation = copy_send, .to = {place.next()}, .source = in(0), .target = out(rank)});
  all_gather(steps, place);
  return one_strand(std::move(steps));
}

}  // namespace rondo::plan
