// The table of all schedules.
#include "plan/schedules.h"

#include <bit>

namespace rondo::plan {
namespace {

// Credits: a step that receives and sends holds one message while the m of the step before are on their way.
int one(int, int) { return 1; }
int half_of_slices(int slices, int) { return (slices + 1) / 2; }
int all_slices(int slices, int) { return slices; }
int all_slices_and_one(int slices, int) { return slices + 1; }
int all_slices_and_one_if_fused(int slices, int ranks) { return slices + (ranks > 2); }  // two ranks never forward

int one_block(const Topology&) { return 1; }
int block_a_tree(const Topology& topology) { return topology.ranks() > 1 ? 2 : 1; }
int block_a_rank(const Topology& topology) { return topology.ranks(); }
int power_below(int ranks) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))); }
int power_of_blocks(const Topology& topology) { return power_below(topology.ranks()); }
/// Halving-doubling folds whole buffers, and exchanges halves.
int fold_or_half(const Topology& topology) {
  const int power = power_below(topology.ranks());
  return topology.ranks() > power ? power : power > 1 ? power / 2 : 1;
}

}  // namespace

const std::vector<Schedule>& schedules() {
  using enum CollectiveKind;
  using A = Algorithm;
  constexpr auto m = all_slices, m_1 = all_slices_and_one, m_fused = all_slices_and_one_if_fused;
  constexpr auto block = one_block, blocks = block_a_rank;
  // Never destroyed: a queue's worker may look a schedule up while the process exits.
  // clang-format off
  static const auto& table = *new std::vector<Schedule>{
      // kind, algorithm, build, credits, blocks, widest, left fold, lends, lanes
      {all_reduce, A::ring, ring_all_reduce, m_1, blocks, block, false, false},
      {all_reduce, A::star, star_all_reduce, half_of_slices, block, block, true, false},
      {all_reduce, A::one_shot, one_shot_all_reduce, m, block, block, true, false},
      {all_reduce, A::two_shot, two_shot_all_reduce, m_1, blocks, block, true, true},
      {all_reduce, A::one_shot_pull, one_shot_pull_all_reduce, m, block, block, true, true},
      {all_reduce, A::two_shot_pull, two_shot_pull_all_reduce, m, blocks, block, true, true},
      {all_reduce, A::chain, chain_all_reduce, one, block, block, true, false},
      {all_reduce, A::tree, tree_all_reduce, one, block_a_tree, block, false, false, 2},
      {all_reduce, A::recursive_doubling, recursive_doubling_all_reduce, m, block, block, false, false},
      {all_reduce, A::halving_doubling, halving_doubling_all_reduce, m, power_of_blocks, fold_or_half, false, false},
      {all_reduce, A::hierarchical, hierarchical_all_reduce, m_1, hierarchical_blocks, hierarchical_widest, false,
       false},
      {reduce_scatter, A::ring, ring_reduce_scatter, m_fused, block, block, false, false},
      {reduce_scatter, A::direct, direct_reduce_scatter, m, block, block, true, true},
      {reduce_scatter, A::halving_doubling, halving_doubling_reduce_scatter, m, block, widest_halving, false, false},
      {reduce_scatter, A::pat, pat_reduce_scatter, m, block, widest_pat, false, false},
      {all_gather, A::ring, ring_all_gather, m_fused, block, block, false, false},
      {all_gather, A::direct, direct_all_gather, one, block, block, false, true},
      {all_gather, A::halving_doubling, halving_doubling_all_gather, m, block, widest_halving, false, false},
      {all_gather, A::pat, pat_all_gather, m, block, widest_pat, false, false},
      {broadcast, A::chain, chain_broadcast, one, block, block, false, false},
      {broadcast, A::binomial, binomial_broadcast, one, block, block, false, false},
      {broadcast, A::direct, direct_broadcast, one, block, block, false, true},
      {reduce, A::chain, chain_reduce, one, block, block, true, false},
      {reduce, A::binomial, binomial_reduce, one, block, block, false, false},
      {reduce, A::two_shot, two_shot_reduce, m, blocks, block, true, true},
      {gather, A::direct, direct_gather, one, block, block, false, true},
      {gather, A::binomial, binomial_gather, one, block, widest_halving, false, false},
      {scatter, A::direct, direct_scatter, one, block, block, false, true},
      {scatter, A::binomial, binomial_scatter, one, block, widest_halving, false, false},
      {all_to_all, A::direct, direct_all_to_all, one, block, block, false, true},
      {all_to_all, A::bruck, bruck_all_to_all, m, block, widest_bruck, false, false},
  };
  // clang-format on
  return table;
}

const Schedule* find(CollectiveKind kind, Algorithm algorithm) {
  for (const Schedule& schedule : schedules())
    if (schedule.kind == kind && schedule.algorithm == algorithm) return &schedule;
  return nullptr;
}

}  // namespace rondo::plan
