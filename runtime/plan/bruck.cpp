// All-to-all in log2 n rounds (Bruck): many small blocks travel together, at the price of log2(n)/2 times the bytes and
// of packing.  Any number of ranks.
//
// Block j of scratch is bound for the rank j ahead.  Round d moves all blocks whose j has bit d to the rank d ahead,
// packed behind the n blocks; after the last round block j is what the rank j behind had for this one.
//
//   four ranks, rank 0:    round 1: blocks 1 3 to rank 1       round 2: blocks 2 3 to rank 2
#include <algorithm>
#include <utility>

#include "plan/schedules.h"

namespace rondo::plan {
namespace {

using enum Operation;

/// Blocks among 1..n-1 whose number has bit d.
int moved(int n, int d) {
  int count = 0;
  for (int j = d; j < n; j += 2 * d) count += std::min(d, n - j);
  return count;
}

}  // namespace

Plan bruck_all_to_all(const Topology& topology, int rank, int) {
  const int n = topology.ranks();
  if (n == 1) return alone(false);
  std::vector<std::int32_t> ahead;
  for (int j = 0; j < n; ++j) ahead.push_back((rank + j) % n);
  std::vector<Step> steps;
  copy_in_runs(steps, Space::in, ahead);
  for (int d = 1; d < n; d *= 2) {
    const auto pack = [&](bool inward) {
      for (int j = d, at = n; j < n; j += 2 * d) {
        const int count = std::min(d, n - j);
        steps.push_back({.operation = copy,
                         .source = inward ? scratch(j, count) : scratch(at, count),
                         .target = inward ? scratch(at, count) : scratch(j, count)});
        at += count;
      }
    };
    const int count = moved(n, d);
    pack(true);
    steps.push_back({.operation = send, .to = {(rank + d) % n}, .source = scratch(n, count)});
    steps.push_back({.operation = recv_copy, .from = {(rank - d + n) % n}, .target = scratch(n, count)});
    pack(false);
  }
  for (int j = 0; j < n; ++j)
    steps.push_back({.operation = copy, .source = scratch(j), .target = out((rank - j + n) % n)});
  return one_strand(std::move(steps), n + widest_bruck(topology));
}

int widest_bruck(const Topology& topology) {
  int widest = 1;
  for (int d = 1; d < topology.ranks(); d *= 2) widest = std::max(widest, moved(topology.ranks(), d));
  return widest;
}

}  // namespace rondo::plan
