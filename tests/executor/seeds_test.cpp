// The executor under seeds: every schedule, random ranks, sizes, types, operators, cuts, credits, lending, timing.
//
// RONDO_TEST_SEEDS=N plays N seeds in place of the default; a failing scene names its seed, and RONDO_TEST_SEED=S plays
// that seed alone.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>

#include "kernels/host_reducer.h"
#include "scenes.h"

using namespace stage;

namespace {

/// A seed plays one schedule of so many, in turns: under sanitizers all of them would take 75 s more, without them 7.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t schedules_apart = 3;
#else
constexpr std::uint64_t schedules_apart = 1;
#endif

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

void check(const Scene& scene) {
  const Outcome outcome = play(scene);
  if (outcome.ok()) return;
  FAIL_CHECK(describe(scene) << ": " << outcome.wrong);
}

}  // namespace

TEST_CASE("Every schedule gives exact results under seeds") {
  std::uint64_t scenes = 0, tiles = 0, lends = 0, messages = 0;
  const std::uint64_t one_seed = number_from("RONDO_TEST_SEED", 0);
  const auto play_seed = [&](std::uint64_t seed) {
    std::uint64_t number = 0;
    for (const rondo::plan::Schedule& schedule : rondo::plan::schedules()) {
      if (one_seed == 0 && ++number % schedules_apart != seed % schedules_apart) continue;
      const Scene scene = random_scene(schedule, seed);
      const Outcome outcome = play(scene);
      ++scenes;
      tiles = std::max(tiles, outcome.tiles);
      lends += outcome.lends;
      messages += outcome.messages;
      if (!outcome.ok()) FAIL_CHECK("RONDO_TEST_SEED=" << seed << ": " << describe(scene) << ": " << outcome.wrong);
    }
  };
  if (one_seed != 0) return play_seed(one_seed);
  const std::uint64_t seeds = number_from("RONDO_TEST_SEEDS", 200);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) play_seed(seed);
  // The sweep is worth nothing if it never cuts or lends.
  if (seeds < 100) return;
  CHECK(scenes >= seeds * (rondo::plan::schedules().size() / schedules_apart));
  CHECK(tiles > 3);
  CHECK(lends > 100);
  CHECK(messages > 10'000);
}

TEST_CASE("All ranks lend or all copy, however each begins") {
  using namespace rondo::plan;
  const auto kind = rondo::CollectiveKind::all_reduce;
  std::uint64_t lends = 0, played = 0;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    rondo::simulated::Random random(seed);
    Scene scene = plain_scene(*find(kind, Algorithm::one_shot), static_cast<int>(2 + random.below(8)), 0);
    scene.seed = random.next();
    scene.links.seed = random.next();
    scene.links.lending = static_cast<rondo::simulated::Lending>(random.below(3));
    scene.links.delay_max = random.percent(20) ? 0 : 100;
    scene.links.credits = 3;
    Call& call = scene.calls[0];
    call.lending = find(kind, Algorithm::two_shot);
    call.cut.slice_bytes_min = rondo::limits::slot_bytes;
    call.type = static_cast<DataType>(random.below(rondo::data_type_count));
    call.op = static_cast<Operator>(random.below(rondo::operator_count));
    call.in_place = random.percent(50);
    call.by_address = random.percent(50);
    if (call.op == Operator::sum && random.percent(50)) call.values = Values::rounding;
    call.count = 2048 / rondo::element_bytes(call.type) + random.below(2000);
    while (random.percent(40)) scene.calls.push_back(scene.calls[0]);  // under way at once
    const Outcome outcome = play(scene);
    lends += outcome.lends;
    ++played;
    if (!outcome.ok()) FAIL_CHECK("seed " << seed << ": " << describe(scene) << ": " << outcome.wrong);
  }
  CHECK(lends > played);
}

TEST_CASE("What lies on a shelf is what its borrowers read, however late") {
  using namespace rondo::plan;
  std::uint64_t lends = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    rondo::simulated::Random random(seed);
    Scene scene = plain_scene(*find(rondo::CollectiveKind::broadcast, Algorithm::direct), 3, 20'011);
    scene.ranks += static_cast<int>(random.below(4));
    scene.seed = random.next();
    scene.links.seed = random.next();
    scene.links.lending = rondo::simulated::Lending::mixed;  // some of it copied
    scene.calls[0].root = static_cast<int>(random.below(scene.ranks));
    scene.calls[0].cut = {1024, 2, 64};
    scene.calls[0].in_place = random.percent(50);
    scene.calls[0].stripes = static_cast<int>(1 + random.below(3));
    scene.calls[0].shelf = static_cast<int>(1 + random.below(6));
    const Outcome outcome = play(scene);
    lends += outcome.lends;
    if (!outcome.ok()) FAIL_CHECK("seed " << seed << ": " << describe(scene) << ": " << outcome.wrong);
  }
  CHECK(lends > 1000);
}

