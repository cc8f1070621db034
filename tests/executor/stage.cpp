// Binds, starts and steps the runs of all ranks in a seeded order, then looks at everything they left.
#include "stage.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "buffers.h"
#include "kernels/host_reducer.h"

namespace stage {
namespace {

using rondo::simulated::Random;
using rondo::simulated::World;

/// One rank's links in the world.
class RankLinks final : public rondo::Links {
 public:
  RankLinks(World& world, int rank) : world_(world), rank_(rank) {}
  rondo::SendEnd& send_end(int peer, int lane) override { return world_.send_end(rank_, peer, lane); }
  rondo::ReceiveEnd& receive_end(int peer, int lane) override { return world_.receive_end(rank_, peer, lane); }
  rondo::EndOrder& send_order(int peer, int lane) override { return orders_[{peer, lane, 0}]; }
  rondo::EndOrder& receive_order(int peer, int lane) override { return orders_[{peer, lane, 1}]; }

 private:
  World& world_;
  const int rank_;
  std::map<std::tuple<int, int, int>, rondo::EndOrder> orders_;
};

/// One rank's call: its program, buffers and run.
struct Part {
  Part(const Call& call, int rank, int ranks) : call(call), buffers(call, rank, ranks) {}
  Call call;
  Buffers buffers;
  std::unique_ptr<rondo::Program> program, lending;
  rondo::plan::Layout layout;
  std::vector<std::byte> shelf_memory;
  std::unique_ptr<rondo::Shelf> shelf;
  std::vector<std::unique_ptr<rondo::Run>> runs;  // one a share
  std::vector<Ending> run_endings;
  Ending ending;  // of all
};

/// Steps that all shares of a call walked; and those of its strands, each once for each of its tiles.
std::uint64_t steps_walked(const Part& part) {
  std::uint64_t steps = 0;
  for (const auto& run : part.runs) steps += run->steps_walked();
  return steps;
}
std::uint64_t steps_planned(const Part& part) {
  std::uint64_t steps = 0;
  const auto apart = static_cast<std::uint64_t>(part.call.stripes);
  for (const rondo::BoundStrand& strand : part.program->strands()) {
    steps += (part.layout.tiles() - strand.first_tile + apart - 1) / apart * strand.steps.size();
  }
  return steps;
}

class Play {
 public:
  explicit Play(const Scene& scene)
      : scene_(scene), world_(scene.ranks, scene.links), turns_(scene.seed), alive_(scene.ranks) {
    for (int rank = 0; rank < scene.ranks; ++rank) {
      links_.push_back(std::make_unique<RankLinks>(world_, rank));
      parts_.emplace_back();
      alive_[rank] = rank;
    }
    for (std::size_t i = 0; i < scene.calls.size(); ++i) {
      for (int rank = 0; rank < scene.ranks; ++rank) prepare(i, rank);
    }
  }

  Outcome run() {
    std::uint64_t turns = 0;
    while (!finished()) {
      if (scene_.victim >= 0 && turns == scene_.dies_after) kill(scene_.victim);
      ++turns;
      bool moved = false;
      skipped_ = false;
      std::vector<int> order = alive_;
      for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[turns_.below(i)]);
      for (const int rank : order) {
        if (turns_.percent(20)) {
          skipped_ = true;
        } else {
          moved |= step(rank);
        }
      }
      if (moved || world_.advance() || skipped_) continue;
      if (scene_.victim < 0 || turns > scene_.dies_after) {
        outcome_.wrong = "nothing moves any more: " + waiting();
        break;
      }
    }
    judge();
    return std::move(outcome_);
  }

