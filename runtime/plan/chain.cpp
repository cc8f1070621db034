// Chains: each rank takes from the one before it and passes on to the next.  Every link carries the buffer once (twice
// for all-reduce), slices and tiles keep all links busy, and length costs latency only.
//
//   broadcast, root 2 of four, in ring order:   2 --> 3 --> 0 --> 1
//   reduce, to root 1:                          0 --x0--> 1 --x0+x1--> 2 --(x0+x1)+x2--> 3 --sum--> 1
//   all_reduce:                                 0 --x0--> 1 --x0+x1--> 2 --(x0+x1)+x2--> 3 = sum
//                                               0 <--sum- 1 <--sum---- 2 <--sum--------- 3
//
// Reductions go left to right over the ranks whatever the ring order and the root: left folds, for any number of ranks.
// The all-reduce has two strands, one that goes up and one that comes down, joined at the last rank by a self link; the
// root of a reduce has a second strand for the result.
#include <algorithm>
#include <utility>

#include "plan/schedules.h"

namespace rondo::plan {

using enum Operation;

Plan chain_broadcast(const Topology& topology, int rank, int root) {
  const int ranks = topology.ranks();
  if (ranks == 1) return alone(false);
  const int at = ring_position(topology, rank);
  const std::int32_t next = topology.ring_order[(at + 1) % ranks];
  const std::int32_t previous = topology.ring_order[(at + ranks - 1) % ranks];
  return pass_on(rank == root, previous, next == root ? std::vector<std::int32_t>{} : std::vector{next});
}

Plan chain_reduce(const Topology& topology, int rank, int root) {
  const int ranks = topology.ranks();
  if (ranks == 1) return alone(true);
  const bool last = rank == ranks - 1;
  if (last && rank == root)
    return one_strand(
        {{.operation = recv_reduce, .from = {rank - 1, here}, .source = in(0), .target = out(0), .finish = true}});
  Step link{.operation = send, .to = {last ? root : rank + 1}, .source = in(0)};
  if (rank > 0) {
    link.operation = recv_reduce_send;
    link.from = {rank - 1, here};
    link.finish = last;
  }
  Plan plan = one_strand({std::move(link)});
  if (rank == root) plan.strands.push_back({{{.operation = recv_copy, .from = {ranks - 1}, .target = out(0)}}, 0});
  return plan;
}

Plan chain_all_reduce(const Topology& topology, int rank, int) {
  const int ranks = topology.ranks();
  if (ranks == 1) return alone(true);
  Plan plan;
  const std::vector<std::int32_t> before = rank > 0 ? std::vector{rank - 1} : std::vector<std::int32_t>{};
  std::vector<std::int32_t> operands = before;
  operands.push_back(here);
  const bool last = rank == ranks - 1;
  up_and_down(plan, last ? rank : rank + 1, std::move(operands), before, 0, last);
  return plan;
}

}  // namespace rondo::plan
