// Slots that change hands: where messages cross, each receiver keeps the slot that it read and fills it next; where
// they don't, and while one is still to be read, every slot stays with its sender.
#include "transports/slots.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "pair.h"
#include "transports/simulated.h"

namespace {

using namespace rondo;
using links::Pair;

constexpr std::size_t bytes = 4096;

/// Sends a message full of `value`; where its bytes are.
std::byte* send(Pair& pair, int rank, int value) {
  std::byte* const room = pair.send_end(rank).reserve(bytes);
  REQUIRE(room != nullptr);
  std::memset(room, value, bytes);
  pair.send_end(rank).commit(bytes, {}, {});
  return room;
}

bool holds(const std::byte* data, int value) {
  return std::all_of(data, data + bytes, [&](std::byte b) { return b == static_cast<std::byte>(value); });
}

/// Receives a message and releases it; where its bytes were.
const std::byte* receive(Pair& pair, int rank, int value) {
  const Message* const message = pair.receive_end(rank).peek();
  REQUIRE(message != nullptr);
  CHECK(holds(message->data, value));
  const std::byte* const data = message->data;
  pair.receive_end(rank).release();
  return data;
}

const std::uint64_t starts[] = {0, 1000, (std::uint64_t{1} << 32) - 3};

}  // namespace

TEST_CASE("Who exchanges messages fills the slot that it read last, and two slots serve for ever") {
  for (const std::uint64_t first : starts) {
    const auto pair = links::slots_pair(first);
    const std::byte* filled[2] = {send(*pair, 0, 1), send(*pair, 1, 2)};
    for (int round = 0; round < 100; ++round) {
      const std::byte* read[2] = {receive(*pair, 0, 2 * round + 2), receive(*pair, 1, 2 * round + 1)};
      CHECK(read[0] == filled[1]);
      CHECK(read[1] == filled[0]);
      for (int rank = 0; rank < 2; ++rank) {
        filled[rank] = send(*pair, rank, 2 * round + 3 + rank);
        CHECK(filled[rank] == read[rank]);
      }
    }
  }
}

TEST_CASE("A slot that was given is not filled before the one for it is read") {
  for (const std::uint64_t first : starts) {
    const auto pair = links::slots_pair(first);
    const std::byte* const given = send(*pair, 0, 1);
    const std::byte* const taken = send(*pair, 1, 2);
    CHECK(receive(*pair, 1, 1) == given);  // released, and kept
    CHECK(pair->send_end(0).released() == pair->send_end(0).sent());
    CHECK(send(*pair, 1, 3) == given);
    // Rank 0 sees its message released, and yet one slot less is its own.
    for (int i = 1; i < limits::credits; ++i) {
      CHECK(send(*pair, 0, 10 + i) != given);
      CHECK(pair->receive_end(1).peek() != nullptr);
    }
    CHECK(pair->send_end(0).reserve(bytes) == nullptr);
    CHECK(receive(*pair, 0, 2) == taken);
    CHECK(send(*pair, 0, 20) == taken);
    CHECK(receive(*pair, 0, 3) == given);
    for (int i = 1; i < limits::credits; ++i) receive(*pair, 1, 10 + i);
    receive(*pair, 1, 20);
  }
}

TEST_CASE("Slots stay where messages do not cross") {
  const auto pair = links::slots_pair(0);
  std::vector<const std::byte*> used[2];
  for (int round = 0; round < 40; ++round) {
    for (int rank = 0; rank < 2; ++rank) {
      used[rank].push_back(send(*pair, rank, round));
      receive(*pair, 1 - rank, round);
    }
  }
  for (auto& list : used) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  CHECK(used[0].size() == limits::credits);
  CHECK(used[1].size() == limits::credits);
  std::vector<const std::byte*> both;
  std::set_intersection(used[0].begin(), used[0].end(), used[1].begin(), used[1].end(), std::back_inserter(both));
  CHECK(both.empty());
}

TEST_CASE("Two threads that send and receive at random lose nothing") {
  for (const auto& make : {+[] { return links::slots_pair(7); }, +[] { return links::shm_pair(); }}) {
    const auto pair = make();
    constexpr std::uint64_t count = 20'000;
    const auto size = [](std::uint64_t number) { return number % 3 == 0 ? number % 40 : 41 + number * 37 % 3000; };
    bool right[2] = {true, true};
    const auto work = [&](int rank) {
      simulated::Random random(static_cast<std::uint64_t>(rank) + 1);
      std::uint64_t sent = 0, received = 0;
      while (sent < count || received < count) {
        const auto most = random.below(limits::credits + 2);
        for (std::uint64_t i = 0; i < most && sent < count; ++i) {
          std::byte* const room = pair->send_end(rank).reserve(size(sent));
          if (room == nullptr) break;
          std::memset(room, static_cast<int>(sent), size(sent));
          pair->send_end(rank).commit(size(sent), {}, {});
          ++sent;
        }
        for (auto i = random.below(limits::credits + 2); i > 0 && received < count; --i) {
          const Message* const message = pair->receive_end(rank).peek();
          if (message == nullptr) {
            std::this_thread::yield();
            break;
          }
          const auto wanted = static_cast<std::byte>(received);
          const auto same = [&](std::byte b) { return b == wanted; };
          right[rank] &=
              message->bytes == size(received) && std::all_of(message->data, message->data + message->bytes, same);
          pair->receive_end(rank).release();
          ++received;
        }
      }
    };
    std::thread other(work, 1);
    work(0);
    other.join();
    CHECK(right[0]);
    CHECK(right[1]);
  }
}

TEST_CASE("A rank's ring to itself keeps its slots") {
  const auto ring = std::make_unique<slots::Ring>();
  DoorbellPage doorbell;
  slots::Peer peer;
  peer.doorbell = {&doorbell};
  slots::Acknowledged acknowledged;
  slots::Sender sender(*ring, peer, acknowledged);
  slots::Receiver receiver(*ring, peer, acknowledged);
  for (int number = 0; number < 100; ++number) {
    std::byte* const room = sender.reserve(bytes);
    REQUIRE(room != nullptr);
    CHECK(room == ring->payloads[number % limits::credits]);
    std::memset(room, number, bytes);
    sender.commit(bytes, {}, {});
    const Message* const message = receiver.peek();
    REQUIRE(message != nullptr);
    CHECK(holds(message->data, number));
    receiver.release();
  }
}
