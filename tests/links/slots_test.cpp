// Which slots messages go to: answers go to the slot that was read, those that were asked for lie where the question
// lay, a rank always has all its slots but one, and short messages of which none is answered lie side by side.
#include "transports/slots.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
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
std::byte* send(Pair& pair, int rank, int value, std::size_t size = bytes, bool asks = false) {
  std::byte* const room = pair.send_end(rank).reserve(size);
  REQUIRE(room != nullptr);
  std::memset(room, value, size);
  pair.send_end(rank).commit(size, {}, {false, asks});
  return room;
}

bool holds(const Message& message, std::size_t size, int value) {
  const auto same = [&](std::byte b) { return b == static_cast<std::byte>(value); };
  return message.bytes == size && std::all_of(message.data, message.data + size, same);
}

/// Receives a message and releases it; where its bytes were.
const std::byte* receive(Pair& pair, int rank, int value, std::size_t size = bytes) {
  const Message* const message = pair.receive_end(rank).peek();
  REQUIRE(message != nullptr);
  CHECK(holds(*message, size, value));
  const std::byte* const data = message->data;
  pair.receive_end(rank).release();
  return data;
}

/// Receives a message that asks, and answers it with one more; where its bytes were, and the answer is.
const std::byte* answer(Pair& pair, int rank, int value, std::size_t size) {
  const Message* const message = pair.receive_end(rank).peek();
  REQUIRE(message != nullptr);
  REQUIRE(message->offers_reply);
  CHECK(holds(*message, size, value));
  std::byte* const room = pair.send_end(rank).reserve_answer(*message);
  REQUIRE(room != nullptr);
  if (size > slots::packed_bytes_max) CHECK(room == message->data);
  std::memset(room, value + 1, size);
  pair.receive_end(rank).release();
  pair.send_end(rank).commit(size, {}, {});
  return room;
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
        if (round > 0) CHECK(filled[rank] == read[rank]);  // none answered the first ones
      }
    }
  }
}

TEST_CASE("Who answers fills the slot that it read, and one slot serves for ever") {
  for (const std::uint64_t first : starts) {
    const auto pair = links::slots_pair(first);
    const std::byte* read = nullptr;
    for (int number = 0; number < 100; ++number) {
      const std::byte* const filled = send(*pair, number % 2, number);
      if (number > 2) CHECK(filled == read);
      read = receive(*pair, 1 - number % 2, number);
      CHECK(read == filled);
    }
  }
}

TEST_CASE("A slot that was given is its receiver's, and one at the most is") {
  const std::size_t size = limits::slot_bytes;
  for (const std::uint64_t first : starts) {
    const auto pair = links::slots_pair(first);
    send(*pair, 0, 1, size);
    receive(*pair, 1, 1, size);
    const std::byte* const given = send(*pair, 1, 2, size);  // an answer: given
    CHECK(receive(*pair, 0, 2, size) == given);
    // Rank 1 sees its message released, and yet one slot less is its own, as long as nothing comes back.
    for (int round = 0; round < 3; ++round) {
      for (int i = 1; i < limits::credits; ++i) CHECK(send(*pair, 1, i, size) != given);
      CHECK(pair->send_end(1).reserve(size) == nullptr);
      for (int i = 1; i < limits::credits; ++i) receive(*pair, 0, i, size);
    }
    // Rank 0 has one slot more, and fills it first; it gives that back.
    CHECK(send(*pair, 0, 10, size) == given);
    for (int i = 0; i < limits::credits; ++i) CHECK(send(*pair, 0, 11 + i, size) != given);
    CHECK(pair->send_end(0).reserve(size) == nullptr);
    for (int i = 0; i <= limits::credits; ++i) receive(*pair, 1, 10 + i, size);
    CHECK(send(*pair, 1, 20, size) == given);
  }
}

TEST_CASE("Who has read a slot stores to each of its lines where they are taken, but to none that is given") {
  const auto stored = [](const std::byte* data, std::size_t size, int value) {
    std::size_t lines = 0;
    for (std::size_t at = 0; at < size; at += limits::cache_line_bytes)
      lines += data[at] != static_cast<std::byte>(value);
    return lines;
  };
  for (const bool takes_lines : {false, true}) {
    const auto pair = links::slots_pair(0, takes_lines);
    for (const std::size_t size : {std::size_t{200}, bytes, limits::slot_bytes}) {
      const std::size_t lines = (size + limits::cache_line_bytes - 1) / limits::cache_line_bytes;
      send(*pair, 0, 1, size);
      send(*pair, 0, 2, size);
      CHECK(stored(receive(*pair, 1, 1, size), size, 1) == (takes_lines ? lines : 0));
      CHECK(stored(receive(*pair, 1, 2, size), size, 2) == (takes_lines ? lines : 0));
    }
    send(*pair, 1, 3);  // an answer: given
    CHECK(stored(receive(*pair, 0, 3), bytes, 3) == 0);
  }
}

