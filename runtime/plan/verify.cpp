// The verifier's front: names of faults, runs of schedules, verdicts.
#include "plan/verify.h"

#include <array>
#include <cassert>

#include "plan/verify/world.h"

namespace rondo::plan {

std::string_view name(Fault fault) {
  static constexpr std::array<std::string_view, fault_count> names = {
      "none",      "form",  "range",          "overlap", "write to in", "strand",  "stale",    "doubled",  "missing",
      "misplaced", "stage", "partial in out", "unequal", "race",        "lending", "deadlock", "unmatched"};
  return names[static_cast<std::size_t>(fault)];
}

Run build_run(const Schedule& schedule, const Topology& topology, int root) {
  const int ranks = topology.ranks();
  Run run{{schedule.kind, ranks, schedule.blocks(topology), root, 0}, {}};
  run.plans.reserve(ranks);
  for (int rank = 0; rank < ranks; ++rank) run.plans.push_back(schedule.build(topology, rank, root));
  return run;
}

Verdict verify(std::span<const Run> runs, const Options& options) {
  assert(options.slices >= 1 && options.tiles >= 1);
  Verdict verdict;
  try {
    World(runs, options, verdict).go();
  } catch (const Broken& broken) {
    verdict.fault = broken.fault;
    verdict.text = broken.text;
  }
  return verdict;
}

}  // namespace rondo::plan
