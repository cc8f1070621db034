// The control plane's parts alone: unique ids, proofs, bodies of frames, the doorbell.
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/doorbell.h"
#include "control/bytes.h"
#include "control/handshake.h"
#include "control/unique_id.h"
#include "control/words.h"
#include "processes.h"

using namespace rondo;
using namespace rondo::control;

TEST_CASE("unique ids carry what they were given") {
  RootAddress address;
  address.name = std::string(64, 'n');
  address.root = 0x0123456789abcdef;
  address.secret = random_secret();
  const RootAddress back = decode(encode(address));
  CHECK(back.name == address.name);
  CHECK(back.root == address.root);
  CHECK(back.secret == address.secret);
  CHECK(!back.derived);
  CHECK(derive({"a", "b"}).secret == derive({"a", "b"}).secret);
  CHECK(derive({"a", "b"}).secret != derive({"a", "c"}).secret);
  CHECK(derive({"a", "b"}).secret != derive({"b", "b"}).secret);
  CHECK(decode(encode(derive({"a", "b"}))).derived);
}

TEST_CASE("proofs depend on all that they cover") {
  const Secret secret = random_secret();
  handshake::Hello hello{{Purpose::mesh, 5, 6}, {}};
  Nonce nonce = {};
  const Bytes greeting(3, std::byte{1});
  const Mac mac = handshake::client_mac(secret, hello, nonce, greeting);
  CHECK(equal(mac, handshake::client_mac(secret, hello, nonce, greeting)));
  CHECK(!equal(mac, handshake::client_mac(random_secret(), hello, nonce, greeting)));
  CHECK(!equal(mac, handshake::client_mac(secret, hello, nonce, Bytes(3, std::byte{2}))));
  CHECK(!equal(mac, handshake::client_mac(secret, hello, nonce, Bytes(2, std::byte{1}))));
  CHECK(!equal(handshake::client_mac(secret, hello, nonce, {}), handshake::server_mac(secret, hello, nonce)));
  nonce[31] = std::byte{1};
  CHECK(!equal(mac, handshake::client_mac(secret, hello, nonce, greeting)));
  nonce[31] = {};
  hello.nonce[0] = std::byte{1};
  CHECK(!equal(mac, handshake::client_mac(secret, hello, nonce, greeting)));
}

TEST_CASE("hashes and proofs are SHA-256 and HMAC-SHA256") {
  const auto hex = [](View bytes) {
    std::string text;
    for (const std::byte byte : bytes) {
      char digits[3];
      std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned>(byte));
      text += digits;
    }
    return text;
  };
  CHECK(hex(sha256(view(std::string("abc")))) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  // HMAC-SHA256 with a key of 32 zero bytes over 03 00 00 00 "abc", computed by another program.
  CHECK(hex(authenticate(Secret{}, {view(std::string("abc"))})) ==
        "c0bb56e49cb2333af92400718e0971d883b6389d7df4977b91d712dd6c136981");
}

TEST_CASE("a reader of a body that is too short gives zeros and says so") {
  const Bytes body = ByteWriter().number(std::uint16_t{7}).text("four").bytes();
  for (std::size_t bytes = 0; bytes <= body.size() + 1; ++bytes) {
    Bytes part = body;
    part.resize(bytes);
    ByteReader reader(part);
    reader.number<std::uint16_t>();
    reader.text();
    CHECK(reader.complete() == (bytes == body.size()));
  }
}

TEST_CASE("words for times and ranks") {
  using std::chrono::milliseconds;
  CHECK(in_words(milliseconds(10000)) == "10 s");
  CHECK(in_words(milliseconds(499)) == "0.5 s");
  CHECK(in_words(std::vector<int>{3}) == "rank 3");
  CHECK(in_words(std::vector<int>{2, 3}) == "ranks 2, 3");
  CHECK(in_words(std::vector<int>(40, 1)).size() < 100);
}

