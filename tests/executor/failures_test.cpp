// What the executor does when calls do not match or a rank dies, with several calls under way at once, and the proof
// that the suite notices a damaged message.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#include <set>

#include "scenes.h"

using namespace stage;
using rondo::plan::Algorithm;
using rondo::plan::Schedule;
using rondo::simulated::Fault;
using rondo::simulated::Lending;
using rondo::simulated::Random;

namespace {

const Schedule& schedule(rondo::CollectiveKind kind, Algorithm algorithm) {
  const Schedule* const found = rondo::plan::find(kind, algorithm);
  REQUIRE(found != nullptr);
  return *found;
}

/// Several messages on every link, several tiles.
Scene busy_scene(const Schedule& schedule, int ranks, std::uint64_t seed) {
  Scene scene = plain_scene(schedule, ranks, 1500);
  scene.calls[0].cut = {128, 3, 64};
  scene.seed = seed;
  scene.links.seed = seed;
  return scene;
}

/// Whether the suite notices `fault`, at the begin, later, and later still.
bool notices(const Schedule& schedule, Fault fault, Lending lending) {
  Scene scene = busy_scene(schedule, 4, 7);
  scene.calls[0].type = DataType::int32;  // no rounding that could hide a wrong bit
  scene.links.lending = lending;
  scene.links.fault = fault;
  bool all = true;
  for (const std::uint64_t at : {0, 5, 20}) {
    scene.links.fault_at = at;
    all = all && !play(scene).ok();
  }
  return all;
}

}  // namespace

TEST_CASE("A damaged message is noticed") {
  using enum rondo::CollectiveKind;
  for (const Schedule& each : rondo::plan::schedules()) {
    INFO(rondo::plan::name(each.algorithm) << " " << rondo::plan::name(each.kind));
    CHECK(notices(each, Fault::flip_bit, Lending::none));
    CHECK(notices(each, Fault::lose, Lending::mixed));
    CHECK(notices(each, Fault::swap, Lending::none));
  }
  CHECK(notices(schedule(all_reduce, Algorithm::two_shot), Fault::drop_reply, Lending::all));
  CHECK(notices(schedule(all_reduce, Algorithm::ring), Fault::stale_credit, Lending::none));
}

TEST_CASE("Calls under way at once keep their order on every link") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    Scene scene;
    scene.ranks = static_cast<int>(2 + random.below(5));
    scene.seed = scene.links.seed = seed;
    scene.links.lending = static_cast<Lending>(random.below(3));
    const auto& schedules = rondo::plan::schedules();
    const std::uint64_t calls = 2 + random.below(5);
    for (std::uint64_t i = 0; i < calls; ++i) {
      Scene one = random_scene(schedules[random.below(schedules.size())], seed * 100 + i);
      one.calls[0].count %= 5000;
      one.calls[0].root %= scene.ranks;
      one.calls[0].cut.slices_max = std::min(one.calls[0].cut.slices_max, 3);
      scene.calls.push_back(one.calls[0]);
    }
    const Outcome outcome = play(scene);
    if (!outcome.ok()) FAIL_CHECK(describe(scene) << ": " << outcome.wrong);
  }
}

TEST_CASE("Calls that do not match end with the peer that called otherwise") {
  for (const Schedule& each : rondo::plan::schedules()) {
    for (int difference = 0; difference < 5; ++difference) {
      Scene scene = busy_scene(each, 4, 11 + static_cast<std::uint64_t>(difference));
      scene.odd_rank = 1 + difference % 3;
      scene.odd_call = scene.calls[0];
      const bool all_reduce = each.kind == rondo::CollectiveKind::all_reduce;
      if (difference == 0) scene.odd_call.count = 1499;
      if (difference == 1) scene.odd_call.count = 0;
      if (difference == 2) scene.odd_call.type = DataType::int8;
      if (difference == 3) scene.odd_call.op = Operator::max;
      if (difference == 4) {
        // One that sends to everybody: ranks that never send to each other can only find out by their timeouts.
        scene.odd_call.schedule = all_reduce ? &schedule(rondo::CollectiveKind::reduce_scatter, Algorithm::direct)
                                             : &schedule(rondo::CollectiveKind::all_reduce, Algorithm::one_shot);
      }
      INFO(describe(scene) << "; difference " << difference);
      const Outcome outcome = play(scene);
      CHECK(outcome.wrong == "");
      int found = 0;
      for (int rank = 0; rank < scene.ranks; ++rank) {
        const Ending& ending = outcome.endings[rank][0];
        if (ending.status.code != Code::invalid_usage) continue;
        ++found;
        CHECK(ending.status.peer == ending.mismatch.peer);
        CHECK((ending.mismatch.peer == scene.odd_rank) != (rank == scene.odd_rank));
        CHECK(ending.mismatch.theirs == outcome.endings[ending.mismatch.peer][0].signature);
        CHECK(!(ending.mismatch.theirs == ending.signature));
      }
      CHECK(found > 0);
    }
  }
}

TEST_CASE("A dead rank ends the calls that need it, and nobody hangs") {
  std::set<Code> codes;
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    for (const Schedule& each : rondo::plan::schedules()) {
      Random random(seed);
      Scene scene = busy_scene(each, static_cast<int>(2 + random.below(5)), seed);
      scene.victim = static_cast<int>(random.below(static_cast<std::uint64_t>(scene.ranks)));
      scene.dies_after = random.below(400);
      INFO(describe(scene) << "; rank " << scene.victim << " dies after " << scene.dies_after << " turns");
      const Outcome outcome = play(scene);
      CHECK(outcome.wrong == "");
      for (int rank = 0; rank < scene.ranks; ++rank) {
        if (rank == scene.victim) continue;
        const Status status = outcome.endings[rank][0].status;
        codes.insert(status.code);
        CHECK((status.peer == -1 || status.peer == scene.victim));
      }
    }
  }
  CHECK(codes == std::set<Code>{Code::success, Code::remote_error});
}
