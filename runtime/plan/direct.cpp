// Direct schedules: every rank talks to every other, one or two hops.  Reductions go left to right over the ranks.
//
// one_shot: each rank sends all of its input to all, and each reduces everything itself: one hop, n-1 buffers a rank.
// one_shot_pull: the same by lending: nothing is copied, but `out` must wait aside until nobody reads `in` any more.
// two_shot: rank r owns block r.  It reads block r of all ranks, reduces, and stores the result into block r of every
// rank's `out`: one pass where memory is lent; where a lend is declined, two hops through slots.
// two_shot_pull: the owner stores its block at home, and the others read it there.  reduce_scatter is the first half; a
// two_shot reduce sends what an owner has summed to the root, slice by slice, so that all ranks share the summing.
//
//   three ranks, what rank 1 does with block b:      b0 --\                  /--> out of rank 0
//                                                    b1 ---> (b0+b1)+b2 = B ---> out of rank 1
//                                                    b2 --/                  \--> out of rank 2
//   two_shot: rank 1 stores B everywhere             two_shot_pull: ranks 0 and 2 fetch B
//
// all_gather, gather, scatter and all_to_all move each block once, from the rank that has it to the rank that wants it;
// the first and the last in n-1 rounds, round k with the ranks k ahead and k behind.  Where all ranks give and take,
// lends, the copy of the own block and receipts are strands of their own: who takes finds much at once, and the copy is
// made while others are waited for.  broadcast lends the whole buffer to all: nobody waits for another to pass it on,
// and where lends are declined the root copies n-1 times.
#include <utility>

#include "plan/schedules.h"

