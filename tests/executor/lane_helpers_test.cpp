// Threads that walk lanes: each piece of work is done once, by its helper or by its giver, and what it wrote is seen.
#define CATCH_CONFIG_MAIN
#include "communicator/lane_helpers.h"

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

using rondo::LaneHelpers;

namespace {

/// Writes a number where nobody else does, and counts.
class Piece final : public LaneHelpers::Work {
 public:
  std::uint64_t run() noexcept override {
    written = asked;
    ++runs;
    return 3;
  }
  int asked = 0;
  int written = 0;
  int runs = 0;
};

/// Runs until it is told to end.
class Long final : public LaneHelpers::Work {
 public:
  std::uint64_t run() noexcept override {
    begun.store(true);
    begun.notify_all();
    ends.wait(false);
    return 0;
  }
  std::atomic<bool> begun{false};
  std::atomic<bool> ends{false};
};

}  // namespace

TEST_CASE("Every piece is done once, and its writes are seen by who gave it") {
  constexpr int helpers_count = 3, rounds = 2000;
  LaneHelpers helpers(helpers_count);
  std::vector<Piece> pieces(helpers_count);
  std::uint64_t own = 0;
  for (int round = 1; round <= rounds; ++round) {
    for (int i = 0; i < helpers_count; ++i) {
      pieces[i].asked = round;
      helpers.give(i, pieces[i]);
    }
    for (int i = helpers_count - 1; i >= 0; --i) {
      if (round % 16 == 0) std::this_thread::yield();  // so that helpers begin, too
      if (helpers.take_back(i)) {
        (void)pieces[i].run();
        ++own;
      } else {
        helpers.await(i);
      }
    }
    for (const Piece& piece : pieces) REQUIRE((piece.written == round && piece.runs == round));
  }
  std::uint64_t theirs = 0;
  for (int i = 0; i < helpers_count; ++i) {
    theirs += helpers.counts(i).pieces;
    CHECK(helpers.counts(i).steps == 3 * helpers.counts(i).pieces);
  }
  CHECK(own + theirs == rounds * helpers_count);
  CHECK(helpers.taken_back() == own);
}

TEST_CASE("What a helper has begun is not taken back, and is waited for") {
  LaneHelpers helpers(2);
  Long long_one, other;
  helpers.give(0, long_one);
  long_one.begun.wait(false);
  CHECK_FALSE(helpers.take_back(0));
  helpers.give(1, other);  // helpers do not wait for each other
  other.begun.wait(false);
  for (Long* const work : {&long_one, &other}) {
    work->ends.store(true);
    work->ends.notify_all();
  }
  helpers.await(0);
  helpers.await(1);
  CHECK(helpers.counts(0).pieces == 1);
  CHECK(helpers.taken_back() == 0);
}
