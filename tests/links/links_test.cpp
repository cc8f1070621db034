// One conformance suite for every kind of link: order, sizes, credits, lending, replies, departure, death, abort.
#define CATCH_CONFIG_MAIN
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>

#include "pair.h"
#include "transports/simulated.h"

using rondo::Code;
using rondo::Message;
using rondo::Signature;
using namespace links;

namespace {

std::vector<std::byte> content(std::size_t bytes, std::uint64_t number) {
  rondo::simulated::Random random(number);
  std::vector<std::byte> data(bytes);
  for (std::byte& b : data) b = static_cast<std::byte>(random.next());
  return data;
}

Signature signature(std::uint64_t number) {
  return {number * 3, static_cast<std::uint32_t>(number), 1, 2, static_cast<std::uint8_t>(number), 4};
}

const Message* await(Pair& pair, int rank) {
  for (int tries = 0; tries < 100'000; ++tries) {
    if (const Message* message = pair.receive_end(rank).peek()) return message;
    pair.pass();
  }
  return nullptr;
}

/// Why no further message comes; success if one does.
rondo::Status await_end(Pair& pair, int rank) {
  for (int tries = 0; tries < 100'000 && pair.receive_end(rank).peek() == nullptr; ++tries) {
    if (const rondo::Status status = pair.receive_end(rank).status(); !status.ok()) return status;
    pair.pass();
  }
  return {};
}

std::byte* await_room(Pair& pair, int rank, std::size_t bytes) {
  for (int tries = 0; tries < 100'000; ++tries) {
    if (std::byte* room = pair.send_end(rank).reserve(bytes)) return room;
    pair.pass();
  }
  return nullptr;
}

void send(Pair& pair, int rank, std::size_t bytes, std::uint64_t number, rondo::MessageFlags flags = {}) {
  std::byte* const room = await_room(pair, rank, bytes);
  REQUIRE(room != nullptr);
  const auto data = content(bytes, number);
  if (bytes > 0) std::memcpy(room, data.data(), bytes);
  pair.send_end(rank).commit(bytes, signature(number), flags);
}

bool holds(const Message& message, std::size_t bytes, std::uint64_t number) {
  const auto data = content(bytes, number);
  return message.bytes == bytes && message.signature == signature(number) &&
         (bytes == 0 || std::memcmp(message.data, data.data(), bytes) == 0);
}

/// Lends once the link grants it; declined lends go as copies, and are received and dropped at once.
bool lend_at_last(Pair& pair, int rank, const std::byte* source, std::byte* reply, std::size_t bytes) {
  for (int tries = 0; tries < 100; ++tries) {
    std::byte* const room = await_room(pair, rank, bytes);
    if (room == nullptr) return false;
    const rondo::MessageFlags flags{true, reply != nullptr};
    if (pair.send_end(rank).lend(source, reply, bytes, signature(1), flags)) return true;
    if (bytes > 0) std::memcpy(room, source, bytes);
    pair.send_end(rank).commit(bytes, signature(1), flags);
    const Message* const message = await(pair, 1 - rank);
    if (message == nullptr || message->lent) return false;
    pair.receive_end(1 - rank).release();
    pair.pass();
  }
  return false;
}

#define FOR_EACH_KIND                                         \
  for (const Kind& kind : kinds()) DYNAMIC_SECTION(kind.name) \
  if (const auto pair = kind.make(); pair != nullptr)

}  // namespace

TEST_CASE("Messages of every size arrive in order, with signature and flags") {
  FOR_EACH_KIND {
    const std::size_t most = pair->send_end(0).slot_bytes();
    const std::size_t sizes[] = {0, 1, 8, 39, 40, 41, 64, 1000, most - 1, most, 0, 40};
    std::uint64_t number = 0;
    for (int round = 0; round < 6; ++round) {
      for (const std::size_t bytes : sizes) {
        const int rank = static_cast<int>(number % 2);
        send(*pair, rank, bytes, number, {false, number % 3 == 0});
        const Message* const message = await(*pair, 1 - rank);
        REQUIRE(message != nullptr);
        CHECK(holds(*message, bytes, number));
        CHECK_FALSE(message->lent);
        CHECK_FALSE(message->raw);
        CHECK(message->reply == nullptr);
        CHECK(message->offers_reply == (number % 3 == 0));
        CHECK(pair->receive_end(1 - rank).peek() == message);
        pair->receive_end(1 - rank).release();
        CHECK(pair->receive_end(1 - rank).peek() == nullptr);
        ++number;
      }
    }
  }
}

