// The cost model: the same plans in virtual time, with credits, for thousands of ranks.  It ranks algorithms; it does
// not predict.
//
// A message of b bytes leaves through its sender's port and enters through its receiver's, seconds_per_message and
// b * seconds_per_byte each, latency apart; a port does one message at a time.  The ports of a rank serve its links
// within the host; those of a host serve its links to other hosts.  Reducing takes time for each operand after the
// first; so does a local copy.  A borrower reads lent memory, and stores replies, through its own port.  A credit
// returns after the link's latency.
//
// Where all ranks, or all hosts, do the same but for their number, one of them is run, and stands for all.
#pragma once

#include <cstdint>

#include "plan/layout.h"
#include "plan/plan.h"

namespace rondo::plan {

struct LinkCost {
  double latency_s;
  double seconds_per_byte;
  double seconds_per_message = 0;
};

struct Parameters {
  LinkCost same_host{0.3e-6, 1 / 8e9, 0.05e-6};
  LinkCost other_host{5e-6, 1 / 3e9, 1e-6};
  double reduce_seconds_per_byte = 1 / 16e9;
  int credits = limits::credits;
  bool lends = false;  // whether links within a host grant lends
  Cut cut;             // tiles and slices, as the executor would cut
  bool whole = false;  // run every rank, also where one stands for others
};

struct Cost {
  double seconds = 0;
  std::uint64_t link_bytes_max = 0;  // of the busiest link, one way
  std::uint64_t rank_bytes_max = 0;  // sent by the busiest rank
  std::uint64_t messages = 0;
  std::uint64_t tiles = 0;
  int slices = 0;
};

/// The ranks that are run for a schedule: fewer than all where one stands for others.
int ranks_run(const Schedule& schedule, const Topology& topology);

/// `bytes` is the whole buffer; collectives with a block a rank have bytes / ranks in each.  Throws
/// Error(invalid_argument) if these credits deadlock it, or if there is no such schedule.
Cost cost(const Schedule& schedule, const Topology& topology, std::uint64_t bytes, const Parameters& parameters = {},
          int root = 0);
Cost cost(CollectiveKind kind, Algorithm algorithm, const Topology& topology, std::uint64_t bytes,
          const Parameters& parameters = {}, int root = 0);

}  // namespace rondo::plan
