// Messages lent by address to another process: how many are copied at once, where to, and when their replies and
// releases go out.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <vector>

#include "copying_lender.h"
#include "transports/slots.h"

namespace {

using namespace rondo;

/// One link from a lender to a borrower, and 100-byte messages in the lender's memory, each of one value.
struct Scene {
  static constexpr std::size_t bytes = 100;

  Scene() {
    for (auto* peer : {&lending, &borrowing}) {
      peer->rank = peer == &lending ? 1 : 0;
      peer->doorbell = {&doorbell};
      peer->lender = &kernel;
    }
  }
  std::byte* message(int index) { return memory.data() + static_cast<std::size_t>(index) * bytes; }
  std::byte* reply(int index) { return replies.data() + static_cast<std::size_t>(index) * bytes; }
  void lend(int index) {
    std::memset(message(index), index + 1, bytes);
    REQUIRE(sender.reserve(bytes) != nullptr);
    REQUIRE(sender.lend(message(index), reply(index), bytes, {}, {}));
  }
  /// Takes in the next message, answers it with its value plus 100, and releases it.
  void answer(int index) {
    const Message* const got = receiver.peek();
    REQUIRE(got != nullptr);
    REQUIRE(got->lent);
    REQUIRE(got->bytes == bytes);
    REQUIRE(got->data[bytes - 1] == static_cast<std::byte>(index + 1));
    std::memset(got->reply, index + 101, bytes);
    receiver.release();
  }
  bool answered(int index) { return reply(index)[bytes - 1] == static_cast<std::byte>(index + 101); }

  CopyingLender kernel;
  DoorbellPage doorbell;
  slots::Peer lending, borrowing;
  slots::Acknowledged here, there;
  std::unique_ptr<slots::Ring> ring = std::make_unique<slots::Ring>();
  std::vector<std::byte> landing = std::vector<std::byte>(slots::rooms_max * limits::slot_bytes);
  std::vector<std::byte> memory = std::vector<std::byte>(32 * bytes);
  std::vector<std::byte> replies = std::vector<std::byte>(32 * bytes);
  slots::Sender sender{*ring, lending, here};
  slots::Receiver receiver{*ring, borrowing, there, 0, landing.data()};
};

}  // namespace

TEST_CASE("Lent messages that have arrived are copied in one call, and released together") {
  Scene scene;
  for (int i = 0; i < limits::credits; ++i) scene.lend(i);
  for (int i = 0; i < limits::credits; ++i) {
    scene.answer(i);
    const int done = (i + 1) / slots::rooms_max * slots::rooms_max;
    CHECK(scene.sender.released() == static_cast<std::uint64_t>(done));
    CHECK(scene.kernel.reads == i / slots::rooms_max + 1);
    CHECK(scene.kernel.writes == done / slots::rooms_max);
    for (int j = 0; j <= i; ++j) CHECK(scene.answered(j) == (j < done));
  }
}

TEST_CASE("What fits into a header is not lent") {
  Scene scene;
  REQUIRE(scene.sender.reserve(limits::inline_bytes) != nullptr);
  CHECK_FALSE(scene.sender.lend(scene.message(0), scene.reply(0), limits::inline_bytes, {}, {}));
  CHECK(scene.sender.lend(scene.message(0), scene.reply(0), limits::inline_bytes + 1, {}, {}));
  CHECK(scene.sender.sent() == 1);
}

TEST_CASE("A lent message that is alone is answered at once") {
  Scene scene;
  for (int i = 0; i < 9; ++i) {
    scene.lend(i);
    scene.answer(i);
    CHECK(scene.sender.released() == static_cast<std::uint64_t>(i + 1));
    CHECK(scene.answered(i));
    CHECK(scene.receiver.peek() == nullptr);
  }
}

TEST_CASE("A copied message between lent ones ends what is copied together") {
  Scene scene;
  scene.lend(0);
  std::byte* const room = scene.sender.reserve(8);
  std::memset(room, 77, 8);
  scene.sender.commit(8, {}, {});
  scene.lend(2);
  scene.answer(0);
  CHECK(scene.sender.released() == 1);
  const Message* const got = scene.receiver.peek();
  REQUIRE(got != nullptr);
  CHECK(!got->lent);
  CHECK(got->data[7] == static_cast<std::byte>(77));
  scene.receiver.release();
  scene.answer(2);
  CHECK(scene.sender.released() == 3);
  CHECK(scene.answered(2));
}