TEST_CASE("Every schedule gives exact results for every small count and number of ranks") {
  for (const rondo::plan::Schedule& schedule : rondo::plan::schedules()) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      const std::uint64_t n = static_cast<std::uint64_t>(ranks);
      for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, n - 1, n, n + 1, std::uint64_t{1009}}) {
        for (const bool in_place : {false, true}) {
          Scene scene = plain_scene(schedule, ranks, count);
          scene.calls[0].in_place = in_place;
          scene.calls[0].root = ranks / 2;
          check(scene);
        }
      }
    }
  }
}

namespace {

/// The links of one rank of a world, for a plan that is no schedule.
class WorldLinks final : public rondo::Links {
 public:
  WorldLinks(rondo::simulated::World& world, int rank) : world_(world), rank_(rank) {}
  rondo::SendEnd& send_end(int peer, int lane) override { return world_.send_end(rank_, peer, lane); }
  rondo::ReceiveEnd& receive_end(int peer, int lane) override { return world_.receive_end(rank_, peer, lane); }
  rondo::EndOrder& send_order(int, int) override { return orders_[0]; }
  rondo::EndOrder& receive_order(int, int) override { return orders_[1]; }

 private:
  rondo::simulated::World& world_;
  const int rank_;
  rondo::EndOrder orders_[2];
};

/// Two ranks swap `count` bytes in tiles of one cache line, each sending from where it receives to; true if it worked.
bool swap_in_place(std::uint64_t seed, std::uint64_t count) {
  using namespace rondo::plan;
  rondo::simulated::World world(2, {.seed = seed, .credits = 20, .landings = 16});
  rondo::simulated::Random turns(seed);
  const Collective collective{rondo::CollectiveKind::send_recv, 2, 1, 0, 1};
  std::vector<std::byte> buffers[2];
  std::unique_ptr<WorldLinks> links[2];
  std::unique_ptr<rondo::Program> programs[2];
  rondo::Run runs[2];
  for (int rank = 0; rank < 2; ++rank) {
    const std::vector<Step> steps{{.operation = Operation::send, .to = {1 - rank}, .source = in(0)},
                                  {.operation = Operation::recv_copy, .from = {1 - rank}, .target = out(0)}};
    for (std::uint64_t i = 0; i < count; ++i) buffers[rank].push_back(static_cast<std::byte>(i / 64 * 2 + rank));
    links[rank] = std::make_unique<WorldLinks>(world, rank);
    programs[rank] = std::make_unique<rondo::Program>(collective, Plan{{{steps, 0}}, 0, 0}, 1, *links[rank]);
    rondo::RunArguments a;
    a.program = programs[rank].get();
    a.layout = Layout(programs[rank]->shape(), count, DataType::int8, {64, 1, 64});
    a.in = a.out = buffers[rank].data();
    a.reduction = {DataType::int8, Operator::sum, 2, 0};
    a.reduce = rondo::host_reducer().find(DataType::int8, Operator::sum);
    runs[rank].start(a);
  }
  for (int looks = 0; !runs[0].done() || !runs[1].done(); ++looks) {
    if (looks == 100'000) return false;
    bool moved = false;
    for (int rank = 0; rank < 2; ++rank) moved |= turns.percent(50) && runs[rank].progress();
    if (!moved) world.advance();
  }
  bool right = world.complaints().empty() && world.leftovers().empty();
  for (int rank = 0; rank < 2; ++rank) {
    for (std::uint64_t i = 0; i < count; ++i) {
      right = right && buffers[rank][i] == static_cast<std::byte>(i / 64 * 2 + 1 - rank);
    }
  }
  return right;
}

/// Rank 0 sends messages that follow each other in one run, some lent, none waited for but the last; rank 1 receives
/// them so.  True if all arrived, in order, and nothing is lent any more.
bool chain_arrives(std::uint64_t seed) {
  using namespace rondo::plan;
  constexpr std::uint32_t messages = 20;
  rondo::simulated::World world(2, {.seed = seed, .credits = 4});
  rondo::simulated::Random random(seed);
  const Collective collective{rondo::CollectiveKind::send_recv, 2, 1, 0, 1};
  WorldLinks sender(world, 0), receiver(world, 1);
  const rondo::Program sends(collective, send_to(1, false), 1, sender), lends(collective, send_to(1, true), 1, sender);
  const rondo::Program receives(collective, receive_from(0), 1, receiver);
  std::vector<std::vector<std::byte>> given(messages), got(messages);
  std::uint32_t at[2] = {0, 0};
  rondo::Run runs[2];
  const auto start = [&](int rank) {
    rondo::RunArguments a;
    const std::uint32_t number = at[rank];
    a.program = rank == 1 ? &receives : number % 3 == 0 ? &sends : &lends;
    a.layout = Layout(a.program->shape(), given[number].size(), DataType::int8, {64, 2, 64});
    a.in = given[number].data();
    a.out = got[number].data();
    a.reduction = {DataType::int8, Operator::sum, 2, 0};
    a.reduce = rondo::host_reducer().find(DataType::int8, Operator::sum);
    a.signature.call = number;
    a.alone = false;
    a.owns_ends = true;
    a.continues = number > 0;
    a.followed = number + 1 < messages;
    runs[rank].start(a);
  };
  for (std::uint32_t i = 0; i < messages; ++i) {
    given[i].assign(1 + random.below(300), static_cast<std::byte>(i + 1));
    got[i].resize(given[i].size());
  }
  for (const int rank : {0, 1}) start(rank);
  bool lent_across = false;  // a message was lent while one before it still was
  for (int looks = 0; at[0] < messages || at[1] < messages; ++looks) {
    if (looks == 100'000) return false;
    bool moved = false;
    for (const int rank : {0, 1}) {
      if (at[rank] == messages || !random.percent(50)) continue;
      moved |= runs[rank].progress();
      if (!runs[rank].status().ok()) return false;
      lent_across = lent_across || (rank == 0 && runs[0].done() && world.lent_out(0) > 1);
      if (runs[rank].done() && ++at[rank] < messages) start(rank);
    }
    if (!moved) world.advance();
  }
  return given == got && lent_across && world.complaints().empty() && world.leftovers().empty();
}

}  // namespace

TEST_CASE("What arrives early is not stored where an earlier step of its tile still reads") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) CHECK(swap_in_place(seed, 64 * 40 - 5));
}

