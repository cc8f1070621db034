// Recursive doubling and halving: partners 1, 2, 4, ... away; log2 n exchanges.  Any number of ranks: with p the
// power of two below n, the first 2 (n - p) ranks act as n - p pairs, of which one rank folds both inputs together
// before and hands the result to the other after.  Numbers follow the ring order.
//
// Recursive doubling, four ranks: everyone exchanges all it has; 2 hops, 2 buffers a rank.
//
//   exchange with 1 away      0: 01     1: 01     2: 23     3: 23        (01 = x0 + x1)
//   exchange with 2 away      0: 0123   1: 0123   2: 0123   3: 0123
//
// Halving-doubling, four ranks, blocks a b c d: the first exchanges are with the farthest and half what they carry each
// time (reduce-scatter), then the same way back (all-gather): 4 hops, 2 (n-1)/n buffers a rank, like a ring.
//
//   halve, 2 away:     0 keeps ab   1 keeps ab   2 keeps cd   3 keeps cd
//   halve, 1 away:     0 has   a    1 has   b    2 has   c    3 has   d       complete
//   double, 1 away:    0 has   ab   1 has   ab   2 has   cd   3 has   cd
//   double, 2 away:    abcd everywhere
//
// Partners reduce in one agreed order: equal bits on all ranks, not left folds.
#include <algorithm>
#include <bit>
#include <utility>

#include "plan/schedules.h"

namespace rondo::plan {
namespace {

using enum Operation;

/// One rank's place after the fold.
struct Folded {
  const Topology& topology;
  int power, extra;
  int number = -1;            // among the `power`; -1: the partner acts for it
  std::int32_t partner = -1;  // -1: alone
  Folded(const Topology& topology, int rank)
      : topology(topology),
        power(static_cast<int>(std::bit_floor(static_cast<unsigned>(topology.ranks())))),
        extra(topology.ranks() - power) {
    const int at = ring_position(topology, rank);
    if (at >= 2 * extra) {
      number = at - extra;
      return;
    }
    partner = topology.ring_order[at ^ 1];
    if (at % 2 == 0) number = at / 2;
  }
  std::int32_t rank_of(int n) const { return topology.ring_order[n < extra ? 2 * n : n + extra]; }
  /// Where this rank's own part is read: `in`, or the folded sum.
  Range held(int first, int count = 1) const { return partner < 0 ? in(first, count) : scratch(first, count); }
  /// The operands of an exchange, in the order on which both agree.
  std::vector<std::int32_t> operands(int bit) const {
    const std::int32_t peer = rank_of(number ^ bit);
    return (number & bit) != 0 ? std::vector<std::int32_t>{peer, here} : std::vector<std::int32_t>{here, peer};
  }
};

/// Puts the fold around what the `power` ranks do.
Plan with_fold(const Folded& place, int blocks, std::vector<Step> middle) {
  std::vector<Step> steps;
  if (place.number < 0) {
    steps.push_back({.operation = send, .to = {place.partner}, .source = in(0, blocks)});
    steps.push_back({.operation = recv_copy, .from = {place.partner}, .target = out(0, blocks)});
    return one_strand(std::move(steps));
  }
  if (place.partner < 0) return one_strand(std::move(middle), blocks);
  steps.push_back(
      {.operation = recv_reduce, .from = {here, place.partner}, .source = in(0, blocks), .target = scratch(0, blocks)});
  std::move(middle.begin(), middle.end(), std::back_inserter(steps));
  steps.push_back({.operation = send, .to = {place.partner}, .source = out(0, blocks)});
  return one_strand(std::move(steps), blocks);
}

}  // namespace

Plan recursive_doubling_all_reduce(const Topology& topology, int rank, int) {
  if (topology.ranks() == 1) return alone(true);
  const Folded place(topology, rank);
  std::vector<Step> steps;
  for (int bit = 1; place.number >= 0 && bit < place.power; bit *= 2) {
    const Range held = bit == 1 ? place.held(0) : scratch(0);
    const bool last = 2 * bit == place.power;
    steps.push_back({.operation = send, .to = {place.rank_of(place.number ^ bit)}, .source = held});
    steps.push_back({.operation = recv_reduce,
                     .from = place.operands(bit),
                     .source = held,
                     .target = last ? out(0) : scratch(0),
                     .finish = last});
  }
  return with_fold(place, 1, std::move(steps));
}

Plan halving_doubling_all_reduce(const Topology& topology, int rank, int) {
  if (topology.ranks() == 1) return alone(true);
  const Folded place(topology, rank);
  std::vector<Step> steps;
  int first = 0, size = place.power;
  for (int bit = place.power / 2; place.number >= 0 && bit > 0; bit /= 2) {
    const bool raw = size == place.power;
    size /= 2;
    const bool upper = (place.number & bit) != 0;
    const int keep = upper ? first + size : first, give = upper ? first : first + size;
    steps.push_back({.operation = send,
                     .to = {place.rank_of(place.number ^ bit)},
                     .source = raw ? place.held(give, size) : scratch(give, size)});
    steps.push_back({.operation = recv_reduce,
                     .from = place.operands(bit),
                     .source = raw ? place.held(keep, size) : scratch(keep, size),
                     .target = size == 1 ? out(keep) : scratch(keep, size),
                     .finish = size == 1});
    first = keep;
  }
  for (int bit = 1; place.number >= 0 && bit < place.power; bit *= 2) {
    const std::int32_t peer = place.rank_of(place.number ^ bit);
    steps.push_back({.operation = send, .to = {peer}, .source = out(first, size)});
    steps.push_back({.operation = recv_copy, .from = {peer}, .target = out(first ^ bit, size)});
    first &= ~bit;
    size *= 2;
  }
  return with_fold(place, place.power, std::move(steps));
}

}  // namespace rondo::plan
