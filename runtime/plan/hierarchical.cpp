// Hierarchical all-reduce for several hosts: a ring reduce-scatter inside each host, a ring across the hosts for every
// block, a ring all-gather inside.  Only the middle part leaves the hosts, with one host's share of the buffer, spread
// over all of its ranks.  Hosts may be unequal; ranks in ring order.
//
// Two hosts, ranks 0 1 | 2 3, blocks a b | c d: the lane-block ab belongs to ranks 0 and 2, cd to 1 and 3; each has as
// many blocks as there are hosts.
//
//   inside:    0 has ab of 0 and 1    1 has cd of 0 and 1  |  2 has ab of 2 and 3    3 has cd of 2 and 3
//   across:    0 <-> 2: ring all-reduce of a b             |  1 <-> 3: ring all-reduce of c d
//   inside:    0 <-> 1 and 2 <-> 3 give each other what they have
//
// With L the size of the largest host there are L lane-blocks; on a host of s ranks, lane-block l belongs to its rank
// l s / L.  One host alone has a plain ring.
#include <algorithm>
#include <utility>

#include "plan/schedules.h"

namespace rondo::plan {
namespace {

using enum Operation;
using Hosts = std::vector<std::vector<std::int32_t>>;

int largest(const Hosts& hosts) {
  std::size_t size = 0;
  for (const auto& host : hosts) size = std::max(size, host.size());
  return static_cast<int>(size);
}

/// A ring of `size` parts: what the steps of one rank, at `at`, are made of.
struct Ring {
  int at, size;
  std::int32_t next, previous;
  int part(int k) const { return ((at - k) % size + size) % size; }
};

/// Appends a reduce-scatter that leaves part `at` in `target`, and sends it on if `onward`.
template <typename Source>
void reduce(std::vector<Step>& steps, const Ring& ring, Source&& source, Range target, bool onward, bool finish) {
  steps.push_back({.operation = send, .to = {ring.next}, .source = source(ring.part(1))});
  for (int k = 2; k < ring.size; ++k)
    steps.push_back({.operation = recv_reduce_send,
                     .from = {ring.previous, here},
                     .to = {ring.next},
                     .source = source(ring.part(k))});
  Step last{.operation = recv_reduce,
            .from = {ring.previous, here},
            .source = source(ring.at),
            .target = target,
            .finish = finish};
  if (onward) {
    last.operation = recv_reduce_copy_send;
    last.to = {ring.next};
  }
  steps.push_back(std::move(last));
}

/// Appends an all-gather, whose first send is already done.
template <typename Target>
void gather(std::vector<Step>& steps, const Ring& ring, Target&& target) {
  for (int k = 1; k < ring.size - 1; ++k)
    steps.push_back(
        {.operation = recv_copy_send, .from = {ring.previous}, .to = {ring.next}, .target = target(ring.part(k))});
  steps.push_back({.operation = recv_copy, .from = {ring.previous}, .target = target(ring.part(-1))});
}

/// The lane-blocks of a host of `size` ranks: its rank i has those from first(i) to first(i + 1).
struct Share {
  int lanes, size;
  int first(int i) const { return (i * lanes + size - 1) / size; }
};

}  // namespace

Plan hierarchical_all_reduce(const Topology& topology, int rank, int root) {
  const Hosts hosts = topology.hosts();
  const int host_count = static_cast<int>(hosts.size());
  if (host_count == 1) return ring_all_reduce(topology, rank, root);
  const int lanes = largest(hosts);
  const auto holds = [&](const auto& host) { return std::find(host.begin(), host.end(), rank) != host.end(); };
  const int h = static_cast<int>(std::find_if(hosts.begin(), hosts.end(), holds) - hosts.begin());
  const std::vector<std::int32_t>& mine = hosts[h];
  const int size = static_cast<int>(mine.size());
  const int at = static_cast<int>(std::find(mine.begin(), mine.end(), rank) - mine.begin());
  const Share share{lanes, size};
  const int first = share.first(at), upto = share.first(at + 1);
  const auto part = [&](Space space) {
    return [&share, host_count, space](int c) {
      return Range{space, share.first(c) * host_count, (share.first(c + 1) - share.first(c)) * host_count};
    };
  };
  const Ring inside{at, size, mine[(at + 1) % size], mine[(at + size - 1) % size]};
  const int owned = (upto - first) * host_count;

  std::vector<Step> steps;
  if (size > 1) reduce(steps, inside, part(Space::in), scratch(0, owned), false, false);
  for (int lane = first; lane < upto; ++lane) {
    const auto owner = [&](int other) {
      const auto& host = hosts[(other + host_count) % host_count];
      return host[static_cast<std::size_t>(lane) * host.size() / static_cast<std::size_t>(lanes)];
    };
    const Ring across{h, host_count, owner(h + 1), owner(h - 1)};
    const auto block = [&](int k) { return lane * host_count + k; };
    const auto held = [&](int k) { return size == 1 ? in(block(k)) : scratch(block(k) - first * host_count); };
    reduce(steps, across, held, out(block(h)), true, true);
    gather(steps, across, [&](int k) { return out(block(k)); });
  }
  if (size > 1) {
    steps.push_back({.operation = send, .to = {inside.next}, .source = part(Space::out)(at)});
    gather(steps, inside, part(Space::out));
  }
  return one_strand(std::move(steps), size > 1 ? owned : 0, size > 1 ? first * host_count : 0);
}

int hierarchical_blocks(const Topology& topology) {
  const Hosts hosts = topology.hosts();
  return hosts.size() == 1 ? topology.ranks() : largest(hosts) * static_cast<int>(hosts.size());
}

int hierarchical_widest(const Topology& topology) {
  const Hosts hosts = topology.hosts();
  if (hosts.size() == 1) return 1;
  int widest = 1;
  for (const auto& host : hosts) {
    const Share share{largest(hosts), static_cast<int>(host.size())};
    for (int i = 0; i < share.size && share.size > 1; ++i)
      widest = std::max(widest, (share.first(i + 1) - share.first(i)) * static_cast<int>(hosts.size()));
  }
  return widest;
}

}  // namespace rondo::plan
