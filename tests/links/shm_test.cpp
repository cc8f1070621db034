// What is special to shared memory: the probe, lending by regions, two processes, and that nothing stays behind; and
// the table of regions itself.
#define CATCH_CONFIG_MAIN
#include "transports/shm.h"

#include <sys/wait.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/doorbell.h"
#include "base/result.h"
#include "pair.h"
#include "perf/links_wire.h"
#include "tests/process/denied.h"
#include "transports/regions.h"
#include "transports/shared_memory.h"
#include "wires.h"

using rondo::Code;
using rondo::Error;
using rondo::Frame;
using rondo::Message;
using rondo::Regions;
using namespace links;

namespace {

struct Held {
  long descriptors = 0;
  int mappings = 0;
  bool operator==(const Held&) const = default;
};

Held held() {
  namespace fs = std::filesystem;
  Held now{std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()), 0};
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) now.mappings += line.find("memfd:rondo") != std::string::npos;
  return now;
}

/// Sends `bytes` from `source`, lent if the link grants it; whether it did.
bool give(Pair& pair, const std::byte* source, std::size_t bytes) {
  std::byte* const room = pair.send_end(0).reserve(bytes);
  REQUIRE(room != nullptr);
  if (pair.send_end(0).lend(source, nullptr, bytes, {}, {})) return true;
  std::memcpy(room, source, bytes);
  pair.send_end(0).commit(bytes, {}, {});
  return false;
}

/// What give() sent is right; gives it back.
void take(Pair& pair, const std::byte* wanted, std::size_t bytes, bool lent) {
  const Message* const message = pair.receive_end(1).peek();
  REQUIRE(message != nullptr);
  CHECK(message->lent == lent);
  CHECK(message->bytes == bytes);
  CHECK(std::memcmp(message->data, wanted, bytes) == 0);
  pair.receive_end(1).release();
  pair.pass();
}

/// One connection that has sent its offer, and the frame.
struct Offer {
  rondo::Doorbell doorbells[2] = {rondo::Doorbell::create(), rondo::Doorbell::create()};
  QueueWire wires[2];
  std::unique_ptr<rondo::Transport> transports[2] = {rondo::make_shm_transport(doorbells[0]),
                                                     rondo::make_shm_transport(doorbells[1])};
  std::unique_ptr<rondo::Connection> first = transports[0]->open(1, true, wires[0]);
  std::unique_ptr<rondo::Connection> second = transports[1]->open(0, false, wires[1]);
  Frame frame;
  Offer() { REQUIRE(wires[0].take(frame)); }
};

}  // namespace

TEST_CASE("A region is lent once the peer has mapped it, and only whole ranges of it") {
  const auto pair = shm_pair();
  constexpr std::size_t bytes = 1000;  // too few to be worth a kernel copy: mapped or not at all
  std::byte* const memory = pair->lendable(0, 4096);
  std::memset(memory, 7, 4096);
  CHECK_FALSE(give(*pair, memory, bytes));
  CHECK_FALSE(give(*pair, memory, bytes));
  take(*pair, memory, bytes, false);
  take(*pair, memory, bytes, false);
  CHECK(give(*pair, memory + 4096 - bytes, bytes));
  take(*pair, memory + 4096 - bytes, bytes, true);

  // Memory of others, and ranges that begin or end outside, are declined.
  std::vector<std::byte> other(bytes, std::byte{3});
  CHECK_FALSE(give(*pair, other.data(), bytes));
  take(*pair, other.data(), bytes, false);
  Regions::Found found;
  CHECK_FALSE(Regions::instance().find(memory + 4096 - bytes, bytes + 1, found));
  CHECK_FALSE(Regions::instance().find(memory - 1, 2, found));
  CHECK(Regions::instance().find(memory, 4096, found));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which map more than any limit
TEST_CASE("A region that the peer has no room to map is never lent") {
  const auto pair = shm_pair();
  std::byte* const memory = pair->lendable(0, std::size_t{16} << 20);
  std::memset(memory, 7, 1000);
  CHECK_FALSE(give(*pair, memory, 1000));  // offers it
  {
    const rondo::test::Limit little(RLIMIT_AS, std::size_t{16} << 20);
    take(*pair, memory, 1000, false);
  }
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(give(*pair, memory, 1000));
    take(*pair, memory, 1000, false);
  }
  pair->give_back(memory);
  pair->pass();
}
#endif

