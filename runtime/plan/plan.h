// The vocabulary of plans: ranges, steps, strands, and the collectives that plans compute.
//
// A plan is data, and one rank's part in a collective.  It holds block ranges and steps: no bytes, pointers, element
// types, clocks or transports.  verify.h proves plans, cost.h ranks them, layout.h maps blocks to bytes, and the
// executor runs them.  The executable specification is tests/spec/model.py; the two agree by test.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace rondo::plan {

/// In a step's `from` list: the place of the local operand, the step's source range.
inline constexpr int here = -1;

/// in: the caller's send buffer, never written.  out: the caller's receive buffer, holds final values only.
/// scratch: the plan's own blocks, one copy reused by every tile, holds partial values.
enum class Space : std::uint8_t { none, in, out, scratch };

/// `count` consecutive blocks of one space.  Space::none means "no range".
struct Range {
  Space space = Space::none;
  std::int32_t first = 0;
  std::int32_t count = 0;
  constexpr explicit operator bool() const noexcept { return space != Space::none; }
  friend constexpr bool operator==(const Range&, const Range&) = default;
};
constexpr Range in(int first, int count = 1) { return {Space::in, first, count}; }
constexpr Range out(int first, int count = 1) { return {Space::out, first, count}; }
constexpr Range scratch(int first, int count = 1) { return {Space::scratch, first, count}; }

enum class Operation : std::uint8_t {
  send,                   // source -> to
  lend,                   // `to` reads source in place; target range: where the borrower may store its reply
  recv_copy,              // from -> target
  recv_reduce,            // from... -> target
  recv_reduce_send,       // from... -> to
  recv_reduce_copy_send,  // from... -> target and to
  recv_copy_send,         // from -> target and to
  copy,                   // source -> target
  copy_send,              // source -> target and to
  wait,                   // until `to` released all that this strand lent to it, replies stored
};
inline constexpr int operation_count = 10;

/// What an operation does, by column.
struct Traits {
  bool receives, reduces, stores, sends;
};
constexpr Traits traits(Operation operation) noexcept {
  constexpr Traits table[operation_count] = {
      {false, false, false, true}, {false, false, false, true}, {true, false, true, false}, {true, true, true, false},
      {true, true, false, true},   {true, true, true, true},    {true, false, true, true},  {false, false, true, false},
      {false, false, true, true},  {false, false, false, false}};
  return table[static_cast<int>(operation)];
}
std::string_view name(Operation operation);
std::string_view name(Space space);

/// One step: m messages (slices).  Each slice: wait until every `from` link has a message and every `to` link a credit;
/// read; reduce left to right in the order of `from`; post-operator if `finish`; store; reply; release all; send.
struct Step {
  Operation operation = Operation::copy;
  std::vector<std::int32_t> from;  // operands in the order of reduction: peers, and `here` for the source range
  std::vector<std::int32_t> to;    // peers
  Range source;
  Range target;
  bool finish = false;  // the result is complete: apply the post-operator before it is stored or sent
  bool reply = false;   // also store the result into the reply ranges of the messages received
  friend bool operator==(const Step&, const Step&) = default;
};

/// A sequence of steps on a lane.  Its links are (from, to, lane); within a run each end of a link belongs to one
/// strand.  A strand that must follow another receives from it through a self link.
struct Strand {
  std::vector<Step> steps;
  std::int32_t lane = 0;
  std::int32_t stripe = 0;  // walks this tile, and every Plan::stripes-th from it on
  friend bool operator==(const Strand&, const Strand&) = default;
};

/// One rank's plan.
struct Plan {
  std::vector<Strand> strands;
  std::int32_t scratch_blocks = 0;  // one copy for each stripe, reused by every tile
  std::int32_t scratch_first = 0;   // scratch block i has the size of block scratch_first + i (they may differ by one)
  std::int32_t stripes = 1;
  friend bool operator==(const Plan&, const Plan&) = default;
};

/// What plans of all ranks together must compute.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::int32_t ranks = 1;
  std::int32_t blocks = 1;  // of all_reduce, reduce, broadcast; the others have one block a rank
  std::int32_t root = 0;    // of rooted collectives; the sender of send_recv
  std::int32_t peer = 0;    // the receiver of send_recv
  bool reduces() const noexcept {
    return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce ||
           kind == CollectiveKind::reduce_scatter;
  }
};
std::string_view name(CollectiveKind kind);

/// The algorithms that have plans here.  More than one may serve a collective; choose.h chooses.
enum class Algorithm : std::uint8_t {
  ring,
  star,
  one_shot,
  two_shot,
  direct,
  chain,
  tree,
  one_shot_pull,
  two_shot_pull,
  recursive_doubling,
  halving_doubling,
  hierarchical,
  binomial,
  pat,
  bruck,
};
inline constexpr int algorithm_count = 15;
std::string_view name(Algorithm algorithm);

/// Rank -> host, agreed at init, plus the ring order: a permutation of the ranks.
struct Topology {
  std::vector<std::int32_t> host_of_rank;
  std::vector<std::int32_t> ring_order;
  std::int32_t ranks() const noexcept { return static_cast<std::int32_t>(host_of_rank.size()); }
  /// The ranks of each host, hosts and ranks in ring order.
  std::vector<std::vector<std::int32_t>> hosts() const;
  static Topology one_host(int ranks);
  /// With a ring order that enters and leaves each host once.  Hosts may have any numbers.
  static Topology on_hosts(std::vector<std::int32_t> host_of_rank);
};

/// A schedule: a pure function that gives every rank's plan, and what is known of it.
struct Schedule {
  CollectiveKind kind;
  Algorithm algorithm;
  Plan (*build)(const Topology& topology, int rank, int root);
  int (*credits)(int slices, int ranks);  // the least per link, for `slices` messages a step, lends granted or declined
  int (*blocks)(const Topology& topology);  // of Collective::blocks; kinds with a block a rank ignore it
  int (*widest)(const Topology& topology);  // blocks of the widest message of any rank
  bool left_fold;  // every element is reduced ((0 + 1) + 2) + ...; RONDO_DETERMINISTIC needs it
  bool lends;      // proved with every lend granted and with every lend declined
  int lanes = 1;   // that its strands use
};

/// Blocks of the widest message that this plan sends or receives.
int widest_message(const Plan& plan);

/// The plan on more lanes: `stripes` copies of its strands, each on `lanes` lanes of its own and with every stripes-th
/// tile.  They share no link and, as tiles have no byte in common, nothing else.
Plan striped(const Plan& plan, int lanes, int stripes);

/// The two sides of a message from one rank to another, which may be the same: of Collective::root and ::peer.  Neither
/// is a schedule, as each side is a call of its own.
Plan send_to(int peer, bool lends);
Plan receive_from(int peer);

/// All schedules.  `find` gives null where an algorithm does not serve a collective.
const std::vector<Schedule>& schedules();
const Schedule* find(CollectiveKind kind, Algorithm algorithm);

}  // namespace rondo::plan
