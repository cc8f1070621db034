// The world of the verifier: setting it up, running it to its end, judging what the ranks then hold.
#include "plan/verify/world.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "plan/text.h"

namespace rondo::plan {

std::string who(const Actor& a) {
  return "run " + std::to_string(a.run) + " rank " + std::to_string(a.rank) + " strand " + std::to_string(a.index);
}

std::string text(const LinkName& link) {
  return std::to_string(link.from) + " -> " + std::to_string(link.to) + " lane " + std::to_string(link.lane);
}

// ---- setting up

World::World(std::span<const Run> runs, const Options& options, Verdict& verdict)
    : runs_(runs), options_(options), verdict_(verdict), memory_of_(runs.size()) {
  std::int32_t elements = 0;
  for (const Run& run : runs) {
    const int n = run.collective.ranks;
    if (static_cast<int>(run.plans.size()) != n)
      throw Broken{Fault::form, std::to_string(run.plans.size()) + " plans for " + std::to_string(n) + " ranks"};
    ranks_ = std::max(ranks_, n);
    std::int32_t blocks = 0;
    for (int rank = 0; rank < n; ++rank) blocks = std::max(blocks, rule(run.collective, rank).in_blocks);
    element_base_.push_back(elements);
    tile_elements_.push_back(blocks * options.slices);
    elements += blocks * options.slices * options.tiles;
  }
  for (std::size_t run = 0; run < runs.size(); ++run) memory_of_[run].assign(runs[run].plans.size(), -1);
  std::vector<int> in_call_order(runs.size());
  std::iota(in_call_order.begin(), in_call_order.end(), 0);
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto differs = options.order.find(rank);
    if (differs != options.order.end())
      for (const int run : differs->second) admit(runs[run], run, rank);
    for (const int run : in_call_order)
      if (rank < runs[run].collective.ranks && memory_of_[run][rank] < 0) admit(runs[run], run, rank);
  }
  for (Actor& a : actors_) a.base = std::make_shared<Clock>(actors_.size(), 0);
}

void World::admit(const Run& run, int run_index, int rank) {
  const Plan& plan = run.plans[rank];
  for (const Strand& strand : plan.strands)
    if (strand.stripe < 0 || strand.stripe >= plan.stripes)
      throw Broken{Fault::form, "rank " + std::to_string(rank) + " has no stripe " + std::to_string(strand.stripe)};
  const bool in_place = std::find(options_.in_place.begin(), options_.in_place.end(), rank) != options_.in_place.end();
  Memory memory{run_index, rank, spaces(run.collective, plan, rank, in_place), 0, 0, {}};
  memory.tile_cells = memory.at.user_blocks() * options_.slices;
  memory.scratch_begin = memory.tile_cells * options_.tiles;
  memory.cells.resize(memory.scratch_begin + std::max(plan.scratch_blocks, 0) * options_.slices * plan.stripes);
  const std::int32_t in_cells = memory.at.in_blocks * options_.slices;
  for (int tile = 0; tile < options_.tiles; ++tile)
    for (std::int32_t i = 0; i < in_cells; ++i)
      memory.cells[tile * memory.tile_cells + memory.at.in_base * options_.slices + i].value =
          trees_.leaf(rank, element_base_[run_index] + tile * tile_elements_[run_index] + i);
  const auto memory_index = static_cast<std::int32_t>(memories_.size());
  memory_of_[run_index][rank] = memory_index;
  memories_.push_back(std::move(memory));
  for (std::size_t index = 0; index < plan.strands.size(); ++index) {
    actors_.push_back({static_cast<std::int32_t>(actors_.size()),
                       rank,
                       run_index,
                       static_cast<std::int32_t>(index),
                       memory_index,
                       &plan.strands[index],
                       plan.stripes,
                       plan.strands[index].stripe,
                       0,
                       0,
                       0,
                       nullptr,
                       {},
                       {},
                       {}});
    for (std::size_t step = 0; step < plan.strands[index].steps.size(); ++step) admit_step(actors_.back(), step);
  }
}

void World::admit_step(Actor& a, std::size_t index) {
  const Step& s = a.strand->steps[index];
  const int lane = a.strand->lane;
  try {
    check_form(runs_[a.run].collective, memories_[a.memory].at, *a.strand, index);
  } catch (const Broken& broken) {
    throw Broken{broken.fault, who(a) + ": " + broken.text};
  }
  a.links_at.push_back(static_cast<std::uint32_t>(a.links.size()));
  for (const std::int32_t peer : s.from)
    if (peer != here) {
      a.links.push_back(link_index({peer, a.rank, lane}));
      use(a.links.back(), false, a, s);
    }
  const std::size_t receipts = a.links.size() - a.links_at.back();
  for (std::size_t i = 0; i < receipts; ++i) {  // a reply to a declined lend is a message back
    const Link& link = links_[a.links[a.links_at.back() + i]];
    const bool answers = s.reply && !link.lends;
    a.links.push_back(answers ? link_index({a.rank, link.name.from, lane}) : -1);
    if (answers) use(a.links.back(), true, a, s);
  }
  if (s.operation == Operation::wait) return;
  for (const std::int32_t peer : s.to) {
    const int link = link_index({a.rank, peer, lane});
    a.links.push_back(link);
    use(link, true, a, s);
    if (s.operation == Operation::lend && s.target && !links_[link].lends)
      use(link_index({peer, a.rank, lane}), false, a, s);
  }
}

