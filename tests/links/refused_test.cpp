// Memory that was lent by address and that the kernel does not let the borrower read, or answer, any more: the lender
// writes it, or nothing more comes; never what was not copied, and never an answer that was not stored.
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "copying_lender.h"
#include "transports/slots.h"

namespace {

using namespace rondo;

/// A link from a lender to a borrower that asks for messages of different bytes.
struct Scene {
  explicit Scene(std::size_t size, bool answers = false, int messages = 3)
      : bytes(size), memory(3 * size), target(3 * size) {
    lending.rank = 1;
    borrowing.rank = 0;
    lending.doorbell = borrowing.doorbell = {&doorbell};
    lending.lender = &lenders;
    borrowing.lender = &borrowers;
    lenders.reads_left = borrowers.reads_left = 0;
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 2654435761u >> 24);
    for (int i = 0; i < messages; ++i) {
      if (!answers) receiver.land(target.data() + at(i), bytes, i);
      REQUIRE(sender.reserve(bytes) != nullptr);
      REQUIRE(sender.lend(memory.data() + at(i), answers ? memory.data() + at(i) : nullptr, bytes, {}, {}));
    }
  }
  std::size_t at(int i) const { return static_cast<std::size_t>(i) * bytes; }
  /// Looks for the next message, and lets the lender help where it has not come.
  const Message* look() {
    for (int looks = 0; looks < 20; ++looks) {
      if (const Message* const message = receiver.peek()) return message;
      if (help) (void)sender.help();
    }
    return nullptr;
  }
  /// Takes all messages, of which every byte must be right.
  void take_all() {
    for (int i = 0; i < 3; ++i) {
      const Message* const message = look();
      REQUIRE(message != nullptr);
      CHECK(std::memcmp(message->data, memory.data() + at(i), bytes) == 0);
      receiver.release();
    }
    CHECK(sender.released() == 3);
    CHECK(sender.status().ok());
    CHECK(receiver.status().ok());
    CHECK_FALSE(sender.help());
  }
  void expect_lost() {
    for (int i = 0; i < 4; ++i) CHECK(look() == nullptr);
    CHECK(receiver.status().code == Code::remote_error);
    CHECK(receiver.refused());
    CHECK(sender.status().code == Code::remote_error);
    CHECK(sender.refused() == EPERM);
  }

  const std::size_t bytes;
  bool help = true;
  CopyingLender lenders, borrowers;  // the kernel of each: it reads nothing unless told so
  DoorbellPage doorbell;
  slots::Peer lending, borrowing;
  slots::Acknowledged here, there;
  std::unique_ptr<slots::Ring> ring = std::make_unique<slots::Ring>();
  std::vector<std::byte> landing = std::vector<std::byte>(slots::rooms_max * limits::slot_bytes);
  std::vector<std::byte> memory, target;
  slots::Sender sender{*ring, lending, here};
  slots::Receiver receiver{*ring, borrowing, there, 0, landing.data()};
};

constexpr std::size_t few = 100, many = 100'000;  // of a message
static_assert(3 * many > slots::SharedCopy::crossing_bytes_min && 3 * few < slots::SharedCopy::bytes_min);

}  // namespace

TEST_CASE("What the borrower cannot read the lender writes") {
  for (const std::size_t bytes : {few, many}) {
    for (const bool crossing : {false, true}) {
      for (const bool crowded : {false, true}) {
        Scene scene(bytes);
        scene.there.lends = crossing;
        scene.borrowing.has_core = !crowded;
        scene.take_all();
        scene.receiver.land(scene.target.data(), bytes);  // and what comes later
        REQUIRE(scene.sender.reserve(bytes) != nullptr);
        REQUIRE(scene.sender.lend(scene.memory.data(), nullptr, bytes, {}, {}));
        REQUIRE(scene.look() != nullptr);
        CHECK(std::memcmp(scene.target.data(), scene.memory.data(), bytes) == 0);
        scene.receiver.release();
        CHECK(scene.sender.released() == 4);
      }
    }
  }
}

TEST_CASE("What the borrower cannot read any more the lender writes, whatever it is writing already") {
  for (const int reads : {1, 2, 3}) {
    for (const bool beside : {false, true}) {
      Scene scene(many);
      scene.borrowers.reads_left = reads;
      if (beside) scene.borrowers.meanwhile = [&] { (void)scene.sender.help(); };
      scene.take_all();
    }
  }
}

TEST_CASE("A borrower that is to read the rest, and cannot, leaves it to the lender") {
  Scene scene(many);
  scene.there.lends = true;
  scene.help = false;
  CHECK(scene.look() == nullptr);
  scene.there.wrote_all = true;  // its own, and so it would read a part of the other's
  CHECK_FALSE(scene.receiver.help());
  scene.help = true;
  scene.take_all();
}

TEST_CASE("What nobody can copy does not come, however often it is asked for") {
  for (const std::size_t bytes : {few, many}) {
    for (const bool crossing : {false, true}) {
      Scene scene(bytes);
      scene.there.lends = crossing;
      scene.lenders.may_write = false;
      scene.expect_lost();
      CHECK(scene.sender.released() == 0);
    }
  }
}

TEST_CASE("A lender whose answers cannot be stored hears so, and does not take them for stored") {
  Scene scene(few, true, slots::rooms_max);
  scene.borrowers.reads_left = 2;
  scene.borrowers.may_write = false;
  for (int i = 0; i < slots::rooms_max; ++i) {
    const Message* const message = scene.look();
    REQUIRE(message != nullptr);
    std::memset(message->reply, 1, few);
    scene.receiver.release();
  }
  // Nor by the release of what comes next.
  std::byte* const room = scene.sender.reserve(8);
  REQUIRE(room != nullptr);
  scene.sender.commit(8, {}, {});
  scene.expect_lost();
  CHECK(scene.sender.released() == 0);
}

TEST_CASE("Who gives up what the lender was to write alone leaves nothing to be written") {
  Scene scene(many);
  scene.borrowers.reads_left = 1;
  scene.help = false;
  CHECK(scene.look() == nullptr);
  scene.receiver.stop();
  CHECK_FALSE(scene.sender.help());
}