TEST_CASE("A full link gives no room until the receiver releases") {
  FOR_EACH_KIND {
    if (!kind.shares) continue;
    rondo::SendEnd& sender = pair->send_end(0);
    const std::uint64_t before = sender.sent();
    const int capacity = sender.capacity();
    const std::size_t bytes = sender.slot_bytes();
    for (int round = 0; round < 10; ++round) {
      for (int i = 0; i < capacity; ++i) send(*pair, 0, bytes, i);
      for (int i = 0; i < 20; ++i) pair->pass();
      CHECK(sender.reserve(bytes) == nullptr);
      CHECK(sender.sent() - sender.released() == static_cast<std::uint64_t>(capacity));
      for (int i = 0; i < capacity; ++i) {
        const Message* const message = await(*pair, 1);
        REQUIRE(message != nullptr);
        CHECK(holds(*message, bytes, i));
        pair->receive_end(1).release();
        std::byte* const room = await_room(*pair, 0, bytes);
        REQUIRE(room != nullptr);
        CHECK(sender.reserve(bytes) == room);
      }
    }
    CHECK(sender.sent() - before == static_cast<std::uint64_t>(10 * capacity));
    while (sender.released() != sender.sent()) pair->pass();
  }
}

TEST_CASE("Small messages may go on where large ones have no slot, and are bounded, too") {
  FOR_EACH_KIND {
    if (!kind.shares) continue;
    rondo::SendEnd& sender = pair->send_end(0);
    const auto size = [&](int number) { return number < sender.capacity() ? sender.slot_bytes() : number % 9u; };
    for (int round = 0; round < 5; ++round) {
      int sent = 0;
      for (; sent < sender.capacity(); ++sent) send(*pair, 0, size(sent), sent);
      for (; sent < 1000 && sender.reserve(size(sent)) != nullptr; ++sent) send(*pair, 0, size(sent), sent);
      CHECK(sent >= sender.capacity());
      CHECK(sent < 1000);
      CHECK(sender.reserve(100) == nullptr);
      for (int number = 0; number < sent; ++number) {
        const Message* const message = await(*pair, 1);
        REQUIRE(message != nullptr);
        CHECK(holds(*message, size(number), number));
        pair->receive_end(1).release();
      }
      CHECK(await_room(*pair, 0, 100) != nullptr);
    }
  }
}

TEST_CASE("Both directions at once, in random order") {
  FOR_EACH_KIND {
    rondo::simulated::Random random(3);
    std::uint64_t sent[2] = {}, received[2] = {};
    const auto size = [](std::uint64_t number) { return number * 37 % 3000; };
    for (int turn = 0; turn < 6000; ++turn) {
      const int rank = static_cast<int>(random.below(2));
      if (random.percent(50)) {
        const std::size_t bytes = size(sent[rank]);
        std::byte* const room = pair->send_end(rank).reserve(bytes);
        if (room == nullptr) continue;
        const auto data = content(bytes, sent[rank]);
        if (bytes > 0) std::memcpy(room, data.data(), bytes);
        pair->send_end(rank).commit(bytes, signature(sent[rank]++), {});
      } else if (const Message* message = pair->receive_end(rank).peek()) {
        REQUIRE(holds(*message, size(received[1 - rank]), received[1 - rank]));
        ++received[1 - rank];
        pair->receive_end(rank).release();
      } else {
        pair->pass();
      }
    }
    CHECK(received[0] > 500);
    CHECK(received[1] > 500);
  }
}

