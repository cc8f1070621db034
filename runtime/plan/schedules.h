// The schedules' builders, and the few helpers they share.  Private to plan/: everyone else asks `find` in plan.h.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace rondo::plan {

Plan ring_all_reduce(const Topology& topology, int rank, int root);
Plan ring_reduce_scatter(const Topology& topology, int rank, int root);
Plan ring_all_gather(const Topology& topology, int rank, int root);
Plan star_all_reduce(const Topology& topology, int rank, int root);
Plan one_shot_all_reduce(const Topology& topology, int rank, int root);
Plan two_shot_all_reduce(const Topology& topology, int rank, int root);
Plan direct_reduce_scatter(const Topology& topology, int rank, int root);
Plan chain_broadcast(const Topology& topology, int rank, int root);

/// A plan of one strand on lane 0, without scratch.
Plan one_strand(std::vector<Step> steps);
/// The plan of a rank that is alone: `in` block 0 to `out` block 0; `finish` where the collective reduces.
Plan alone(bool finish);
/// The other ranks, from rank + 1 on, wrapping: so that ranks do not all begin with the same peer.
std::vector<std::int32_t> others(int ranks, int rank);
/// All ranks left to right, with `here` in this rank's place: the operands of a left fold.
std::vector<std::int32_t> everyone(int ranks, int rank);
/// Where `rank` stands in the topology's ring order.
int ring_position(const Topology& topology, int rank);

}  // namespace rondo::plan