TEST_CASE("Many ranks") {
  for (const rondo::plan::Schedule& schedule : rondo::plan::schedules()) {
    for (const int ranks : {16, 33}) {
      Scene scene = plain_scene(schedule, ranks, 1021);
      scene.calls[0].cut = {512, 3, 64};
      check(scene);
      scene.calls[0].type = rondo::DataType::float8_e4m3;
      scene.calls[0].in_place = true;
      check(scene);
    }
  }
}

TEST_CASE("All types and operators, raw values counted once") {
  for (const rondo::plan::Schedule& schedule : rondo::plan::schedules()) {
    for (int type = 0; type < rondo::data_type_count; ++type) {
      for (int op = 0; op < rondo::operator_count; ++op) {
        for (const auto lending : {rondo::simulated::Lending::none, rondo::simulated::Lending::all}) {
          Scene scene = plain_scene(schedule, 3, 301);
          scene.links.lending = lending;
          scene.calls[0].type = static_cast<DataType>(type);
          scene.calls[0].op = static_cast<Operator>(op);
          scene.calls[0].cut = {128, 2, 64};
          check(scene);
        }
      }
    }
  }
}

TEST_CASE("Ranks agree on the bits of rounded results, and left folds are left folds") {
  for (const rondo::plan::Schedule& schedule : rondo::plan::schedules()) {
    for (const DataType type :
         {DataType::float32, DataType::float64, DataType::float16, DataType::bfloat16, DataType::float8_e4m3}) {
      for (const int ranks : {2, 3, 5, 8}) {
        Scene scene = plain_scene(schedule, ranks, 777);
        scene.calls[0].type = type;
        scene.calls[0].values = Values::rounding;
        scene.calls[0].cut = {256, rondo::limits::slices_max, 64};
        check(scene);
      }
    }
  }
}

TEST_CASE("Messages that follow each other in one run arrive in order, and nothing stays lent") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) CHECK(chain_arrives(seed));
}