TEST_CASE("A region's number is never 0, that of no region, however many there were") {
  std::uint32_t last = 0;
  while (Regions::generation_after(last) == last + 1) ++last;
  CHECK(last >= 4'000'000);
  const std::uint32_t slot = rondo::limits::regions_max - 1;
  CHECK(Regions::id_of(last, slot) > Regions::id_of(last - 1, slot));
  CHECK(Regions::slot_of(Regions::id_of(last, slot)) == slot);
  CHECK(Regions::id_of(Regions::generation_after(last), 0) == Regions::id_of(1, 0));
  CHECK(Regions::id_of(1, 0) > 0);
}

TEST_CASE("A freed region is forgotten, and its place serves the next") {
  const Held before = held();
  {
    const auto pair = shm_pair();
    for (int round = 0; round < 50; ++round) {
      std::byte* const memory = pair->lendable(0, 8192);
      std::memset(memory, round + 1, 8192);
      CHECK_FALSE(give(*pair, memory, 100));
      take(*pair, memory, 100, false);
      CHECK(give(*pair, memory + 100, 100));
      take(*pair, memory + 100, 100, true);
      pair->give_back(memory);
      pair->pass();
    }
    Regions::Found found;
    CHECK_FALSE(Regions::instance().find(&found, 1, found));
  }
  CHECK(held() == before);
}

TEST_CASE("Links are opened only where memory is proved to be shared") {
  {
    Offer o;
    o.frame.body[0] ^= std::byte{1};  // not what the segment holds
    CHECK_THROWS_AS(o.second->receive(o.frame), Error);
    CHECK_FALSE(o.second->ready());
  }
  {
    Offer o;
    o.frame.body.pop_back();
    CHECK_THROWS_AS(o.second->receive(o.frame), Error);
  }
  {
    Offer o;
    o.frame.descriptors.pop_back();
    CHECK_THROWS_AS(o.second->receive(o.frame), Error);
  }
  {
    Offer o;
    std::swap(o.frame.descriptors[0], o.frame.descriptors[1]);  // a segment that is too small
    CHECK_THROWS_AS(o.second->receive(o.frame), Error);
  }
  {
    Offer o, other;
    o.second->receive(o.frame);
    Frame answer;
    REQUIRE(o.wires[1].take(answer));
    CHECK_THROWS_AS(other.first->receive(answer), Error);  // answered in another segment
    CHECK_FALSE(other.first->ready());
    Frame unknown{99, {}, {}};
    CHECK_THROWS_AS(o.second->receive(unknown), Error);
  }
}