int World::link_index(const LinkName& name) {
  const std::uint64_t key = (static_cast<std::uint64_t>(name.lane) * ranks_ + name.from) * ranks_ + name.to;
  const auto [at, added] = link_of_.try_emplace(key, static_cast<int>(links_.size()));
  if (added) {
    links_.emplace_back();
    links_.back().name = name;
    links_.back().lends = !options_.lends || options_.lends(name);
  }
  return at->second;
}

void World::use(int link, bool sending, const Actor& a, const Step& s) {
  const std::int64_t tiles = (options_.tiles - a.tile + a.tiles_apart - 1) / a.tiles_apart;
  if (tiles <= 0) return;
  std::vector<End::Use>& uses = (sending ? links_[link].send : links_[link].receive).uses;
  if (uses.empty() || uses.back().actor != a.id) {
    for (const End::Use& earlier : uses)
      if (actors_[earlier.actor].run == a.run)
        throw Broken{Fault::strand, who(a) + ": two strands on one end of " + text(links_[link].name) + ": " + text(s)};
    uses.push_back({a.id, 0});
  }
  uses.back().left += options_.slices * tiles;
}

// ---- all of it

void World::go() {
  std::mt19937_64 random(options_.seed.value_or(0));
  std::vector<std::int32_t> order(actors_.size());
  std::iota(order.begin(), order.end(), 0);
  for (bool live = true; live;) {
    live = false;
    if (options_.seed) std::shuffle(order.begin(), order.end(), random);
    for (const std::int32_t id : order) {
      std::uint64_t most = options_.seed ? random() % 4 + 1 : ~std::uint64_t{0};
      while (most-- != 0 && advance(actors_[id])) live = true;
    }
  }
  std::string stuck;
  int stuck_count = 0;
  for (const Actor& a : actors_)
    if (a.tile < options_.tiles && !a.strand->steps.empty() && ++stuck_count <= 4)
      stuck += (stuck.empty() ? "" : "; ") + who(a) + " at " + text(a.strand->steps[a.step]);
  if (stuck_count > 0) throw Broken{Fault::deadlock, std::to_string(stuck_count) + " strands stuck: " + stuck};
  for (const Link& link : links_)
    if (link.head) throw Broken{Fault::unmatched, std::to_string(link.size) + " messages left on " + text(link.name)};
  judge();
}

void World::judge() {
  verdict_.left_fold = true;
  if (options_.expressions)
    for (const Memory& m : memories_) write_expressions(m);
  for (std::size_t run = 0; run < runs_.size(); ++run)
    for (const int memory : memory_of_[run]) judge_rank(static_cast<int>(run), memory);
}

std::int32_t World::held(const Memory& m, int tile, std::int32_t cell) const {
  return m.cells[tile * m.tile_cells + m.at.out_base * options_.slices + cell].value;
}

void World::write_expressions(const Memory& m) {
  for (int tile = 0; tile < options_.tiles; ++tile)
    for (std::int32_t i = 0; i < m.at.out_blocks * options_.slices; ++i) {
      const std::int32_t tree = held(m, tile, i);
      verdict_.results[{m.run, m.rank}].push_back(tree < 0 ? "never written" : trees_.text(tree));
    }
}

void World::judge_rank(int run, int memory) {
  const Collective& c = runs_[run].collective;
  const Memory& m = memories_[memory];
  const Memory& first = memories_[memory_of_[run][0]];
  const std::int32_t out_cells = m.at.out_blocks * options_.slices;
  for (int tile = 0; tile < options_.tiles; ++tile)
    for (std::int32_t i = 0; i < out_cells; ++i) {
      const std::int32_t tree = held(m, tile, i);
      check_value(m, tree, i, tile);
      if (c.reduces() && trees_[tree].fold != c.ranks) verdict_.left_fold = false;
      ++verdict_.cells;
    }
  if (c.kind != CollectiveKind::all_reduce) return;
  for (int tile = 0; tile < options_.tiles; ++tile)
    for (std::int32_t i = 0; i < out_cells; ++i)
      if (held(m, tile, i) != held(first, tile, i))
        throw Broken{Fault::unequal, "rank " + std::to_string(m.rank) + " and rank 0 hold other sums in block " +
                                         std::to_string(i / options_.slices) + " of tile " + std::to_string(tile)};
}

void World::check_value(const Memory& m, std::int32_t tree, std::int32_t cell, int tile) {
  const Collective& c = runs_[m.run].collective;
  const std::int32_t block = cell / options_.slices, part = cell % options_.slices;
  std::int32_t source = c.root, from = block;  // which rank's `in`, which block of it
  switch (c.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce:
    case CollectiveKind::broadcast: break;
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::scatter: from = m.rank; break;
    case CollectiveKind::all_gather:
    case CollectiveKind::gather: source = block, from = 0; break;
    case CollectiveKind::all_to_all: source = block, from = m.rank; break;
    case CollectiveKind::send_recv: from = 0; break;
  }
  const std::string where =
      "rank " + std::to_string(m.rank) + "'s out block " + std::to_string(block) + " of tile " + std::to_string(tile);
  if (tree < 0) throw Broken{Fault::missing, where + " was never written"};
  const std::int32_t element = element_base_[m.run] + tile * tile_elements_[m.run] + from * options_.slices + part;
  const bool right = c.reduces() ? trees_[tree].kind == Trees::Kind::post : tree == trees_.leaf(source, element);
  if (!right || trees_[tree].element != element)
    throw Broken{Fault::misplaced, where + " holds another value: " + trees_.text(tree)};
  if (c.reduces() && !trees_.sets().is(trees_[tree].ranks, 0, c.ranks))
    throw Broken{Fault::missing, where + " has only the contributors " + trees_.sets().text(trees_[tree].ranks)};
}

}  // namespace rondo::plan
