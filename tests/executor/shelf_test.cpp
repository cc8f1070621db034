// What is lent to several ranks that have not mapped it lies on a shelf: a copy each message, one for all borrowers,
// and no room of it is filled again before the last of them has released it.
#define CATCH_CONFIG_MAIN
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "executor.h"
#include "kernels/host_reducer.h"

using namespace rondo;

namespace {

constexpr std::size_t room_bytes = 128;
constexpr int rooms = 3;

/// Takes every lend, and notes where it lies; the test releases.
struct Borrower final : SendEnd {
  bool maps = false;
  std::vector<const std::byte*> lends;
  std::uint64_t gone = 0;
  bool among_others = false;  // the last one
  std::byte room[room_bytes] = {};

  std::byte* reserve(std::size_t) noexcept override { return room; }
  void commit(std::size_t, const Signature&, MessageFlags) noexcept override { FAIL("a lend was granted"); }
  bool lend(const std::byte* source, std::byte*, std::size_t, const Signature&, MessageFlags flags) noexcept override {
    lends.push_back(source);
    among_others = flags.among_others;
    return true;
  }
  bool can_lend(const std::byte*, std::size_t) noexcept override { return maps; }
  std::uint64_t sent() const noexcept override { return lends.size(); }
  std::uint64_t released() noexcept override { return gone; }
  int capacity() const noexcept override { return limits::credits; }
  std::size_t slot_bytes() const noexcept override { return room_bytes; }
  Status status() const noexcept override { return {}; }
};

/// The root of three or two ranks broadcasts eight messages; its links.
struct Root final : Links {
  Borrower to[3];
  EndOrder orders[3];
  std::vector<std::byte> data = std::vector<std::byte>(8 * room_bytes), memory = std::vector<std::byte>(3 * room_bytes);
  Shelf shelf{memory.data(), room_bytes, rooms, 2};
  std::unique_ptr<Program> program;
  RunArguments a;
  Run run;

  explicit Root(int ranks = 3) {
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i / room_bytes + 1);
    const plan::Schedule& schedule = *plan::find(CollectiveKind::broadcast, plan::Algorithm::direct);
    const plan::Collective collective{CollectiveKind::broadcast, ranks, 1, 0, 0};
    program = std::make_unique<Program>(collective, schedule.build(plan::Topology::one_host(ranks), 0, 0), 1, *this);
    a.program = program.get();
    a.layout = plan::Layout(program->shape(), data.size(), DataType::int8, {room_bytes, 1, 64});
    a.in = a.out = data.data();
    a.reduction = {DataType::int8, Operator::sum, ranks, 0};
    a.reduce = host_reducer().find(DataType::int8, Operator::sum);
    a.shelf = &shelf;
  }
  SendEnd& send_end(int peer, int) override { return to[peer]; }
  ReceiveEnd& receive_end(int, int) override { throw std::logic_error("a root receives nothing"); }
  EndOrder& send_order(int peer, int) override { return orders[peer]; }
  EndOrder& receive_order(int, int) override { throw std::logic_error("a root receives nothing"); }
  bool on_shelf(const std::byte* lent) const { return lent >= memory.data() && lent < memory.data() + memory.size(); }
  /// Whether a lend shows the message's bytes now.
  bool shows(std::size_t message) const {
    return std::memcmp(to[1].lends[message], data.data() + message * room_bytes, room_bytes) == 0;
  }
};

}  // namespace

TEST_CASE("One copy serves all borrowers, and lies still until the last of them has released it") {
  Root root;
  root.run.start(root.a);
  while (root.run.progress()) {
  }
  REQUIRE(root.to[1].lends.size() == rooms);
  root.to[1].gone = 2;
  CHECK_FALSE(root.run.progress());  // the other one still reads
  root.to[2].gone = 1;
  while (root.run.progress()) {
  }
  REQUIRE(root.to[1].lends.size() == rooms + 1);
  for (const std::size_t message : {1, 2, 3}) CHECK(root.shows(message));
  for (int looks = 0; looks < 20 && !root.run.done(); ++looks) {
    for (const int peer : {1, 2}) root.to[peer].gone = root.to[peer].lends.size();
    while (root.run.progress()) {
    }
  }
  CHECK(root.run.done());
  REQUIRE(root.to[1].lends.size() == 8);
  CHECK(root.to[1].lends == root.to[2].lends);
  CHECK(std::ranges::all_of(root.to[1].lends, [&](const std::byte* lent) { return root.on_shelf(lent); }));
}

TEST_CASE("What all borrowers have mapped, and what runs beside other calls, is lent from where it is") {
  Root root;
  SECTION("mapped by both") { root.to[1].maps = root.to[2].maps = true; }
  SECTION("beside others") { root.a.alone = false; }
  root.run.start(root.a);
  while (root.run.progress()) {
  }
  REQUIRE(root.to[1].lends.size() == 8);
  CHECK(root.to[1].lends[7] == root.data.data() + 7 * room_bytes);
}

TEST_CASE("A lend says whether others are lent to, too") {
  for (const int ranks : {2, 3}) {
    Root root(ranks);
    root.run.start(root.a);
    while (root.run.progress()) {
    }
    REQUIRE(root.to[1].lends.size() > 0);
    CHECK(root.to[1].among_others == (ranks > 2));
  }
}

TEST_CASE("Mapped by one of them only, it lies on the shelf") {
  Root root;
  root.to[1].maps = true;
  root.run.start(root.a);
  while (root.run.progress()) {
  }
  REQUIRE(root.to[1].lends.size() == rooms);
  CHECK(root.on_shelf(root.to[1].lends[0]));
}