TEST_CASE("Lent memory is read in place, and the reply is stored where the lender said") {
  FOR_EACH_KIND {
    if (!kind.shares) continue;
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{4096}, std::size_t{40'000}}) {
      std::byte* const memory = pair->lendable(0, 200'000);
      const auto data = content(bytes, 1);
      std::memcpy(memory + 100, data.data(), bytes);
      REQUIRE(lend_at_last(*pair, 0, memory + 100, memory + 100'000, bytes));
      const Message* const message = await(*pair, 1);
      REQUIRE(message != nullptr);
      CHECK(holds(*message, bytes, 1));
      CHECK(message->lent);
      CHECK(message->raw);
      CHECK(message->offers_reply);
      REQUIRE(message->reply != nullptr);
      const auto answer = content(bytes, 2);
      std::memcpy(message->reply, answer.data(), bytes);
      CHECK(pair->send_end(0).released() < pair->send_end(0).sent());
      pair->receive_end(1).release();
      while (pair->send_end(0).released() != pair->send_end(0).sent()) pair->pass();
      CHECK(std::memcmp(memory + 100'000, answer.data(), bytes) == 0);
      CHECK(std::memcmp(memory + 100, data.data(), bytes) == 0);
      REQUIRE(lend_at_last(*pair, 0, memory + 100, nullptr, bytes));
      REQUIRE(await(*pair, 1) != nullptr);
      CHECK_FALSE(await(*pair, 1)->offers_reply);
      CHECK(await(*pair, 1)->reply == nullptr);
      pair->receive_end(1).release();
      while (pair->send_end(0).released() != pair->send_end(0).sent()) pair->pass();
      pair->give_back(memory);
      pair->pass();
    }
  }
}

TEST_CASE("A lend in place: the reply goes where the source was") {
  FOR_EACH_KIND {
    if (!kind.shares) continue;
    constexpr std::size_t bytes = 20'000;
    std::byte* const memory = pair->lendable(1, bytes);
    for (std::uint64_t round = 0; round < 5; ++round) {
      const auto data = content(bytes, 1);
      std::memcpy(memory, data.data(), bytes);
      REQUIRE(lend_at_last(*pair, 1, memory, memory, bytes));
      const Message* const message = await(*pair, 0);
      REQUIRE(message != nullptr);
      REQUIRE(holds(*message, bytes, 1));
      for (std::size_t i = 0; i < bytes; ++i) message->reply[i] = ~message->data[i];
      pair->receive_end(0).release();
      while (pair->send_end(1).released() != pair->send_end(1).sent()) pair->pass();
      bool right = true;
      for (std::size_t i = 0; i < bytes; ++i) right &= memory[i] == ~data[i];
      CHECK(right);
    }
  }
}

TEST_CASE("A link that copies sends from where the bytes are, declines to lend, and queues no more than it may") {
  FOR_EACH_KIND {
    if (kind.shares) continue;
    rondo::SendEnd& sender = pair->send_end(0);
    const std::size_t bytes = sender.slot_bytes();
    constexpr auto capacity = static_cast<std::uint64_t>(rondo::limits::headers);
    std::uint64_t sent = 0;
    std::vector<std::vector<std::byte>> sources;
    for (std::uint64_t number = 0; number < 16; ++number) sources.push_back(content(bytes, number));
    constexpr std::uint64_t many = 10'000;  // 1 GiB: more than the kernel keeps for 8 sockets, however it tunes them
    // Nobody receives: the kernel's buffers fill up, then the headers.
    for (; sent < many && sender.reserve(bytes) != nullptr; ++sent) {
      const std::uint64_t number = sent % sources.size();
      const std::byte* const source = sources[number].data();
      CHECK_FALSE(sender.lend(source, nullptr, bytes, signature(number), {}));
      REQUIRE(sender.send_from(source, bytes, signature(number), {true, true}));
      CHECK(sender.sent() - sender.released() <= capacity);
    }
    CHECK(sent > capacity);
    CHECK(sent < many);
    CHECK_FALSE(sender.flush());
    for (std::uint64_t number = 0; number < sent; ++number) {
      const Message* const message = await(*pair, 1);
      REQUIRE(message != nullptr);
      CHECK(holds(*message, bytes, number % sources.size()));
      CHECK(message->raw);
      CHECK(message->offers_reply);
      pair->receive_end(1).release();
    }
    CHECK(sender.flush());
    CHECK(sender.released() == sender.sent());
  }
}

TEST_CASE("The ends of a dead rank's peer say so, and what had arrived is still there") {
  FOR_EACH_KIND {
    send(*pair, 0, 100, 1);
    REQUIRE(await(*pair, 1) != nullptr);
    CHECK(pair->receive_end(1).status().ok());
    CHECK(pair->send_end(1).status().ok());
    pair->kill(0);
    for (int i = 0; i < 1000; ++i) pair->pass();
    CHECK(pair->send_end(1).status().code == Code::remote_error);
    const Message* const message = pair->receive_end(1).peek();
    REQUIRE(message != nullptr);
    CHECK(holds(*message, 100, 1));
    pair->receive_end(1).release();
    const rondo::Status end = await_end(*pair, 1);
    CHECK(end.code == Code::remote_error);
    CHECK(end.peer == 0);
  }
}

TEST_CASE("What a rank sent before it left arrives, all of it, and then its end") {
  FOR_EACH_KIND {
    rondo::SendEnd& sender = pair->send_end(0);
    const std::size_t bytes = sender.slot_bytes();
    const auto capacity = static_cast<std::uint64_t>(sender.capacity());
    for (std::uint64_t number = 0; number < capacity; ++number) send(*pair, 0, bytes, number);
    for (int i = 0; i < 1000 && !sender.flush(); ++i) pair->pass();
    REQUIRE(sender.flush());
    pair->leave(0);
    for (std::uint64_t number = 0; number < capacity; ++number) {
      const Message* const message = await(*pair, 1);
      REQUIRE(message != nullptr);
      CHECK(holds(*message, bytes, number));
      pair->receive_end(1).release();
    }
    CHECK(await_end(*pair, 1).code == Code::remote_error);
    CHECK(pair->send_end(1).status().code == Code::remote_error);
    CHECK(pair->receive_end(1).peek() == nullptr);
  }
}

TEST_CASE("A copy that is sent is of the bytes as they were") {
  FOR_EACH_KIND {
    rondo::SendEnd& sender = pair->send_end(0);
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, sender.slot_bytes()}) {
      for (std::uint64_t number = 0; number < 3 * static_cast<std::uint64_t>(sender.capacity()); ++number) {
        auto source = content(bytes, number);
        REQUIRE(await_room(*pair, 0, bytes) != nullptr);
        sender.send_copy(source.data(), bytes, signature(number), {true, false});
        std::fill(source.begin(), source.end(), std::byte{0xee});
        const Message* const message = await(*pair, 1);
        REQUIRE(message != nullptr);
        CHECK(holds(*message, bytes, number));
        CHECK(message->raw);
        pair->receive_end(1).release();
      }
    }
  }
}

TEST_CASE("A failure that another thread tells ends a wait at either end") {
  for (const Kind& kind : kinds()) {
    if (kind.name == "simulated") continue;  // one thread by contract
    DYNAMIC_SECTION(kind.name) {
      const auto pair = kind.make();
      std::thread teller([&] { pair->kill(0); });
      while (pair->receive_end(1).status().ok()) pair->receive_end(1).poll();
      while (pair->send_end(1).status().ok()) (void)pair->send_end(1).flush();
      teller.join();
      CHECK(pair->receive_end(1).status().code == Code::remote_error);
      CHECK(pair->send_end(1).status().peer == 0);
    }
  }
}

TEST_CASE("Two threads, one at each end") {
  for (const Kind& kind : kinds()) {
    if (kind.name == "simulated") continue;  // one thread by contract
    DYNAMIC_SECTION(kind.name) {
      const auto pair = kind.make();
      constexpr std::uint64_t count = 20'000;
      const auto size = [](std::uint64_t number) { return number % 7 == 0 ? number % 5000 : number % 64; };
      bool right = true;
      std::thread receiver([&] {
        for (std::uint64_t i = 0; i < count; ++i) {
          const Message* message = nullptr;
          while ((message = pair->receive_end(1).peek()) == nullptr) std::this_thread::yield();
          right &= holds(*message, size(i), i);
          pair->receive_end(1).release();
        }
      });
      for (std::uint64_t i = 0; i < count; ++i) {
        const auto data = content(size(i), i);
        std::byte* room = nullptr;
        while ((room = pair->send_end(0).reserve(size(i))) == nullptr) std::this_thread::yield();
        if (!data.empty()) std::memcpy(room, data.data(), data.size());
        pair->send_end(0).commit(size(i), signature(i), {});
      }
      receiver.join();
      CHECK(right);
    }
  }
}