 private:
  void prepare(std::size_t index, int rank) {
    const Call& call = index == 0 && rank == scene_.odd_rank ? scene_.odd_call : scene_.calls[index];
    const auto topology = topology_of(scene_);
    auto part = std::make_unique<Part>(call, rank, scene_.ranks);
    const auto kind = call.schedule->kind;
    const auto bind = [&](const rondo::plan::Schedule& schedule) {
      const rondo::plan::Collective collective{kind, scene_.ranks, schedule.blocks(topology), call.root, 0};
      const rondo::plan::Plan plan =
          rondo::plan::striped(schedule.build(topology, rank, call.root), schedule.lanes, call.stripes);
      return std::make_unique<rondo::Program>(collective, plan, schedule.widest(topology), *links_[rank], call.shares);
    };
    part->program = bind(*call.schedule);
    part->layout = rondo::plan::Layout(part->program->shape(), call.count, call.type, call.cut);
    outcome_.tiles = std::max(outcome_.tiles, part->layout.tiles());
    rondo::RunArguments a;
    a.program = part->program.get();
    a.layout = part->layout;
    if (call.lending != nullptr) {
      part->lending = bind(*call.lending);
      a.lending = {part->lending.get(), rondo::plan::Layout(part->lending->shape(), call.count, call.type, call.cut)};
    }
    a.in = part->buffers.in();
    a.out = part->buffers.out();
    a.scratch = part->buffers.scratch(part->layout.scratch_bytes());
    a.reduction = {call.type, call.op, scene_.ranks, scalar(call.type, rank)};
    a.reduce = rondo::host_reducer().find(call.type, call.op);
    a.signature = {call.count,
                   static_cast<std::uint32_t>(index),
                   static_cast<std::uint8_t>(kind),
                   static_cast<std::uint8_t>(call.type),
                   static_cast<std::uint8_t>(call.op),
                   static_cast<std::uint8_t>(call.root)};
    a.may_lend = call.op != Operator::premul_sum;
    a.by_address = call.by_address;
    a.alone = scene_.calls.size() == 1;
    if (call.shelf > 0) {
      const std::size_t room_bytes = call.cut.slot_bytes;
      part->shelf_memory.resize(static_cast<std::size_t>(call.shelf) * room_bytes);
      part->shelf = std::make_unique<rondo::Shelf>(part->shelf_memory.data(), room_bytes, call.shelf,
                                                   static_cast<std::size_t>(scene_.ranks));
      a.shelf = part->shelf.get();
    }
    part->run_endings.resize(static_cast<std::size_t>(call.shares));
    for (int share = 0; share < call.shares; ++share) {
      a.share = call.shares == 1 ? rondo::RunArguments::whole : share;
      part->runs.push_back(std::make_unique<rondo::Run>());
      part->runs.back()->start(a);
    }
    parts_[rank].push_back(std::move(part));
  }

  /// One look of `rank` at all its runs, as the execute() of each of its threads does it; true if anything moved or
  /// ended.
  bool step(int rank) {
    bool moved = false;
    for (auto& part : parts_[rank]) {
      std::vector<std::size_t> order(part->runs.size());
      for (std::size_t i = 0; i < order.size(); ++i) {
        order[i] = i;
        std::swap(order[i], order[turns_.below(i + 1)]);
      }
      for (const std::size_t i : order) {
        if (order.size() > 1 && turns_.percent(20)) {
          skipped_ = true;
        } else {
          moved |= step(*part->runs[i], part->run_endings[i]);
        }
      }
      if (!part->ending.over) end(*part, rank);
    }
    return moved;
  }

  bool step(rondo::Run& run, Ending& ending) {
    if (ending.over) return false;
    const bool moved = run.progress();
    Status status = run.status();
    if (status.ok() && !run.done()) {
      if (failed_) status = {Code::remote_error, -1};  // another rank told us
      if (status.ok()) status = run.blocked_status();
      if (status.ok()) return moved;
      if (run.progress()) return true;
    }
    ending = {status, run.mismatch(), run.signature(), true};
    failed_ |= !status.ok();
    return true;
  }

  /// Whether all shares of a call are over; then the first failure is the call's.
  void end(Part& part, int rank) {
    const auto over = [](const Ending& ending) { return ending.over; };
    if (!std::ranges::all_of(part.run_endings, over)) return;
    part.ending = part.run_endings.front();
    for (const Ending& ending : part.run_endings) {
      if (part.ending.status.ok()) part.ending = ending;
    }
    if (part.ending.status.ok()) check_lends(rank);
  }

  void check_lends(int rank) {
    if (scene_.calls.size() == 1 && world_.lent_out(rank) != 0) {
      fail("rank " + std::to_string(rank) + " returned while its memory was lent");
    }
  }

  void kill(int rank) {
    world_.kill(rank);
    std::erase(alive_, rank);
  }

  bool finished() const {
    return std::all_of(alive_.begin(), alive_.end(), [&](int rank) {
      return std::all_of(parts_[rank].begin(), parts_[rank].end(), [](const auto& part) { return part->ending.over; });
    });
  }

  std::string waiting() const {
    std::string text;
    for (const int rank : alive_) {
      for (std::size_t i = 0; i < parts_[rank].size(); ++i) {
        if (parts_[rank][i]->ending.over) continue;
        text += "rank " + std::to_string(rank) + " in call " + std::to_string(i) + " waits for";
        for (const auto& run : parts_[rank][i]->runs) {
          for (const int peer : run->waits_for()) text += " " + std::to_string(peer);
        }
        text += "; ";
      }
    }
    return text;
  }

