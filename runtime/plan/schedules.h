// The schedules' builders, and the few helpers they share.  Private to plan/: everyone else asks `find` in plan.h.
#pragma once

#include <span>
#include <vector>

#include "plan/plan.h"

namespace rondo::plan {

using Build = Plan(const Topology& topology, int rank, int root);

Build ring_all_reduce, ring_reduce_scatter, ring_all_gather;
Build star_all_reduce;
Build one_shot_all_reduce, one_shot_pull_all_reduce, two_shot_all_reduce, two_shot_pull_all_reduce;
Build two_shot_reduce;
Build direct_reduce_scatter, direct_all_gather, direct_gather, direct_scatter, direct_all_to_all, direct_broadcast;
Build chain_broadcast, chain_reduce, chain_all_reduce;
Build tree_all_reduce;
Build recursive_doubling_all_reduce, halving_doubling_all_reduce;
Build halving_doubling_all_gather, halving_doubling_reduce_scatter, pat_all_gather, pat_reduce_scatter;
Build hierarchical_all_reduce;
Build binomial_broadcast, binomial_reduce, binomial_gather, binomial_scatter;
Build bruck_all_to_all;

// What Schedule::blocks and Schedule::widest say of those where it is not plain.
int hierarchical_blocks(const Topology& topology);
int hierarchical_widest(const Topology& topology);
int widest_halving(const Topology& topology);
int widest_pat(const Topology& topology);
int widest_bruck(const Topology& topology);

/// A plan of one strand on lane 0.
Plan one_strand(std::vector<Step> steps, int scratch_blocks = 0, int scratch_first = 0);
/// The plan of a rank that is alone: `in` block 0 to `out` block 0; `finish` where the collective reduces.
Plan alone(bool finish);
/// One step of a broadcast down a tree of any shape: from `parent`, or at the root from `in`, to `children`.
Plan pass_on(bool is_root, std::int32_t parent, std::vector<std::int32_t> children);
/// Appends two strands: partial sums of block `lane` go up to `parent`, results come down to `children`.  `operands`:
/// the children and `here`, in the order of reduction.  At the top `parent` is the rank itself: a self link joins them.
void up_and_down(Plan& plan, std::int32_t parent, std::vector<std::int32_t> operands,
                 std::vector<std::int32_t> children, int lane, bool top);
/// Appends copies from `user` (`in`) to scratch, or from scratch to `user` (`out`): scratch block k has the place of
/// block `blocks[k]`; one step for each run of neighbours.
void copy_in_runs(std::vector<Step>& steps, Space user, std::span<const std::int32_t> blocks);
/// The other ranks, from rank + 1 on, wrapping: so that ranks do not all begin with the same peer.
std::vector<std::int32_t> others(int ranks, int rank);
/// All ranks left to right, with `here` in this rank's place: the operands of a left fold.
std::vector<std::int32_t> everyone(int ranks, int rank);
/// Where `rank` stands in the topology's ring order.
int ring_position(const Topology& topology, int rank);

}  // namespace rondo::plan
