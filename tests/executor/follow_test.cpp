// Who copies its own block and lends the same to others has them get each part while it is in the cache: behind the
// copy, never ahead of it, and only where that can gain something.
#define CATCH_CONFIG_MAIN
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "executor.h"
#include "kernels/host_reducer.h"

using namespace rondo;

namespace {

constexpr std::size_t part_bytes = 64 * 1024;

/// Borrows by address, and notes how far it could follow; and a link from a rank that sends nothing yet.
struct Borrower final : SendEnd, ReceiveEnd {
  const std::vector<std::byte>* copied = nullptr;  // what must be there before it follows
  const std::vector<std::byte>* source = nullptr;
  bool asks = true;  // has asked
  bool is_polled = false;
  bool maps = false;  // what it borrows
  std::uint64_t count = 0;
  std::vector<std::size_t> followed;

  std::byte* reserve(std::size_t) noexcept override { return &room; }
  void commit(std::size_t, const Signature&, MessageFlags) noexcept override { FAIL("a lend was granted"); }
  bool lend(const std::byte*, std::byte*, std::size_t, const Signature&, MessageFlags) noexcept override {
    return ++count > 0;
  }
  bool can_lend(const std::byte*, std::size_t) noexcept override { return maps; }
  bool may_be_asked() noexcept override { return !asks; }
  void follow(std::size_t upto) noexcept override {
    CHECK(std::memcmp(copied->data(), source->data(), upto) == 0);
    followed.push_back(upto);
  }
  std::uint64_t sent() const noexcept override { return count; }
  std::uint64_t released() noexcept override { return 0; }
  int capacity() const noexcept override { return limits::credits; }
  std::size_t slot_bytes() const noexcept override { return part_bytes; }
  Status status() const noexcept override { return {}; }
  const Message* peek() noexcept override { return nullptr; }
  void release() noexcept override {}
  bool polled() const noexcept override { return is_polled; }
  void add_wakeups(Wakeups&) const noexcept override {}
  void stop() noexcept override {}
  std::byte room{};
};

/// Rank 0 of three gathers blocks from all, and none comes.
struct Rank final : Links {
  static constexpr int ranks = 3;
  Borrower peers[ranks];
  EndOrder orders[2 * ranks];
  std::vector<std::byte> in, out;
  std::unique_ptr<Program> program;
  RunArguments a;
  Run run;

  explicit Rank(std::size_t bytes, CollectiveKind kind = CollectiveKind::all_gather, bool in_place = false,
                bool polled = false)
      : in(bytes * ranks), out(bytes * ranks) {
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::byte>(i * 2654435761u >> 24 | 1);
    for (Borrower& peer : peers) peer.copied = &out, peer.source = &in, peer.is_polled = polled;
    const plan::Schedule& schedule = *plan::find(kind, plan::Algorithm::direct);
    const plan::Collective collective{kind, ranks, 1, 0, 0};
    program = std::make_unique<Program>(collective, schedule.build(plan::Topology::one_host(ranks), 0, 0), 1, *this);
    a.program = program.get();
    a.layout = plan::Layout(program->shape(), bytes, DataType::int8, {part_bytes, 1, 64});
    a.in = in_place ? out.data() : in.data();
    a.out = out.data();
    a.reduction = {DataType::int8, Operator::sum, ranks, 0};
    a.reduce = host_reducer().find(DataType::int8, Operator::sum);
    run.start(a);
  }
  /// Moves what can move.
  void move() {
    while (run.progress()) {
    }
  }
  SendEnd& send_end(int peer, int) override { return peers[peer]; }
  ReceiveEnd& receive_end(int peer, int) override { return peers[peer]; }
  EndOrder& send_order(int peer, int) override { return orders[peer]; }
  EndOrder& receive_order(int peer, int) override { return orders[ranks + peer]; }
};

constexpr std::size_t much = 20 * part_bytes + 8, little = 4 * part_bytes;

}  // namespace

TEST_CASE("What is copied and lent goes to those who borrow it part by part") {
  Rank rank(much);
  rank.move();
  CHECK(std::memcmp(rank.out.data(), rank.in.data(), much) == 0);
  const std::vector<std::size_t>& followed = rank.peers[1].followed;
  REQUIRE(followed.size() >= much / part_bytes / limits::slices_max);
  CHECK(std::ranges::is_sorted(followed));
  CHECK(followed.front() <= limits::slices_max * part_bytes);
  CHECK(followed.back() == much);
  CHECK(rank.peers[2].followed == followed);
}

TEST_CASE("The copy waits a little for those who have not asked yet, and no longer") {
  Rank rank(much);
  rank.peers[2].asks = false;
  rank.move();
  CHECK(rank.out.front() == std::byte{0});
  SECTION("they ask") {
    rank.peers[2].asks = true;
    rank.move();
    CHECK(rank.out.front() == rank.in.front());
  }
  SECTION("they do not") {
    for (int looks = 0; looks < 100; ++looks) rank.move();
  }
  CHECK(std::memcmp(rank.out.data(), rank.in.data(), much) == 0);
}

TEST_CASE("Nobody follows where that gains nothing") {
  SECTION("little stays in the cache") {
    Rank rank(little);
    rank.move();
    CHECK(std::memcmp(rank.out.data(), rank.in.data(), little) == 0);
    CHECK(rank.peers[1].followed.empty());
  }
  SECTION("in place nothing is read") {
    Rank rank(much, CollectiveKind::all_gather, true);
    rank.move();
    CHECK(rank.peers[1].followed.empty());
  }
  SECTION("others are lent other blocks") {
    Rank rank(much, CollectiveKind::all_to_all);
    rank.move();
    CHECK(std::memcmp(rank.out.data(), rank.in.data(), much) == 0);
    CHECK(rank.peers[1].followed.empty());
  }
}

TEST_CASE("In every second call the own block of an all-to-all is copied last, or when nothing comes for long") {
  struct {
    CollectiveKind kind;
    std::size_t bytes;
    bool last;
    bool polled = false;
    bool maps = false;
  } const cases[] = {{CollectiveKind::all_to_all, 2 * part_bytes, true},
                     {CollectiveKind::all_to_all, 2 * part_bytes - 1, false},
                     {CollectiveKind::all_to_all, 16 * part_bytes, true},
                     {CollectiveKind::all_to_all, 16 * part_bytes + 1, false},
                     {CollectiveKind::all_to_all, 2 * part_bytes, false, true},
                     {CollectiveKind::all_to_all, 2 * part_bytes, false, false, true},
                     {CollectiveKind::all_gather, 2 * part_bytes, false}};
  for (const auto& c : cases) {
    Rank rank(c.bytes, c.kind, false, c.polled);
    rank.peers[2].maps = c.maps;
    for (const bool second : {false, true, false, true}) {
      std::ranges::fill(rank.out, std::byte{0});
      rank.run.start(rank.a);
      rank.move();
      CHECK((rank.out.front() == std::byte{0}) == (second && c.last));
      const auto copied = [&] { return std::memcmp(rank.out.data(), rank.in.data(), c.bytes) == 0; };
      for (int looks = 0; looks < 1000 && !copied(); ++looks) rank.move();
      CHECK(copied());
    }
  }
}
