// The verifier: runs the plans of all ranks symbolically, over links with finite credits and with lending, and proves
// them or names the first broken rule.  It leaves out bytes, types, time and failures.
//
// Why one run is a proof: strands are sequential and links are ordered, bounded queues, and every wait is for one named
// message, credit or release; so the order of events cannot change what is received.  Vector clocks ignore credits, so
// a proof at c credits holds for more.  `wait` orders only the lent cells, so clocks do not depend on who lends: all
// lent proves the absence of races, none lent the absence of deadlock (it has the most messages), and together any mix.
// Likewise all ranks out of place and all in place prove any mix.  A proof is for one number of slices; use two tiles
// at least, because scratch has one copy for all tiles.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace rondo::plan {

/// The rules that a plan can break.
enum class Fault : std::uint8_t {
  none,
  form,            // the step lacks or has too much for its operation, or names a rank outside the world
  range,           // outside its space
  overlap,         // source and target overlap, and differ
  write_to_in,     // target in `in`
  strand,          // two strands use one end of a link
  stale,           // reads what was never written, or `in` after it was overwritten
  doubled,         // a contributor twice
  missing,         // a contributor, or a result, is not there
  misplaced,       // another element's value
  stage,           // reduces or finishes what is not partial
  partial_in_out,  // an unfinished value enters `out`
  unequal,         // all-reduce: ranks hold different trees, so perhaps different bits
  race,            // two strands touch one cell unordered
  lending,         // a reply that nobody awaits, or to a message that offers no range
  deadlock,        // with these credits
  unmatched,       // a message that nobody receives, or that does not fit its receiver
};
inline constexpr int fault_count = 17;
std::string_view name(Fault fault);

/// One call: a collective, and the plan of each of its ranks, by rank (empty: takes no part).
struct Run {
  Collective collective;
  std::vector<Plan> plans;
};
/// All ranks' plans of a schedule.
Run build_run(const Schedule& schedule, const Topology& topology, int root = 0);

/// For one rank: the size of its `in` and `out` in blocks, and where each begins in the one buffer when in place.
struct Rule {
  std::int32_t in_blocks = 0, out_blocks = 0;
  bool in_place = false;  // whether the collective can be
  std::int32_t in_base = 0, out_base = 0;
};
Rule rule(const Collective& collective, int rank);

struct LinkName {
  std::int32_t from, to, lane;
};

struct Options {
  int credits = 1;  // of every link
  int slices = 2;   // messages a step
  int tiles = 2;
  std::vector<std::int32_t> in_place;              // the ranks whose buffers alias, where the rule allows it
  std::function<bool(const LinkName&)> lends;      // whether the link grants lends; empty: all do
  std::map<std::int32_t, std::vector<int>> order;  // call order (indices of runs) of ranks where it differs
  std::optional<std::uint64_t> seed;               // a random order of events
  bool expressions = false;                        // fill Verdict::results
};

struct Verdict {
  Fault fault = Fault::none;
  std::string text;          // of the fault: where and what
  bool left_fold = false;    // every reduction is ((0 + 1) + 2) + ...
  std::uint64_t slices = 0;  // slices of steps executed
  std::uint64_t messages = 0;
  std::uint64_t cells = 0;                                          // cells of `out` proved right
  std::map<std::pair<int, int>, std::vector<std::string>> results;  // (run, rank): expressions in `out`, by tile, cell
  bool ok() const noexcept { return fault == Fault::none; }
};

/// Proves `runs` (in call order) or says what is broken.  Slices and tiles must be at least 1.
Verdict verify(std::span<const Run> runs, const Options& options);
inline Verdict verify(const Run& run, const Options& options) { return verify({&run, 1}, options); }

}  // namespace rondo::plan