  void fail(const std::string& what) {
    if (outcome_.wrong.empty()) outcome_.wrong = what;
  }

  void judge() {
    for (const std::string& complaint : world_.complaints()) fail(complaint);
    for (auto& rank : parts_) {
      outcome_.endings.emplace_back();
      for (auto& part : rank) outcome_.endings.back().push_back(part->ending);
    }
    outcome_.messages = world_.messages();
    outcome_.lends = world_.lends();
    for (int rank = 0; rank < scene_.ranks; ++rank) {
      for (auto& part : parts_[rank]) {
        if (const std::string damage = part->buffers.damage(); !damage.empty()) {
          fail("rank " + std::to_string(rank) + ": " + damage);
        }
      }
    }
    if (scene_.victim >= 0 || scene_.odd_rank >= 0) return;
    if (const std::string left = world_.leftovers(); !left.empty()) fail(left);
    for (std::size_t i = 0; i < scene_.calls.size(); ++i) check_results(i);
  }

  void check_results(std::size_t index) {
    const Call& call = scene_.calls[index];
    const auto kind = call.schedule->kind;
    const bool same = gives_all_the_same(kind);
    std::vector<std::byte> wanted = expected(call, 0, scene_.ranks);
    for (int rank = 0; rank < scene_.ranks; ++rank) {
      Part& part = *parts_[rank][index];
      const std::string who = "rank " + std::to_string(rank) + ", call " + std::to_string(index) + ": ";
      const bool one_program =
          call.lending == nullptr && part.layout.tiles() >= static_cast<std::uint64_t>(call.stripes);
      if (part.ending.status.ok() && one_program && steps_walked(part) != steps_planned(part)) {
        return fail(who + std::to_string(steps_walked(part)) + " steps, not " + std::to_string(steps_planned(part)));
      }
      if (!part.ending.status.ok())
        return fail(who + "failed with code " + std::to_string(int(part.ending.status.code)));
      const std::size_t bytes = part.buffers.out_bytes();
      if (bytes == 0) continue;
      const std::byte* const out = part.buffers.out();
      if (!same) wanted = expected(call, rank, scene_.ranks);
      if (!wanted.empty() && std::memcmp(out, wanted.data(), bytes) != 0) return fail(who + "a wrong result");
      if (same && std::memcmp(out, parts_[0][index]->buffers.out(), bytes) != 0) {
        return fail(who + "other bits than rank 0");
      }
    }
  }

  const Scene& scene_;
  World world_;
  Random turns_;
  std::vector<int> alive_;
  std::vector<std::unique_ptr<RankLinks>> links_;
  std::vector<std::vector<std::unique_ptr<Part>>> parts_;  // by rank, by call
  bool failed_ = false;
  bool skipped_ = false;  // a rank or a share, in this turn
  Outcome outcome_;
};

}  // namespace

rondo::plan::Topology topology_of(const Scene& scene) {
  if (scene.hosts.empty()) return rondo::plan::Topology::one_host(scene.ranks);
  return rondo::plan::Topology::on_hosts(scene.hosts);
}

int credits_needed(const Scene& scene) {
  int credits = 1;
  for (const Call& call : scene.calls) {
    credits = std::max(credits, call.schedule->credits(call.cut.slices_max, scene.ranks));
  }
  return credits;
}

std::string describe(const Scene& scene) {
  std::string text = std::to_string(scene.ranks) + " ranks, " + std::to_string(scene.links.credits) +
                     " credits, seeds " + std::to_string(scene.seed) + " and " + std::to_string(scene.links.seed);
  for (const Call& call : scene.calls) {
    text += "; " + std::string(rondo::plan::name(call.schedule->algorithm)) + " " +
            std::string(rondo::plan::name(call.schedule->kind)) + ", count " + std::to_string(call.count) + ", type " +
            std::to_string(int(call.type)) + ", op " + std::to_string(int(call.op)) +
            (call.in_place ? ", in place" : "") + ", root " + std::to_string(call.root) +
            (call.values == Values::rounding ? ", rounding" : "") +
            std::string(scene.hosts.empty() ? "" : ", several hosts") + ", slots of " +
            std::to_string(call.cut.slot_bytes) + ", up to " + std::to_string(call.cut.slices_max) +
            " slices of at least " + std::to_string(call.cut.slice_bytes_min) + ", " + std::to_string(call.stripes) +
            " stripes in " + std::to_string(call.shares) + " shares, a shelf of " + std::to_string(call.shelf);
  }
  return text;
}

Outcome play(const Scene& scene) { return Play(scene).run(); }

}  // namespace stage
