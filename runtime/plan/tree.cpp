// Double binary tree all-reduce: half of the buffer goes up and down one tree, the other half a second tree, so that
// every rank is inner in one of them and sends about 2 buffers in all, in 2 log2 n hops.  Any number of ranks.
//
// Four ranks, blocks a and b.  Tree 0 (lane 0, block a) is balanced over positions 1..n, odd ones are leaves; tree 1
// (lane 1, block b) is the same tree shifted by one rank.  Positions follow the ring order, so that subtrees stay
// within hosts.
//
//      tree 0, block a:      3              tree 1, block b:      2
//                            |                                    |
//                            1                                    0
//                           / \                                  / \          .
//                          0   2                                3   1
//
// Each rank has four strands: up and down in either tree.  The strand that goes down never waits for what still comes
// up, so tiles follow each other through the tree; at the top a self link joins the two.  A rank's parent in one tree
// may be its child in the other: hence two lanes, each with its own links.  The sum of a block is taken in the order of
// the tree: equal on all ranks, not a left fold.
#include <algorithm>
#include <utility>

#include "plan/schedules.h"

namespace rondo::plan {
namespace {

using enum Operation;

/// The parent of position p in the balanced tree over 1..n; of the top, itself.
int parent_of(int p, int n) {
  int top = 1;
  while (top * 2 <= n) top *= 2;
  if (p == top) return p;
  do {
    const int low = p & -p;
    p = (p & (low << 1)) != 0 ? p - low : p + low;
  } while (p > n);
  return p;
}

/// Its children, below and above it: p's subtree in a full tree spans p - low + 1 .. p + low - 1.
std::vector<int> children_of(int p, int n) {
  std::vector<int> list;
  const int low = p & -p;
  if (low > 1) list.push_back(p - low / 2);
  for (int step = low / 2; step > 0; step /= 2)  // where that half is cut off at n, its parent's parent adopts
    if (p + step <= n) {
      list.push_back(p + step);
      break;
    }
  return list;
}

}  // namespace

Plan tree_all_reduce(const Topology& topology, int rank, int) {
  const int ranks = topology.ranks();
  if (ranks == 1) return alone(true);
  const int at = ring_position(topology, rank);
  Plan plan;
  for (int lane = 0; lane < 2; ++lane) {
    const auto rank_at = [&](int position) { return topology.ring_order[(position - 1 - lane + ranks) % ranks]; };
    const int position = (at + lane) % ranks + 1;
    const std::int32_t parent = rank_at(parent_of(position, ranks));
    std::vector<std::int32_t> operands, children;
    for (const int child : children_of(position, ranks)) {
      if (child > position && operands.size() == children.size()) operands.push_back(here);
      operands.push_back(rank_at(child));
      children.push_back(rank_at(child));
    }
    if (operands.size() == children.size()) operands.push_back(here);
    up_and_down(plan, parent, std::move(operands), std::move(children), lane, parent == rank);
  }
  return plan;
}

}  // namespace rondo::plan