TEST_CASE("Nothing stays behind") {
  const Held before = held();
  for (int round = 0; round < 20; ++round) {
    const auto pair = shm_pair();
    std::byte* const memory = pair->lendable(0, 100'000);
    for (int i = 0; i < 3; ++i) {
      const bool lent = give(*pair, memory, 30'000);
      take(*pair, memory, 30'000, lent);
    }
    if (round % 2 == 0) pair->kill(1);
  }
  CHECK(held() == before);
}

namespace {

/// The other process: adds one to every byte it gets and sends it back, until an empty message.
int echo(int socket) {
  perf::SocketWire wire{rondo::Descriptor(socket)};
  auto doorbell = rondo::Doorbell::create();
  const auto transport = rondo::make_shm_transport(doorbell);
  const auto connection = transport->open(0, false, wire);
  for (;;) {
    Frame frame;
    if (wire.take(frame, !connection->ready())) connection->receive(frame);
    if (!connection->ready()) continue;
    const Message* const message = connection->receive_end(0).peek();
    if (message == nullptr) {
      std::this_thread::yield();
      continue;
    }
    const std::size_t bytes = message->bytes;
    std::byte* room = nullptr;
    while ((room = connection->send_end(0).reserve(bytes)) == nullptr) std::this_thread::yield();
    for (std::size_t i = 0; i < bytes; ++i) {
      room[i] = static_cast<std::byte>(static_cast<int>(message->data[i]) + 1);
    }
    if (message->reply != nullptr) std::memcpy(message->reply, room, bytes);
    connection->receive_end(0).release();
    connection->send_end(0).commit(bytes, {}, {});
    if (bytes == 0) return 0;
  }
}

}  // namespace

TEST_CASE("Two processes") {
  int sockets[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::close(sockets[0]);
    ::_exit(echo(sockets[1]));
  }
  ::close(sockets[1]);
  perf::SocketWire wire{rondo::Descriptor(sockets[0])};
  auto doorbell = rondo::Doorbell::create();
  const auto transport = rondo::make_shm_transport(doorbell);
  const auto connection = transport->open(1, true, wire);
  Frame frame;
  while (!connection->ready() && wire.take(frame, true)) connection->receive(frame);
  REQUIRE(connection->ready());
  auto* const region = static_cast<std::byte*>(Regions::instance().allocate(200'000));
  std::vector<std::byte> plain(200'000);
  int lent = 0;
  bool right = true;
  for (int round = 0; round < 200; ++round) {
    const std::size_t sizes[] = {1, 40, 41, 5000, 20'000, 50'000};
    const std::size_t bytes = sizes[round % 6];
    std::byte* const source = round % 4 < 2 ? region + round : plain.data() + round;
    std::byte* const reply = source + 100'000;
    std::memset(source, round, bytes);
    std::byte* room = nullptr;
    while ((room = connection->send_end(0).reserve(bytes)) == nullptr) std::this_thread::yield();
    const bool is_lent = connection->send_end(0).lend(source, reply, bytes, {}, {false, true});
    if (!is_lent) {
      std::memcpy(room, source, bytes);
      connection->send_end(0).commit(bytes, {}, {});
    }
    lent += is_lent;
    const Message* message = nullptr;
    while ((message = connection->receive_end(0).peek()) == nullptr) std::this_thread::yield();
    const std::vector<std::byte> wanted(bytes, static_cast<std::byte>(round + 1));
    right = right && message->bytes == bytes && std::memcmp(message->data, wanted.data(), bytes) == 0;
    if (is_lent) right = right && std::memcmp(reply, wanted.data(), bytes) == 0;
    connection->receive_end(0).release();
    while (wire.take(frame, false)) connection->receive(frame);
  }
  CHECK(right);
  CHECK(lent > 50);
  REQUIRE(connection->send_end(0).reserve(0) != nullptr);
  connection->send_end(0).commit(0, {}, {});
  int status = -1;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  Regions::instance().release(region);
}

TEST_CASE("Regions: sizes, wrong frees, more than can be lent") {
  Regions& regions = Regions::instance();
  const Held before = held();
  void* const empty = regions.allocate(0);
  CHECK(empty != nullptr);
  CHECK(regions.release(empty));
  CHECK_FALSE(regions.release(empty));
  CHECK_FALSE(regions.release(nullptr));
  int local = 0;
  CHECK_FALSE(regions.release(&local));
  for (const std::size_t huge : {SIZE_MAX, SIZE_MAX / 2, std::size_t{1} << 62, std::size_t{1} << 46}) {
    CHECK_THROWS_AS(regions.allocate(huge), Error);
  }
  CHECK(held() == before);

  std::vector<void*> many;
  Regions::Found found;
  for (int i = 0; i < rondo::limits::regions_max + 3; ++i) many.push_back(regions.allocate(1));
  CHECK(regions.find(many[rondo::limits::regions_max - 1], 1, found));
  CHECK_FALSE(regions.find(many.back(), 1, found));
  for (void* const memory : many) CHECK(regions.release(memory));
  CHECK(held() == before);
}

TEST_CASE("Regions are found while other threads allocate and free") {
  Regions& regions = Regions::instance();
  std::atomic<bool> over{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> churn;
  for (std::size_t size : {std::size_t{4096}, std::size_t{1} << 18}) {
    churn.emplace_back([&, size] {
      while (!over.load()) {
        void* const memory = regions.allocate(size);
        Regions::Found found;
        if (!regions.find(memory, size, found) || found.offset != 0) ++wrong;
        if (!regions.release(memory)) ++wrong;
      }
    });
  }
  auto* const mine = static_cast<std::byte*>(regions.allocate(8192));
  Regions::Found first;
  REQUIRE(regions.find(mine, 8192, first));
  for (int i = 0; i < 200'000; ++i) {
    Regions::Found found;
    if (!regions.find(mine + 100, 8, found) || found.id != first.id || found.offset != 100) ++wrong;
  }
  over = true;
  for (std::thread& thread : churn) thread.join();
  CHECK(wrong == 0);
  CHECK(regions.release(mine));
}
