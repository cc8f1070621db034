// What the proofs share: the modes in which a schedule must be right, and a proof of all of them.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "base/limits.h"
#include "plan/verify.h"

namespace rondo::plan {

inline bool decline(const LinkName&) { return false; }

inline std::vector<std::int32_t> all_ranks(int ranks) {
  std::vector<std::int32_t> list(ranks);
  std::iota(list.begin(), list.end(), 0);
  return list;
}

/// Out of place and in place, all lends granted and all declined: the extremes; mixes follow from them (verify.h).
inline std::vector<Options> modes(const Schedule& schedule, int ranks, int slices) {
  std::vector<Options> list;
  for (const bool in_place : {false, true})
    for (const bool declined : {false, true}) {
      if (declined && !schedule.lends) continue;
      Options& o = list.emplace_back();
      o.credits = schedule.credits(slices, ranks);
      o.slices = slices;
      if (in_place) o.in_place = all_ranks(ranks);
      if (declined) o.lends = decline;
    }
  return list;
}

inline void prove(const Schedule& schedule, const Topology& topology, int root, int slices) {
  const int ranks = topology.ranks();
  const Run run = build_run(schedule, topology, root);
  int lanes = 1, widest = 1;
  for (const Plan& plan : run.plans) {
    widest = std::max(widest, widest_message(plan));
    for (const Strand& strand : plan.strands) lanes = std::max(lanes, strand.lane + 1);
  }
  REQUIRE(lanes == (ranks > 1 ? schedule.lanes : 1));
  REQUIRE(lanes <= limits::plan_lanes_max);
  REQUIRE(widest == schedule.widest(topology));
  REQUIRE(schedule.credits(limits::slices_max, ranks) <= limits::credits);
  for (const Options& mode : modes(schedule, ranks, slices)) {
    INFO(name(schedule.kind) << " " << name(schedule.algorithm) << ", " << ranks << " ranks, root " << root << ", "
                             << slices << " slices, " << (mode.in_place.empty() ? "out of" : "in") << " place, "
                             << (mode.lends ? "declined" : "lent"));
    const Verdict verdict = verify(run, mode);
    INFO(verdict.text);
    REQUIRE(verdict.ok());
    if (ranks > 3 && run.collective.reduces()) REQUIRE(verdict.left_fold == schedule.left_fold);
  }
}

/// Slices and root vary with the number of ranks, so that all of them occur.
inline void prove(const Schedule& schedule, int ranks) {
  const int roots[] = {0, ranks / 2, ranks - 1};
  prove(schedule, Topology::one_host(ranks), roots[ranks % 3], 1 + ranks % 4);
}

}  // namespace rondo::plan