TEST_CASE("The held-back releases leave the sender the credits of the proofs") {
  Scene scene;
  std::uint64_t held_max = 0;
  for (int lent = 0, answered = 0; answered < 12; ++answered) {
    while (lent < 16 && scene.sender.reserve(Scene::bytes) != nullptr) scene.lend(lent++);
    scene.answer(answered);
    held_max = std::max(held_max, static_cast<std::uint64_t>(answered + 1) - scene.sender.released());
  }
  CHECK(held_max == slots::rooms_max - 1);
  CHECK(limits::headers - (slots::copies_max - 1) >= limits::slices_max + 1);
}

TEST_CASE("Messages that are named are copied many in one call, and released together") {
  Scene scene;
  std::vector<std::byte> target(20 * Scene::bytes);
  const auto name = [&](int first) {
    for (int i = first; i < 20; ++i) scene.receiver.land(target.data() + i * Scene::bytes, Scene::bytes, i - first);
  };
  for (int i = 0; i < 20; ++i) {
    std::memset(scene.message(i), i + 1, Scene::bytes);
    REQUIRE(scene.sender.reserve(Scene::bytes) != nullptr);  // lent messages need no slot
    REQUIRE(scene.sender.lend(scene.message(i), nullptr, Scene::bytes, {}, {}));
  }
  for (int i = 0; i < 20; ++i) {
    const bool begins = i % slots::copies_max == 0;
    CHECK(scene.receiver.landings_wanted() == (begins ? slots::copies_max : 0));
    if (begins) name(i);
    const Message* const got = scene.receiver.peek();
    REQUIRE(got != nullptr);
    CHECK(got->data == target.data() + i * Scene::bytes);
    CHECK(got->data[Scene::bytes - 1] == static_cast<std::byte>(i + 1));
    CHECK(scene.kernel.reads == i / slots::copies_max + 1);
    CHECK(scene.sender.released() == static_cast<std::uint64_t>(i / slots::copies_max * slots::copies_max));
    scene.receiver.release();
  }
  CHECK(scene.sender.released() == 20);
}

TEST_CASE("Lent messages land where they are named, unless they wait for a reply") {
  constexpr std::size_t bytes = Scene::bytes;
  const auto lend = [](Scene& scene, int index, MessageFlags flags) {
    std::memset(scene.message(index), index + 1, bytes);
    REQUIRE(scene.sender.reserve(bytes) != nullptr);
    REQUIRE(scene.sender.lend(scene.message(index), nullptr, bytes, {}, flags));
  };
  const auto take = [](Scene& scene, int index, const std::byte* place) {
    const Message* const got = scene.receiver.peek();
    REQUIRE(got != nullptr);
    CHECK(got->data[bytes - 1] == static_cast<std::byte>(index + 1));
    CHECK((got->data == place) == (place != nullptr));
    scene.receiver.release();
  };
  Scene scene;
  std::vector<std::byte> target(2 * bytes);
  CHECK(scene.receiver.lands_from() <= bytes);
  scene.receiver.land(target.data(), bytes, 0);
  scene.receiver.land(target.data() + bytes, bytes, 1);
  for (int i = 0; i < 3; ++i) lend(scene, i, {});
  take(scene, 0, target.data());
  take(scene, 1, target.data() + bytes);
  CHECK(scene.kernel.reads == 1);
  CHECK(scene.sender.released() == 2);
  take(scene, 2, nullptr);  // named for those before
  scene.receiver.land(target.data(), bytes - 1, 0);
  lend(scene, 3, {});
  take(scene, 3, nullptr);  // of another size
  scene.receiver.land(target.data(), bytes, 0);
  lend(scene, 4, {.raw = true});
  take(scene, 4, nullptr);
  scene.receiver.land(target.data(), bytes, 0);
  scene.lend(5);
  scene.answer(5);
  CHECK(scene.answered(5));
  CHECK(target[0] == static_cast<std::byte>(1));
}

namespace {

/// A run of more messages than there are headers, the last one shorter, and what its borrower takes of it.
struct RunScene : Scene {
  static constexpr std::size_t messages = 200, last_bytes = 7, run = (messages - 1) * bytes + last_bytes;

