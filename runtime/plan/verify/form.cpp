// The rules that a step breaks by itself, and where the spaces of a rank lie.
#include "plan/verify/form.h"

#include <algorithm>
#include <set>

#include "plan/text.h"
#include "plan/verify/trees.h"

namespace rondo::plan {

Rule rule(const Collective& collective, int rank) {
  const std::int32_t n = collective.ranks, blocks = collective.blocks;
  const bool at_root = rank == collective.root;
  switch (collective.kind) {
    case CollectiveKind::all_reduce: return {blocks, blocks, true, 0, 0};
    case CollectiveKind::reduce: return {blocks, at_root ? blocks : 0, true, 0, 0};
    case CollectiveKind::reduce_scatter: return {n, 1, true, 0, rank};
    case CollectiveKind::broadcast: return {at_root ? blocks : 0, blocks, true, 0, 0};
    case CollectiveKind::all_gather: return {1, n, true, rank, 0};
    case CollectiveKind::gather: return {1, at_root ? n : 0, true, rank, 0};
    case CollectiveKind::scatter: return {at_root ? n : 0, 1, true, 0, rank};
    case CollectiveKind::all_to_all: return {n, n, false, 0, 0};
    case CollectiveKind::send_recv: return {at_root, rank == collective.peer, false, 0, 0};
  }
  return {};
}

std::int32_t Spaces::user_blocks() const noexcept { return std::max(in_base + in_blocks, out_base + out_blocks); }

Spaces spaces(const Collective& collective, const Plan& plan, int rank, bool in_place) {
  const Rule sizes = rule(collective, rank);
  const bool aliased = in_place && sizes.in_place;
  return {aliased ? sizes.in_base : 0, sizes.in_blocks, aliased ? sizes.out_base : sizes.in_blocks, sizes.out_blocks,
          plan.scratch_blocks};
}

namespace {

bool twice(std::vector<std::int32_t> list) {
  std::sort(list.begin(), list.end());
  return std::adjacent_find(list.begin(), list.end()) != list.end();
}

/// Whether a later step of the strand awaits every borrower of this one.
bool awaited(const Strand& strand, std::size_t index) {
  std::set<std::int32_t> missing(strand.steps[index].to.begin(), strand.steps[index].to.end());
  for (std::size_t i = index; i < strand.steps.size() && !missing.empty(); ++i)
    if (strand.steps[i].operation == Operation::wait)
      for (const std::int32_t peer : strand.steps[i].to) missing.erase(peer);
  return missing.empty();
}

bool overlap(const Spaces& at, const Range& source, const Range& target) {
  if ((source.space == Space::scratch) != (target.space == Space::scratch)) return false;
  const auto begin = [&](const Range& r) {
    return r.first + (r.space == Space::in ? at.in_base : r.space == Space::out ? at.out_base : 0);
  };
  const std::int32_t a = begin(source), b = begin(target);
  return !(a == b && source.count == target.count) && a < b + target.count && b < a + source.count;
}

void need(bool right, Fault fault, const char* what, const Step& step) {
  if (!right) throw Broken{fault, std::string(what) + ": " + text(step)};
}

void check_operands(const Collective& collective, const Strand& strand, const Step& s) {
  const Traits does = traits(s.operation);
  const bool waits = s.operation == Operation::wait;
  const bool takes_own = std::find(s.from.begin(), s.from.end(), here) != s.from.end();
  const bool takes_peers = s.from.size() > (takes_own ? 1u : 0u);
  const auto in_world = [&](std::int32_t peer) { return peer >= 0 && peer < collective.ranks; };
  need(strand.lane >= 0, Fault::form, "no such lane", s);
  need(takes_peers == does.receives, Fault::form, "peers to receive from", s);
  need(!s.to.empty() == (does.sends || waits), Fault::form, "peers to send to", s);
  need(static_cast<bool>(s.source) == (does.receives ? takes_own : !waits), Fault::form, "source range", s);
  need(static_cast<bool>(s.target) == does.stores || s.operation == Operation::lend, Fault::form, "target range", s);
  need(!s.source || !s.target || s.source.count == s.target.count, Fault::form, "source and target differ in size", s);
  need(!does.receives || (s.from.size() > 1) == does.reduces, Fault::form, "operands", s);
  need(!twice(s.from) && !twice(s.to), Fault::form, "a peer twice", s);
  need(std::all_of(s.from.begin(), s.from.end(), [&](std::int32_t p) { return p == here || in_world(p); }) &&
           std::all_of(s.to.begin(), s.to.end(), in_world),
       Fault::form, "a peer outside the world", s);
  need(!s.finish || (collective.reduces() && !waits), Fault::form, "nothing to finish", s);
  need(!s.reply || (does.receives && !does.sends), Fault::form, "a reply answers messages and sends nothing", s);
}

}  // namespace

void check_form(const Collective& collective, const Spaces& at, const Strand& strand, std::size_t index) {
  const Step& s = strand.steps[index];
  const bool lends = s.operation == Operation::lend;
  check_operands(collective, strand, s);
  need(!(lends && s.target) || awaited(strand, index), Fault::lending, "a reply that nobody awaits", s);
  for (const Range& r : {s.source, s.target}) {
    const std::int32_t size = r.space == Space::in    ? at.in_blocks
                              : r.space == Space::out ? at.out_blocks
                                                      : at.scratch_blocks;
    need(!r || (r.count > 0 && r.first >= 0 && r.first + r.count <= size), Fault::range, "outside its space", s);
  }
  need(s.target.space != Space::in, Fault::write_to_in, "target in `in`", s);
  need(lends || !s.source || !s.target || !overlap(at, s.source, s.target), Fault::overlap,
       "source and target overlap, and differ", s);
}

}  // namespace rondo::plan
