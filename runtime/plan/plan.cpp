// Names, topologies, and the helpers that schedules share.
#include "plan/plan.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "plan/schedules.h"

namespace rondo::plan {

std::string_view name(Operation operation) {
  static constexpr std::array<std::string_view, operation_count> names = {
      "send",           "lend", "recv_copy", "recv_reduce", "recv_reduce_send", "recv_reduce_copy_send",
      "recv_copy_send", "copy", "copy_send", "wait"};
  return names[static_cast<std::size_t>(operation)];
}

std::string_view name(Space space) {
  static constexpr std::array<std::string_view, 4> names = {"none", "in", "out", "scratch"};
  return names[static_cast<std::size_t>(space)];
}

std::string_view name(CollectiveKind kind) {
  static constexpr std::array<std::string_view, 9> names = {"all_reduce", "reduce",     "reduce_scatter",
                                                            "broadcast",  "all_gather", "gather",
                                                            "scatter",    "all_to_all", "send_recv"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name(Algorithm algorithm) {
  static constexpr std::array<std::string_view, algorithm_count> names = {
      "ring",     "star",          "one_shot",      "two_shot",           "direct",           "chain",
      "tree",     "one_shot_pull", "two_shot_pull", "recursive_doubling", "halving_doubling", "hierarchical",
      "binomial", "pat",           "bruck"};
  return names[static_cast<std::size_t>(algorithm)];
}

Topology Topology::one_host(int ranks) {
  Topology topology{std::vector<std::int32_t>(ranks, 0), std::vector<std::int32_t>(ranks)};
  std::iota(topology.ring_order.begin(), topology.ring_order.end(), 0);
  return topology;
}

Topology Topology::on_hosts(std::vector<std::int32_t> host_of_rank) {
  Topology topology = one_host(static_cast<int>(host_of_rank.size()));
  // Hosts in the order of their first ranks, so that numbering hosts differently changes nothing.
  std::unordered_map<std::int32_t, std::int32_t> places;
  std::vector<std::int32_t> first(host_of_rank.size());
  for (std::size_t rank = 0; rank < first.size(); ++rank)
    first[rank] = places.try_emplace(host_of_rank[rank], static_cast<std::int32_t>(rank)).first->second;
  std::stable_sort(topology.ring_order.begin(), topology.ring_order.end(),
                   [&](std::int32_t a, std::int32_t b) { return first[a] < first[b]; });
  topology.host_of_rank = std::move(host_of_rank);
  return topology;
}

std::vector<std::vector<std::int32_t>> Topology::hosts() const {
  std::vector<std::vector<std::int32_t>> list;
  std::unordered_map<std::int32_t, std::size_t> places;
  for (const std::int32_t rank : ring_order) {
    const auto [at, added] = places.try_emplace(host_of_rank[rank], list.size());
    if (added) list.emplace_back();
    list[at->second].push_back(rank);
  }
  return list;
}

int widest_message(const Plan& plan) {
  int widest = 1;
  for (const Strand& strand : plan.strands)
    for (const Step& step : strand.steps) {
      const bool local = step.to.empty() && (step.from.empty() || (step.from.size() == 1 && step.from[0] == here));
      if (!local) widest = std::max({widest, step.source.count, step.target.count});
    }
  return widest;
}

Plan striped(const Plan& plan, int lanes, int stripes) {
  Plan copies{{}, plan.scratch_blocks, plan.scratch_first, stripes};
  copies.strands.reserve(plan.strands.size() * static_cast<std::size_t>(stripes));
  for (int stripe = 0; stripe < stripes; ++stripe)
    for (const Strand& strand : plan.strands)
      copies.strands.push_back({strand.steps, strand.lane + stripe * lanes, stripe});
  return copies;
}

Plan one_strand(std::vector<Step> steps, int scratch_blocks, int scratch_first) {
  Plan plan;
  plan.scratch_blocks = scratch_blocks;
  plan.scratch_first = scratch_first;
  plan.strands.push_back({std::move(steps), 0});
  return plan;
}

Plan alone(bool finish) {
  return one_strand({{.operation = Operation::copy, .source = in(0), .target = out(0), .finish = finish}});
}

Plan pass_on(bool is_root, std::int32_t parent, std::vector<std::int32_t> children) {
  Step step{.target = out(0)};
  if (is_root) {
    step.operation = Operation::copy_send;
    step.source = in(0);
  } else {
    step.operation = children.empty() ? Operation::recv_copy : Operation::recv_copy_send;
    step.from = {parent};
  }
  step.to = std::move(children);
  return one_strand({std::move(step)});
}

void up_and_down(Plan& plan, std::int32_t parent, std::vector<std::int32_t> operands,
                 std::vector<std::int32_t> children, int lane, bool top) {
  Step up{.operation = Operation::send, .to = {parent}, .source = in(lane)};
  Step down{.operation = Operation::recv_copy, .from = {parent}, .target = out(lane)};
  if (!children.empty()) {
    up.operation = Operation::recv_reduce_send;
    up.from = std::move(operands);
    up.finish = top;
    down.operation = Operation::recv_copy_send;
    down.to = std::move(children);
  }
  plan.strands.push_back({{std::move(up)}, lane});
  plan.strands.push_back({{std::move(down)}, lane});
}

void copy_in_runs(std::vector<Step>& steps, Space user, std::span<const std::int32_t> blocks) {
  const int count = static_cast<int>(blocks.size());
  for (int first = 0, upto = 1; first < count; first = upto++) {
    while (upto < count && blocks[upto] == blocks[upto - 1] + 1) ++upto;
    const Range aside = scratch(first, upto - first), mine{user, blocks[first], upto - first};
    steps.push_back({.operation = Operation::copy,
                     .source = user == Space::in ? mine : aside,
                     .target = user == Space::in ? aside : mine});
  }
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