  RunScene() {
    for (std::size_t i = 0; i < run; ++i) source[i] = static_cast<std::byte>(i / bytes + 1);
    for (std::size_t i = 0; i < messages; ++i) {
      const std::size_t some = i + 1 < messages ? bytes : last_bytes;
      REQUIRE(sender.reserve(some) != nullptr);
      REQUIRE(sender.lend(source.data() + i * bytes, nullptr, some, {}, {.run = run - i * bytes}));
    }
    CHECK(sender.sent() == 1);
  }
  /// Takes message `i`, which may lie anywhere or, if `placed`, lies where it belongs.
  void take(std::size_t i, bool placed) {
    const Message* const got = receiver.peek();
    REQUIRE(got != nullptr);
    CHECK(got->bytes == (i + 1 < messages ? bytes : last_bytes));
    CHECK((got->data == target.data() + i * bytes) == placed);
    CHECK(got->data[got->bytes - 1] == static_cast<std::byte>(i + 1));
    CHECK(sender.released() == 0);
    receiver.release();
  }
  /// The link goes on behind it.
  void go_on() {
    CHECK(receiver.peek() == nullptr);
    CHECK(sender.released() == 1);
    lend(0);
    answer(0);
    CHECK(answered(0));
  }

  std::vector<std::byte> source = std::vector<std::byte>(run);
  std::vector<std::byte> target = std::vector<std::byte>(run);
};

}  // namespace

TEST_CASE("A run is lent by one header, and copied at once to where all of it lands") {
  RunScene scene;
  scene.receiver.land(scene.target.data(), Scene::bytes, 0, RunScene::run);
  for (std::size_t i = 0; i < RunScene::messages; ++i) {
    scene.take(i, true);
    CHECK(scene.kernel.reads == 1);
    CHECK(scene.receiver.landings_wanted() == (i + 1 < RunScene::messages ? 0 : slots::copies_max));
  }
  CHECK(scene.target == scene.source);
  scene.go_on();
}

TEST_CASE("A run of which some or nothing lands is copied as its messages are taken") {
  for (const std::size_t named : {std::size_t{0}, 3 * Scene::bytes}) {
    RunScene scene;
    if (named > 0) scene.receiver.land(scene.target.data(), Scene::bytes, 0, named);
    for (std::size_t i = 0; i < RunScene::messages; ++i) scene.take(i, i * Scene::bytes < named);
    scene.go_on();
  }
}

TEST_CASE("A run within a process is read where it is") {
  RunScene scene;
  slots::Receiver receiver{*scene.ring, scene.borrowing, scene.there};
  for (std::size_t i = 0; i < RunScene::messages; ++i) {
    REQUIRE(receiver.peek() != nullptr);
    CHECK(receiver.peek()->data == scene.source.data() + i * Scene::bytes);
    receiver.release();
  }
  CHECK(scene.kernel.reads == 0);
  CHECK(scene.sender.released() == 1);
}

namespace {

/// A link from a lender to a borrower that asks for large messages, each of one value; both share their copies.
struct SharedScene {
  static constexpr std::size_t bytes = 100'000;
  static constexpr int messages = 3;
  static_assert(messages * bytes > slots::SharedCopy::bytes_min);

  explicit SharedScene(bool to_others = false) {
    for (auto* peer : {&lending, &borrowing}) {
      peer->rank = peer == &lending ? 1 : 0;
      peer->doorbell = {&doorbell};
    }
    lending.lender = &lenders_kernel;
    borrowing.lender = &borrowers_kernel;
    lend_all(to_others);
  }
  void lend_all(bool to_others = false) {
    for (int i = 0; i < messages; ++i) {
      std::memset(memory.data() + i * bytes, i + 1, bytes);
      receiver.land(target.data() + i * bytes, bytes, i);
      REQUIRE(sender.reserve(bytes) != nullptr);
      REQUIRE(sender.lend(memory.data() + i * bytes, nullptr, bytes, {}, {.among_others = to_others}));
    }
  }
  void take_all() {
    for (int i = 0; i < messages; ++i) {
      const Message* const got = receiver.peek();
      REQUIRE(got != nullptr);
      CHECK(got->data == target.data() + i * bytes);
      receiver.release();
    }
    CHECK(target == memory);
    CHECK(sender.released() == messages);
    CHECK_FALSE(sender.help());
  }

  CopyingLender lenders_kernel, borrowers_kernel;
  DoorbellPage doorbell;
  slots::Peer lending, borrowing;
  slots::Acknowledged here, there;
  std::unique_ptr<slots::Ring> ring = std::make_unique<slots::Ring>();
  std::vector<std::byte> landing = std::vector<std::byte>(slots::rooms_max * limits::slot_bytes);
  std::vector<std::byte> memory = std::vector<std::byte>(messages * bytes);
  std::vector<std::byte> target = std::vector<std::byte>(messages * bytes);
  slots::Sender sender{*ring, lending, here};
  slots::Receiver receiver{*ring, borrowing, there, 0, landing.data()};
};

}  // namespace