namespace rondo::plan {

using enum Operation;

Plan one_shot_all_reduce(const Topology& topology, int rank, int) {
  const int ranks = topology.ranks();
  if (ranks == 1) return alone(true);
  return one_strand(
      {{.operation = send, .to = others(ranks, rank), .source = in(0)},
       {.operation = recv_reduce, .from = everyone(ranks, rank), .source = in(0), .target = out(0), .finish = true}});
}

Plan one_shot_pull_all_reduce(const Topology& topology, int rank, int) {
  const int ranks = topology.ranks();
  if (ranks == 1) return alone(true);
  // In place, `out` is what the others are still reading: reduce aside, wait, copy.
  return one_strand(
      {{.operation = lend, .to = others(ranks, rank), .source = in(0)},
       {.operation = recv_reduce, .from = everyone(ranks, rank), .source = in(0), .target = scratch(0), .finish = true},
       {.operation = wait, .to = others(ranks, rank)},
       {.operation = copy, .source = scratch(0), .target = out(0)}},
      1);
}

namespace {

/// Lends every block of `in` to its owner.
std::vector<Step> lend_blocks(int ranks, int rank, bool for_reply) {
  std::vector<Step> steps;
  steps.reserve(2 * ranks);
  for (const std::int32_t owner : others(ranks, rank))
    steps.push_back(
        {.operation = lend, .to = {owner}, .source = in(owner), .target = for_reply ? out(owner) : Range{}});
  return steps;
}

/// The owner's step: its block of all ranks.
Step reduce_block(int ranks, int rank, Range target, bool reply) {
  return {.operation = recv_reduce,
          .from = everyone(ranks, rank),
          .source = in(rank),
          .target = target,
          .finish = true,
          .reply = reply};
}

/// Lends each rank what it is to have, copies the own block, and takes the others': in strands of their own, as none of
/// these waits for another.
template <typename BlockFor>
Plan exchange(int ranks, int rank, Range own, BlockFor block_for) {
  std::vector<Step> lends, receipts;
  for (int k = 1; k < ranks; ++k) {
    const std::int32_t ahead = (rank + k) % ranks, behind = (rank - k + ranks) % ranks;
    lends.push_back({.operation = lend, .to = {ahead}, .source = block_for(ahead)});
    receipts.push_back({.operation = recv_copy, .from = {behind}, .target = out(behind)});
  }
  Plan plan;
  if (ranks > 1) plan.strands.push_back({std::move(lends), 0});
  plan.strands.push_back({{{.operation = copy, .source = own, .target = out(rank)}}, 0});
  if (ranks > 1) plan.strands.push_back({std::move(receipts), 0});
  return plan;
}

}  // namespace

Plan two_shot_all_reduce(const Topology& topology, int rank, int) {
  const int ranks = topology.ranks();
  if (ranks == 1) return alone(true);
  std::vector<Step> steps = lend_blocks(ranks, rank, true);
  steps.push_back(reduce_block(ranks, rank, out(rank), true));
  steps.push_back({.operation = wait, .to = others(ranks, rank)});
  return one_strand(std::move(steps));
}

Plan two_shot_pull_all_reduce(const Topology& topology, int rank, int) {
  const int ranks = topology.ranks();
  if (ranks == 1) return alone(true);
  std::vector<Step> steps = lend_blocks(ranks, rank, false);
  steps.push_back(reduce_block(ranks, rank, out(rank), false));
  steps.push_back({.operation = lend, .to = others(ranks, rank), .source = out(rank)});
  for (const std::int32_t owner : others(ranks, rank))
    steps.push_back({.operation = recv_copy, .from = {owner}, .target = out(owner)});
  return one_strand(std::move(steps));
}

Plan two_shot_reduce(const Topology& topology, int rank, int root) {
  const int ranks = topology.ranks();
  if (ranks == 1) return alone(true);
  std::vector<Step> steps = lend_blocks(ranks, rank, false);
  Step sum = reduce_block(ranks, rank, out(rank), false);
  if (rank != root) {
    sum.operation = recv_reduce_send;
    sum.to = {root};
    sum.target = {};
  }
  steps.push_back(std::move(sum));
  if (rank == root) {
    for (const std::int32_t owner : others(ranks, rank))
      steps.push_back({.operation = recv_copy, .from = {owner}, .target = out(owner)});
  }
  return one_strand(std::move(steps));
}

Plan direct_reduce_scatter(const Topology& topology, int rank, int) {
  const int ranks = topology.ranks();
  if (ranks == 1) return alone(true);
  std::vector<Step> steps = lend_blocks(ranks, rank, false);
  steps.push_back(reduce_block(ranks, rank, out(0), false));
  return one_strand(std::move(steps));
}

Plan direct_all_gather(const Topology& topology, int rank, int) {
  const int ranks = topology.ranks();
  if (ranks == 1) return alone(false);
  // Lent from `in`, which stays as it is from call to call, so that its lines may stay in the readers' caches, too.
  return exchange(ranks, rank, in(0), [](int) { return in(0); });
}

Plan direct_broadcast(const Topology& topology, int rank, int root) {
  const int ranks = topology.ranks();
  if (ranks == 1) return alone(false);
  if (rank != root) return one_strand({{.operation = recv_copy, .from = {root}, .target = out(0)}});
  Plan plan = one_strand({{.operation = lend, .to = others(ranks, rank), .source = in(0)}});
  plan.strands.push_back({{{.operation = copy, .source = in(0), .target = out(0)}}, 0});
  return plan;
}

Plan direct_gather(const Topology& topology, int rank, int root) {
  if (rank != root) return one_strand({{.operation = lend, .to = {root}, .source = in(0)}});
  std::vector<Step> steps{{.operation = copy, .source = in(0), .target = out(rank)}};
  for (const std::int32_t peer : others(topology.ranks(), rank))
    steps.push_back({.operation = recv_copy, .from = {peer}, .target = out(peer)});
  return one_strand(std::move(steps));
}

Plan direct_scatter(const Topology& topology, int rank, int root) {
  if (rank != root) return one_strand({{.operation = recv_copy, .from = {root}, .target = out(0)}});
  std::vector<Step> steps;
  for (const std::int32_t peer : others(topology.ranks(), rank))
    steps.push_back({.operation = lend, .to = {peer}, .source = in(peer)});
  steps.push_back({.operation = copy, .source = in(rank), .target = out(0)});
  return one_strand(std::move(steps));
}

Plan direct_all_to_all(const Topology& topology, int rank, int) {
  return exchange(topology.ranks(), rank, in(rank), [](int peer) { return in(peer); });
}

}  // namespace rondo::plan
