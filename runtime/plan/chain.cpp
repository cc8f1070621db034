// Chain broadcast: from the root along the ring order, each rank stores a slice and passes it on.  Every link carries
// the buffer once; slices and tiles keep all links busy, so that length costs latency only.
//
//   root 2 of four:      2 --> 3 --> 0 --> 1
#include <utility>

#include "plan/schedules.h"

namespace rondo::plan {

Plan chain_broadcast(const Topology& topology, int rank, int root) {
  using enum Operation;
  const int ranks = topology.ranks();
  if (ranks == 1) return alone(false);
  const int at = ring_position(topology, rank);
  const std::int32_t next = topology.ring_order[(at + 1) % ranks];
  const std::int32_t previous = topology.ring_order[(at + ranks - 1) % ranks];
  Step step{.target = out(0)};
  if (rank == root) {
    step.operation = copy_send;
    step.source = in(0);
  } else {
    step.operation = next == root ? recv_copy : recv_copy_send;
    step.from = {previous};
  }
  if (next != root) step.to = {next};
  return one_strand({std::move(step)});
}

}  // namespace rondo::plan