TEST_CASE("A lender that has nothing else to do writes a part of what is copied") {
  SharedScene scene;
  CHECK_FALSE(scene.sender.help());  // nothing is asked for yet
  int helped = 0;
  scene.borrowers_kernel.meanwhile = [&] { helped += scene.sender.help(); };
  scene.take_all();
  CHECK(helped > 0);
  CHECK(scene.lenders_kernel.writes == helped);
  CHECK(scene.borrowers_kernel.reads > 1);
}

TEST_CASE("What the lender cannot write the borrower reads") {
  SharedScene scene;
  scene.lenders_kernel.reachable = false;
  scene.borrowers_kernel.meanwhile = [&] { (void)scene.sender.help(); };
  scene.take_all();
  CHECK(scene.lenders_kernel.writes == 1);  // not tried again
}

TEST_CASE("Where both lend, each writes what it lends, all at once") {
  SharedScene scene;
  scene.there.lends = true;
  for (int i = 0; i < 3; ++i) CHECK(scene.receiver.peek() == nullptr);
  CHECK_FALSE(scene.here.wrote_all);
  CHECK(scene.sender.help());
  CHECK(scene.here.wrote_all);
  scene.take_all();
  CHECK(scene.lenders_kernel.writes == 1);
  CHECK(scene.borrowers_kernel.reads == 0);
}

TEST_CASE("Where both lend, who has written its own reads what is left of the other's") {
  SharedScene scene;
  scene.there.lends = true;
  scene.there.wrote_all = true;  // as it did before it asked
  CHECK(scene.receiver.peek() == nullptr);
  CHECK_FALSE(scene.receiver.help());
  scene.there.wrote_all = true;
  CHECK(scene.receiver.help());
  CHECK(scene.borrowers_kernel.reads == 1);
  CHECK(scene.sender.help());
  scene.take_all();
  CHECK(scene.lenders_kernel.writes == 1);
  CHECK_FALSE(scene.receiver.help());
}

TEST_CASE("Where both lend little, each reads") {
  SharedScene scene;
  scene.there.lends = true;
  scene.receiver.land(scene.target.data() + SharedScene::bytes, SharedScene::bytes, 1);  // and no more
  static_assert(2 * SharedScene::bytes < slots::SharedCopy::crossing_bytes_min);
  static_assert(SharedScene::messages * SharedScene::bytes > slots::SharedCopy::crossing_bytes_min);
  CHECK(scene.receiver.peek() != nullptr);
  CHECK(scene.borrowers_kernel.reads == 1);
  CHECK_FALSE(scene.sender.help());
}

TEST_CASE("Where both lend, and ranks share cores, each reads") {
  SharedScene scene;
  scene.there.lends = true;
  scene.borrowing.has_core = false;
  scene.take_all();
  CHECK(scene.borrowers_kernel.reads == 1);
  CHECK(scene.lenders_kernel.writes == 0);
}

TEST_CASE("Where ranks share cores, who lends to anybody reads alone what it borrows") {
  for (const int links : {0, 1}) {
    SharedScene scene;
    std::atomic<int> busy{links};
    scene.borrowing.has_core = false;
    scene.borrowing.busy = &busy;
    CHECK(scene.receiver.peek() != nullptr);
    CHECK((scene.borrowers_kernel.reads == 1) == (links > 0));
  }
}

TEST_CASE(
    "Where ranks share cores, who borrows from one that lends to others reads alone; with a core each both copy") {
  for (const bool has_core : {false, true}) {
    for (const bool to_others : {false, true}) {
      SharedScene scene(to_others);
      scene.borrowing.has_core = has_core;
      scene.borrowers_kernel.meanwhile = [&] { (void)scene.sender.help(); };
      CHECK((scene.receiver.peek() != nullptr || scene.receiver.peek() != nullptr));
      CHECK((scene.lenders_kernel.writes == 0) == (to_others && !has_core));
    }
  }
}

TEST_CASE("Where ranks share cores, who lends in turn with its lender reads alone, and shares again once it does not") {
  SharedScene scene;
  scene.borrowing.has_core = false;
  scene.there.lent_last = true;
  scene.borrowers_kernel.meanwhile = [&] { (void)scene.sender.help(); };
  scene.take_all();
  CHECK(scene.lenders_kernel.writes == 0);
  CHECK(scene.here.lent_last);  // so that the lender reads alone, too, should it borrow next
  scene.lend_all();
  CHECK((scene.receiver.peek() != nullptr || scene.receiver.peek() != nullptr));
  CHECK(scene.lenders_kernel.writes > 0);
}

