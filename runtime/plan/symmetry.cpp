// Plans of different ranks compared as sequences of acts, with peers moved back to the first host's places.
#include "plan/symmetry.h"

#include <algorithm>
#include <bit>
#include <optional>

namespace rondo::plan {
namespace {

/// What a step does, seen from its own place.
struct Act {
  Operation operation;
  bool reply, stores;
  std::int32_t lane, blocks;
  std::size_t operands;
  std::vector<std::int32_t> from, to;
  friend bool operator==(const Act&, const Act&) = default;
};

/// The acts of a plan, by strand, copies next to each other as one.
std::vector<std::vector<Act>> acts_of(const Plan& plan, const Symmetry& symmetry, std::int32_t by) {
  std::vector<std::vector<Act>> acts;
  const auto moved = [&](const std::vector<std::int32_t>& peers) {
    std::vector<std::int32_t> result;
    for (const std::int32_t peer : peers)
      if (peer != here) result.push_back(symmetry.moved_back(peer, by));
    return result;
  };
  for (const Strand& strand : plan.strands) {
    std::vector<Act>& list = acts.emplace_back();
    for (const Step& s : strand.steps) {
      const std::int32_t blocks = (s.source ? s.source : s.target).count;
      if (s.operation == Operation::copy && !list.empty() && list.back().operation == Operation::copy) {
        list.back().blocks += blocks;
        continue;
      }
      list.push_back({s.operation, s.reply, static_cast<bool>(s.target), strand.lane, blocks, s.from.size(),
                      moved(s.from), moved(s.to)});
    }
  }
  return acts;
}

/// The ranks of each host, if they are as many everywhere and follow one another; one host: 1, as all are alike.
std::optional<std::int32_t> ranks_a_host(const Topology& topology) {
  const std::vector<std::int32_t>& host = topology.host_of_rank;
  const auto size = static_cast<std::int32_t>(std::count(host.begin(), host.end(), host.front()));
  if (size == topology.ranks()) return 1;
  if (topology.ranks() % size != 0) return std::nullopt;
  for (std::int32_t rank = 0; rank < topology.ranks(); ++rank)
    if (host[rank] != host[rank - rank % size]) return std::nullopt;
  return size;
}

bool holds(const Symmetry& symmetry, const Schedule& schedule, const Topology& topology, int root) {
  const std::int32_t hosts = symmetry.ranks / symmetry.stride;
  for (std::int32_t place = 0; place < symmetry.stride; ++place) {
    const auto first = acts_of(schedule.build(topology, place, root), symmetry, 0);
    for (const std::int32_t host : {1, 2, hosts / 2, hosts / 2 + 1, hosts - 2, hosts - 1}) {
      if (host < 1 || host >= hosts) continue;
      const std::int32_t by = host * symmetry.stride;
      if (acts_of(schedule.build(topology, by + place, root), symmetry, by) != first) return false;
    }
  }
  return true;
}

}  // namespace

Symmetry symmetry_of(const Schedule& schedule, const Topology& topology, int root) {
  const std::int32_t ranks = topology.ranks();
  const Symmetry none{ranks, ranks, false};
  const std::optional<std::int32_t> stride = ranks_a_host(topology);
  if (!stride || *stride == ranks) return none;
  for (const bool exclusive : {false, true}) {
    const Symmetry symmetry{ranks, *stride, exclusive};
    if (exclusive &&
        !(std::has_single_bit(static_cast<unsigned>(ranks)) && std::has_single_bit(static_cast<unsigned>(*stride))))
      continue;
    if (holds(symmetry, schedule, topology, root)) return symmetry;
  }
  return none;
}

}  // namespace rondo::plan
