// Ranks that do the same: whether the plans of all ranks are those of the first few, moved to other places.
#pragma once

#include "plan/plan.h"

namespace rondo::plan {

/// Rank r does what rank r % stride does, with every peer moved by r - r % stride: added modulo the ranks, or, if
/// `exclusive`, by exclusive or.  With a stride of all ranks each stands for itself.
struct Symmetry {
  std::int32_t ranks = 1, stride = 1;
  bool exclusive = false;

  std::int32_t moved_back(std::int32_t rank, std::int32_t by) const {
    return exclusive ? rank ^ by : (rank - by + ranks) % ranks;
  }
  struct Ends {
    std::int32_t from, to;
  };
  /// The link that stands for this one: its sender is one of the first `stride` ranks.
  Ends representative(std::int32_t from, std::int32_t to) const {
    const std::int32_t by = from - from % stride;
    return {moved_back(from, by), moved_back(to, by)};
  }
};

/// Compares the plans of ranks near, far and halfway with the first host's, but for how local copies are cut: that
/// depends on the rank, how much is copied does not.  Which of two operands comes first does not matter either.
Symmetry symmetry_of(const Schedule& schedule, const Topology& topology, int root);

}  // namespace rondo::plan