TEST_CASE("Who is asked answers in the slot of the question, and both have all their slots when that has come") {
  const std::size_t size = limits::slot_bytes;
  for (const std::uint64_t first : starts) {
    const auto pair = links::slots_pair(first);
    for (int round = 0; round < 50; ++round) {
      const std::byte* asked[2][limits::slices_max];
      for (int rank : {0, 1}) {
        for (int i = 0; i < limits::slices_max; ++i) {
          asked[rank][i] = send(*pair, rank, 10 * rank + i, size, true);
        }
      }
      for (int rank : {0, 1}) {
        for (int i = 0; i < limits::slices_max; ++i) {
          CHECK(answer(*pair, rank, 10 * (1 - rank) + i, size) == asked[1 - rank][i]);
        }
      }
      for (int rank : {0, 1}) {
        for (int i = 0; i < limits::slices_max; ++i) {
          CHECK(receive(*pair, rank, 10 * rank + i + 1, size) == asked[rank][i]);
        }
      }
    }
    for (int rank : {0, 1}) {
      for (int i = 0; i < limits::credits; ++i) send(*pair, rank, i, size);
    }
  }
}

TEST_CASE("Short messages of which none is answered lie side by side, as many as there are headers") {
  for (const std::uint64_t first : starts) {
    const auto pair = links::slots_pair(first);
    for (int round = 0; round < 5; ++round) {
      std::vector<const std::byte*> used;
      while (pair->send_end(0).reserve(1500) != nullptr) {
        used.push_back(send(*pair, 0, static_cast<int>(used.size()), 1500));
      }
      CHECK(pair->send_end(0).reserve(8) == nullptr);
      // Of the last ones that were released the sender may not have heard.
      CHECK(used.size() + slots::releases_untold_max > limits::headers);
      for (std::size_t i = 0; i < used.size(); ++i) receive(*pair, 1, static_cast<int>(i), 1500);
      std::sort(used.begin(), used.end());
      for (std::size_t i = 1; i < used.size(); ++i) CHECK(used[i] - used[i - 1] >= 1500);
    }
    // Long ones have a slot each, but for what the sender has not heard of.
    for (int number = 1; number < limits::credits; ++number) send(*pair, 0, number, limits::slot_bytes);
  }
}

TEST_CASE("Whatever was sent and released, a rank has room for all its slots but one") {
  for (std::uint64_t seed = 0; seed < 9; ++seed) {
    simulated::Random random(seed);
    const auto pair = links::slots_pair(starts[seed % std::size(starts)]);
    const auto size = [&]() -> std::size_t {
      const std::uint64_t kind = random.below(4);
      if (kind == 0) return random.below(limits::inline_bytes + 1);
      return kind == 3 ? limits::slot_bytes - random.below(9) : random.below(9000);
    };
    struct Sent {
      std::size_t bytes;
      bool asks, answers;
    };
    std::vector<Sent> under_way[2];  // from each rank, the oldest first
    const auto holds_room = [](const Sent& sent) { return !sent.answers; };
    const auto answers = [](const Sent& sent) { return sent.answers; };
    for (int turn = 0; turn < 500; ++turn) {
      const int rank = static_cast<int>(random.below(2));
      std::vector<Sent>&going = under_way[rank], &coming = under_way[1 - rank];
      if (random.percent(50)) {
        const std::size_t next = size();
        const bool asks = next > slots::packed_bytes_max && random.percent(50);
        const auto held = std::count_if(going.begin(), going.end(), holds_room) +
                          std::count_if(coming.begin(), coming.end(), answers);
        const bool room = pair->send_end(rank).reserve(next) != nullptr;
        if (held < limits::credits - 1) REQUIRE(room);
        if (!room) continue;
        send(*pair, rank, static_cast<int>(next), next, asks);
        going.push_back({next, asks, false});
      } else if (!coming.empty()) {
        const Sent sent = coming.front();
        coming.erase(coming.begin());
        if (sent.asks) {
          answer(*pair, rank, static_cast<int>(sent.bytes), sent.bytes);
          going.push_back({sent.bytes, false, true});
        } else {
          receive(*pair, rank, static_cast<int>(sent.bytes) + (sent.answers ? 1 : 0), sent.bytes);
        }
      }
    }
  }
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
    CHECK(holds(*message, bytes, number));
    receiver.release();
  }
}

// ThreadSanitizer, told an address of another process, looked up what this one was just unmapping.
TEST_CASE("A ring may have been made where this process has memory that comes and goes") {
  const auto ring = std::make_unique<slots::Ring>();
  constexpr std::size_t area_bytes = 1u << 20;
  const auto map = [](void* at) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at == nullptr ? 0 : MAP_FIXED_NOREPLACE);
    return ::mmap(at, area_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  };
  void* const area = map(nullptr);
  REQUIRE(area != MAP_FAILED);
  ring->messages_key = ring->releases_key = reinterpret_cast<std::uintptr_t>(area) + 2 * limits::cache_line_bytes;
  std::atomic<bool> done{false};
  bool mapped = true;
  std::thread other([&] {
    for (int round = 0; round < 3'000 && mapped; ++round) mapped = ::munmap(area, area_bytes) == 0 && map(area) == area;
    done = true;
  });
  DoorbellPage doorbell;
  slots::Peer peer;
  peer.doorbell = {&doorbell};
  slots::Acknowledged acknowledged;
  slots::Sender sender(*ring, peer, acknowledged);
  std::uint64_t released = 0;
  while (!done) released += sender.released();
  other.join();
  CHECK(released == 0);
  CHECK(mapped);
  ::munmap(area, area_bytes);
}
