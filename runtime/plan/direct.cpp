// Direct schedules: every rank talks to every other, few hops, each block reduced left to right over the ranks.
//
// one_shot: each rank sends all of its input to all, and each reduces everything itself: one hop, n-1 buffers a rank.
// two_shot: rank r owns block r.  It reads block r of all ranks, reduces, and stores the result into block r of every
// rank's `out`: one pass where memory is lent; where a lend is declined, two hops through slots.  reduce_scatter is its
// first half.
//
//   two_shot, three ranks, what rank 1 does with block b:      b0 --\                  /--> out of rank 0
//                                                              b1 ---> (b0+b1)+b2 = B ---> out of rank 1
//                                                              b2 --/                  \--> out of rank 2
#include <utility>

#include "plan/schedules.h"

namespace rondo::plan {

using enum Operation;

Plan one_shot_all_reduce(const Topology& topology, int rank, int) {
  const int ranks = topology.ranks();
  if (ranks == 1) return alone(true);
  return one_strand({{.operation = send, .to = others(ranks, rank), .source = in(0)},
                     {.operation = recv_reduce, .from = everyone(ranks, rank), .source = in(0), .target = out(0),
                      .finish = true}});
}

Plan two_shot_all_reduce(const Topology& topology, int rank, int) {
  const int ranks = topology.ranks();
  if (ranks == 1) return alone(true);
  std::vector<Step> steps;
  steps.reserve(ranks + 1);
  for (const std::int32_t owner : others(ranks, rank))
    steps.push_back({.operation = lend, .to = {owner}, .source = in(owner), .target = out(owner)});
  steps.push_back({.operation = recv_reduce, .from = everyone(ranks, rank), .source = in(rank), .target = out(rank),
                   .finish = true, .reply = true});
  steps.push_back({.operation = wait, .to = others(ranks, rank)});
  return one_strand(std::move(steps));
}

Plan direct_reduce_scatter(const Topology& topology, int rank, int) {
  const int ranks = topology.ranks();
  if (ranks == 1) return alone(true);
  std::vector<Step> steps;
  steps.reserve(ranks);
  for (const std::int32_t owner : others(ranks, rank))
    steps.push_back({.operation = lend, .to = {owner}, .source = in(owner)});
  steps.push_back({.operation = recv_reduce, .from = everyone(ranks, rank), .source = in(rank), .target = out(0),
                   .finish = true});
  return one_strand(std::move(steps));
}

}  // namespace rondo::plan
