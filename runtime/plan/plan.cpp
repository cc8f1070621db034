// Names, topologies, the table of schedules, and the helpers that schedules share.
#include "plan/plan.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <numeric>
#include <utility>

#include "plan/schedules.h"

namespace rondo::plan {

std::string_view name(Operation operation) {
  static constexpr std::array<std::string_view, operation_count> names = {
      "send", "lend", "recv_copy", "recv_reduce", "recv_reduce_send", "recv_reduce_copy_send", "recv_copy_send",
      "copy", "copy_send", "wait"};
  return names[static_cast<std::size_t>(operation)];
}

std::string_view name(Space space) {
  static constexpr std::array<std::string_view, 4> names = {"none", "in", "out", "scratch"};
  return names[static_cast<std::size_t>(space)];
}

std::string_view name(CollectiveKind kind) {
  static constexpr std::array<std::string_view, 9> names = {
      "all_reduce", "reduce", "reduce_scatter", "broadcast", "all_gather", "gather", "scatter", "all_to_all",
      "send_recv"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name(Algorithm algorithm) {
  static constexpr std::array<std::string_view, 6> names = {"ring", "star", "one_shot", "two_shot", "direct", "chain"};
  return names[static_cast<std::size_t>(algorithm)];
}

Topology Topology::one_host(int ranks) {
  Topology topology{std::vector<std::int32_t>(ranks, 0), std::vector<std::int32_t>(ranks)};
  std::iota(topology.ring_order.begin(), topology.ring_order.end(), 0);
  return topology;
}

namespace {

// Credits: a step that receives and sends holds one message while the m of the step before are on their way.
int one(int, int) { return 1; }
int half_of_slices(int slices, int) { return (slices + 1) / 2; }
int all_slices(int slices, int) { return slices; }
int all_slices_and_one(int slices, int) { return slices + 1; }
int all_slices_and_one_if_fused(int slices, int ranks) { return slices + (ranks > 2); }  // two ranks never forward

int one_block(int) { return 1; }
int block_a_rank(int ranks) { return ranks; }

}  // namespace

const std::vector<Schedule>& schedules() {
  using enum CollectiveKind;
  // Never destroyed: a queue's worker may look a schedule up while the process exits.
  static const auto& table = *new std::vector<Schedule>{
      // kind         algorithm            build                  credits                      blocks  left fold  lends
      {all_reduce, Algorithm::ring, ring_all_reduce, all_slices_and_one, block_a_rank, false, false},
      {all_reduce, Algorithm::star, star_all_reduce, half_of_slices, one_block, true, false},
      {all_reduce, Algorithm::one_shot, one_shot_all_reduce, all_slices, one_block, true, false},
      {all_reduce, Algorithm::two_shot, two_shot_all_reduce, all_slices_and_one, block_a_rank, true, true},
      {reduce_scatter, Algorithm::ring, ring_reduce_scatter, all_slices_and_one_if_fused, one_block, false, false},
      {reduce_scatter, Algorithm::direct, direct_reduce_scatter, all_slices, one_block, true, true},
      {all_gather, Algorithm::ring, ring_all_gather, all_slices_and_one_if_fused, one_block, false, false},
      {broadcast, Algorithm::chain, chain_broadcast, one, one_block, false, false},
  };
  return table;
}

const Schedule* find(CollectiveKind kind, Algorithm algorithm) {
  for (const Schedule& schedule : schedules())
    if (schedule.kind == kind && schedule.algorithm == algorithm) return &schedule;
  return nullptr;
}

Plan one_strand(std::vector<Step> steps) {
  Plan plan;
  plan.strands.push_back({std::move(steps), 0});
  return plan;
}

Plan alone(bool finish) {
  return one_strand({{.operation = Operation::copy, .source = in(0), .target = out(0), .finish = finish}});
}

std::vector<std::int32_t> others(int ranks, int rank) {
  std::vector<std::int32_t> list;
  list.reserve(ranks - 1);
  for (int k = 1; k < ranks; ++k) list.push_back((rank + k) % ranks);
  return list;
}

std::vector<std::int32_t> everyone(int ranks, int rank) {
  std::vector<std::int32_t> list(ranks);
  std::iota(list.begin(), list.end(), 0);
  list[rank] = here;
  return list;
}

int ring_position(const Topology& topology, int rank) {
  const auto at = std::find(topology.ring_order.begin(), topology.ring_order.end(), rank);
  assert(at != topology.ring_order.end());
  return static_cast<int>(at - topology.ring_order.begin());
}

}  // namespace rondo::plan