TEST_CASE("A link counts as busy from a lend to its release, or to its end") {
  std::atomic<int> busy{0};
  for (const bool ends : {false, true}) {
    Scene scene;
    scene.lending.busy = &busy;
    scene.lend(0);
    scene.lend(1);
    CHECK(busy == 1);
    if (ends) continue;
    for (int i = 0; i < 2; ++i) scene.answer(i);
    CHECK(scene.sender.released() == 2);
    CHECK(busy == 0);
  }
  CHECK(busy == 0);
}

TEST_CASE("Where both lend, and one can't write, the other reads") {
  SharedScene scene;
  scene.there.lends = true;
  scene.lenders_kernel.reachable = false;
  CHECK(scene.receiver.peek() == nullptr);
  (void)scene.sender.help();
  scene.take_all();
  CHECK(scene.lenders_kernel.writes == 1);
  CHECK(scene.borrowers_kernel.reads == 1);
}

TEST_CASE("Where both lend a run, and one can't write its first part, the other reads all") {
  SharedScene scene;
  scene.there.lends = true;
  CHECK(scene.receiver.peek() == nullptr);
  CHECK(scene.sender.help());
  scene.take_all();
  constexpr std::size_t messages = 30, run = messages * SharedScene::bytes;
  std::vector<std::byte> memory(run), target(run);
  for (std::size_t i = 0; i < run; ++i) memory[i] = static_cast<std::byte>(i * 2654435761u >> 24);
  for (std::size_t at = 0; at < run; at += SharedScene::bytes) {
    REQUIRE(scene.sender.reserve(SharedScene::bytes) != nullptr);
    REQUIRE(scene.sender.lend(memory.data() + at, nullptr, SharedScene::bytes, {}, {.run = run - at}));
  }
  scene.receiver.land(target.data(), SharedScene::bytes, 0, run);
  CHECK(scene.receiver.peek() == nullptr);
  scene.lenders_kernel.reachable = false;
  CHECK(scene.sender.help());
  CHECK_FALSE(scene.here.wrote_all);  // it took a part
  for (std::size_t i = 0; i < messages; ++i) {
    REQUIRE(scene.receiver.peek() != nullptr);
    scene.receiver.release();
  }
  CHECK(std::memcmp(memory.data(), target.data(), run) == 0);
}

TEST_CASE("What is left to the lender and given up is written no more") {
  SharedScene scene;
  scene.there.lends = true;
  CHECK(scene.receiver.peek() == nullptr);
  scene.receiver.stop();
  CHECK_FALSE(scene.sender.help());
  CHECK(scene.lenders_kernel.writes == 0);
}

TEST_CASE("A copy that is given up is written no more") {
  SharedScene scene;
  scene.borrowers_kernel.meanwhile = [&] {
    scene.receiver.stop();  // as if the call failed
    CHECK_FALSE(scene.sender.help());
  };
  (void)scene.receiver.peek();
  CHECK(scene.lenders_kernel.writes == 0);
}

TEST_CASE("A lender that reads what it lends writes behind that, from the front") {
  SharedScene scene;
  scene.there.lends = true;
  CHECK(scene.sender.may_be_asked());
  CHECK(scene.receiver.peek() == nullptr);
  CHECK_FALSE(scene.sender.may_be_asked());
  const auto written = [&] {
    return std::ranges::count_if(scene.target, [](std::byte b) { return b != std::byte{0}; });
  };
  scene.sender.follow(128);
  CHECK(written() == 128);
  CHECK(std::memcmp(scene.target.data(), scene.memory.data(), 128) == 0);
  scene.sender.follow(128);
  CHECK(scene.lenders_kernel.writes == 1);
  CHECK_FALSE(scene.here.wrote_all);
  SECTION("to the end") {
    scene.sender.follow(SharedScene::messages * SharedScene::bytes);
    CHECK(scene.lenders_kernel.writes == 2);
    CHECK(scene.here.wrote_all);
  }
  SECTION("and the rest from the back") { CHECK(scene.sender.help()); }
  SECTION("and some is read") {
    scene.there.wrote_all = true;
    CHECK(scene.receiver.help());
    CHECK(scene.sender.help());
  }
  SECTION("until it can't write") {
    scene.there.wrote_all = true;
    CHECK(scene.receiver.help());
    scene.lenders_kernel.reachable = false;
    CHECK(scene.sender.help());
  }
  scene.take_all();
}
