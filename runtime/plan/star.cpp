// Star all-reduce: every rank sends its whole buffer to rank 0, which reduces left to right and sends the result back.
// This is the parameter server, kept as the honest baseline: rank 0's links carry n-1 buffers each way.
//
//     1 --x1--> 0        1 <--sum-- 0
//     2 --x2--> 0        2 <--sum-- 0        sum = ((x0 + x1) + x2) + x3
//     3 --x3--> 0        3 <--sum-- 0
#include "plan/schedules.h"

namespace rondo::plan {

Plan star_all_reduce(const Topology& topology, int rank, int) {
  using enum Operation;
  const int ranks = topology.ranks();
  if (ranks == 1) return alone(true);
  if (rank == 0)
    return one_strand({{.operation = recv_reduce_copy_send,
                        .from = everyone(ranks, 0),
                        .to = others(ranks, 0),
                        .source = in(0),
                        .target = out(0),
                        .finish = true}});
  return one_strand(
      {{.operation = send, .to = {0}, .source = in(0)}, {.operation = recv_copy, .from = {0}, .target = out(0)}});
}

}  // namespace rondo::plan