TEST_CASE("a doorbell wakes sleepers of this and of other processes, and loses no ring") {
  Doorbell doorbell = Doorbell::create();
  struct Counts {
    std::atomic<int> asked{0};
    std::atomic<int> answered{0};
  };
  void* page = ::mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  Counts& counts = *new (page) Counts;
  constexpr int rounds = 2000;
  const auto sleep_until = [](Doorbell& bell, std::atomic<int>& count, int value) {
    // Each sleep could last a minute: a lost ring would make the test time out.
    while (count.load(std::memory_order_acquire) < value) {
      bell.sleep(60000000, [&] { return count.load(std::memory_order_acquire) < value; });
    }
  };
  const pid_t child = ::fork();
  if (child == 0) {
    Doorbell mapped = Doorbell::map(doorbell.page_fd(), doorbell.event_fd());
    for (int i = 1; i <= rounds; ++i) {
      sleep_until(mapped, counts.asked, i);
      counts.answered.store(i, std::memory_order_release);
      ring(mapped.ringer());
    }
    ::_exit(0);
  }
  for (int i = 1; i <= rounds; ++i) {
    counts.asked.store(i, std::memory_order_release);
    ring(doorbell.ringer());
    sleep_until(doorbell, counts.answered, i);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(doorbell.page().sleepers.load() == 0);
  ::munmap(page, sizeof(Counts));
}

/// Two processes that give each other the turn again and again.  This one's threads, who all must have it before it
/// goes on, sleep on a socket each and on their doorbell, and hear of every other turn by the one and the other; the
/// other process sleeps on its own doorbell.
void take_turns(int threads, int rounds) {
  Doorbell ours = Doorbell::create();
  Doorbell theirs = Doorbell::create();
  struct Counts {
    std::atomic<int> asked{0};  // by all threads
    std::atomic<int> answered{0};
  };
  void* const page = ::mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  Counts& counts = *new (page) Counts;
  std::vector<std::array<int, 2>> sockets(static_cast<std::size_t>(threads));
  for (auto& pair : sockets) {
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair.data()) == 0);
  }
  const pid_t child = ::fork();
  if (child == 0) {
    Doorbell mapped = Doorbell::map(ours.page_fd(), ours.event_fd());
    for (int turn = 1; turn <= rounds; ++turn) {
      const auto waits = [&] { return counts.asked.load(std::memory_order_acquire) < turn * threads; };
      while (waits()) theirs.sleep(60'000'000, waits);
      counts.answered.store(turn, std::memory_order_release);
      if (turn % 2 == 0) ring(mapped.ringer());
      for (auto& pair : sockets) {
        if (turn % 2 == 1 && ::write(pair[1], "", 1) != 1) ::_exit(1);
      }
    }
    ::_exit(0);
  }
  std::atomic<int> sleeps{0};
  const auto take = [&](int socket) {
    for (int turn = 1; turn <= rounds; ++turn) {
      counts.asked.fetch_add(1, std::memory_order_release);
      ring(theirs.ringer());
      const auto waits = [&] {
        char byte = 0;
        if (turn % 2 == 1) return ::read(socket, &byte, 1) != 1;
        return counts.answered.load(std::memory_order_acquire) < turn;
      };
      // Each sleep could last a minute: a lost ring would make the test time out.
      for (bool open = waits(); open; open = open && waits()) {
        Wakeups wakeups;
        wakeups.add(socket, POLLIN);
        wakeups.await_ring();
        ours.sleep(wakeups, 60'000'000, [&] { return open = waits(); });
        sleeps.fetch_add(1);
      }
    }
  };
  std::vector<std::thread> sleepers;
  for (auto& pair : sockets) sleepers.emplace_back(take, pair[0]);
  for (std::thread& thread : sleepers) thread.join();
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(ours.page().sleepers.load() == 0);
  CHECK(ours.page().on_sockets.load() == 0);
  // One thread alone: a turn is a sleep, and at the most another one for a ring that came when it was awake.
  if (threads == 1) CHECK(sleeps.load() <= 2 * rounds);
  for (auto& pair : sockets) {
    for (const int socket : pair) ::close(socket);
  }
  ::munmap(page, sizeof(Counts));
}

TEST_CASE("a thread that sleeps on sockets as well is woken by either, and loses no ring") { take_turns(1, 2000); }
TEST_CASE("several threads that sleep on sockets and one doorbell lose no ring") { take_turns(2, 2000); }

TEST_CASE("what is not a doorbell is refused") {
  const int page = ::memfd_create("test", MFD_CLOEXEC);
  const int event = ::eventfd(0, EFD_CLOEXEC);
  CHECK_THROWS_AS(Doorbell::map(page, event), Error);
  CHECK(::ftruncate(page, 4096) == 0);
  CHECK_THROWS_AS(Doorbell::map(page, event), Error);  // it could shrink
  ::close(page);
  CHECK_THROWS_AS(Doorbell::map(-1, event), Error);
  ::close(event);
}
