// A copy that two processes make: who takes which part, what is left where one gives up, and that every byte comes.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>
#include <vector>

#include "copying_lender.h"

using namespace rondo;

namespace {

/// A copy of so many bytes that was posted.
struct Posted {
  Posted(std::size_t bytes, slots::SharedCopy::Makers makers) : memory(bytes), target(bytes) {
    const slots::Copy copy{target.data(), reinterpret_cast<std::uintptr_t>(memory.data()), bytes};
    shared.post({&copy, 1}, makers);
  }

  slots::SharedCopy shared;
  CopyingLender lender;
  std::vector<std::byte> memory, target;
};

}  // namespace

TEST_CASE("Who gives a copy up waits for what the lender has taken, and for no more") {
  Posted posted(std::size_t{6} << 20, slots::SharedCopy::Makers::both);
  auto& [shared, lender, memory, target] = posted;
  CHECK(shared.write_part(lender) == slots::SharedCopy::Wrote::part);
  std::uint64_t own = 0;
  REQUIRE(shared.read_part(lender, own));
  const std::uint64_t taken = shared.withdraw(own);
  CHECK(taken > 0);
  CHECK(shared.outcome(taken) == slots::SharedCopy::Outcome::finished);
  CHECK(shared.write_part(lender) == slots::SharedCopy::Wrote::nothing);
}

TEST_CASE("A lender that is to write all leaves the last part to a borrower that has written its own") {
  slots::SharedCopy shared;
  CopyingLender lenders, borrowers;
  constexpr std::size_t bytes = (std::size_t{6} << 20) + 5;
  std::vector<std::byte> memory(bytes), target(bytes);
  for (std::size_t i = 0; i < bytes; ++i) memory[i] = static_cast<std::byte>(i * 2654435761u >> 24);
  for (const bool reachable : {true, false}) {
    std::fill(target.begin(), target.end(), std::byte{0});
    const slots::Copy copy{target.data(), reinterpret_cast<std::uintptr_t>(memory.data()), bytes};
    shared.post({&copy, 1}, slots::SharedCopy::Makers::lender);
    lenders.reachable = true;
    CHECK(shared.write_part(lenders) == slots::SharedCopy::Wrote::part);
    std::uint64_t own = 0;
    REQUIRE(shared.read_part(borrowers, own));
    CHECK(own > 0);
    lenders.reachable = reachable;
    while (shared.write_part(lenders) == slots::SharedCopy::Wrote::part) {
    }
    if (reachable) {
      CHECK(shared.outcome(bytes - own) == slots::SharedCopy::Outcome::finished);
    } else {
      CHECK(shared.outcome(bytes - own) == slots::SharedCopy::Outcome::refused);
      REQUIRE(shared.read_all(borrowers));
    }
    CHECK(std::memcmp(memory.data(), target.data(), bytes) == 0);
  }
}

TEST_CASE("What others copy, too, no lender writes from the front") {
  slots::SharedCopy shared;
  CopyingLender lender;
  std::vector<std::byte> memory(std::size_t{1} << 20), target(memory.size());
  const slots::Copy copy{target.data(), reinterpret_cast<std::uintptr_t>(memory.data()), memory.size()};
  CHECK_FALSE(shared.posted());
  shared.post({&copy, 1}, slots::SharedCopy::Makers::both);
  CHECK(shared.posted());
  CHECK(shared.write_front(lender, memory.size()) == slots::SharedCopy::Wrote::nothing);
}

TEST_CASE("Who gives a copy up waits for what the lender has taken from the front, too") {
  Posted posted(std::size_t{6} << 20, slots::SharedCopy::Makers::lender);
  auto& [shared, lender, memory, target] = posted;
  CHECK(shared.write_front(lender, 1000) == slots::SharedCopy::Wrote::part);
  const std::uint64_t taken = shared.withdraw(0);
  CHECK(taken == 1024);  // whole lines
  CHECK(shared.outcome(taken) == slots::SharedCopy::Outcome::finished);
  CHECK(shared.write_front(lender, memory.size()) == slots::SharedCopy::Wrote::nothing);
}

TEST_CASE("Two threads share copies of any size, and every byte comes") {
  slots::SharedCopy shared;
  CopyingLender borrowers, lenders;
  std::atomic<bool> over{false};
  std::thread lender([&] {
    while (!over.load()) (void)shared.write_part(lenders);
  });
  std::vector<std::byte> memory(slots::copies_max * std::size_t{limits::slot_bytes}), target(memory.size());
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 2654435761u >> 24);
  std::uint64_t written = 0;
  for (std::size_t round = 0; round < 200; ++round) {
    slots::Copy copies[slots::copies_max];
    const std::size_t count = 1 + round % slots::copies_max;
    std::size_t at = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t bytes = limits::slot_bytes - (round * 977 + i * 131) % 5000;
      copies[i] = {target.data() + at, reinterpret_cast<std::uintptr_t>(memory.data() + at), bytes};
      at += bytes;
    }
    std::memset(target.data(), 0, at);
    std::uint64_t own = 0;
    shared.post(std::span(copies, count), slots::SharedCopy::Makers::both);
    // Once, at least, the lender takes a part: however few processors there are.
    while (round == 0 && shared.outcome(0) == slots::SharedCopy::Outcome::finished) std::this_thread::yield();
    REQUIRE(shared.read_parts(borrowers, own));
    while (shared.outcome(at - own) == slots::SharedCopy::Outcome::unfinished) std::this_thread::yield();
    REQUIRE(std::memcmp(memory.data(), target.data(), at) == 0);
    written += at - own;
  }
  over = true;
  lender.join();
  CHECK(written > 0);
}
