// The mesh: pair channels, deaths, departures, failures, forks, and what is left behind.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "control.h"
#include "control/bytes.h"
#include "control/connector.h"
#include "control/loop.h"
#include "processes.h"
#include "rank.h"
#include "tests/process/denied.h"

using namespace rondo;
using namespace rondo::test;
using control::Failure;
using std::chrono::milliseconds;

namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string died(const Rank& rank, int peer) {
  const auto& member = rank.membership().members[static_cast<std::size_t>(peer)];
  return "rank " + std::to_string(peer) + " (host " + member.host + ", pid " + std::to_string(member.pid) + ") died";
}

/// Opens the channel that a rank has to one above it, and ends it as its process would: without a word.
void end_a_pair_channel(const control::Membership& membership, int to) {
  control::Loop loop;
  control::Call call;
  call.name = membership.members[static_cast<std::size_t>(to)].listener;
  call.key = {control::Purpose::mesh, membership.communicator, static_cast<std::uint32_t>(to)};
  std::copy(std::begin(membership.secret), std::end(membership.secret), call.secret.begin());
  constexpr std::uint8_t pair = 2;  // MeshCore::Use
  call.greeting = control::ByteWriter().number(static_cast<std::uint32_t>(membership.rank)).number(pair).bytes();
  const control::Connector connector(loop, call, [&](control::Outcome outcome, auto channel, const std::string&) {
    if (outcome != control::Outcome::connected) return false;
    channel->stop();
    loop.stop();
    return true;
  });
  loop.run();
}

/// What the next open() would give.
std::size_t first_free_descriptor() {
  const Descriptor next(::dup(0));
  return static_cast<std::size_t>(next.get());
}

}  // namespace

TEST_CASE("every pair opens, carries frames in order and descriptors, and closes") {
  constexpr int ranks = 4;
  World world(ranks, [](int me, Board& board) {
    Rank rank(shared_id(board, me), me, ranks);
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer == me) continue;
      Wire& wire = rank.wire(peer);
      const int page = ::memfd_create("test", MFD_CLOEXEC);
      const std::string content = "from " + std::to_string(me) + " to " + std::to_string(peer);
      expect(::write(page, content.data(), content.size()) == static_cast<ssize_t>(content.size()), "a written page");
      for (std::uint16_t kind = 0; kind < 300; ++kind) wire.send(kind, bytes_of(std::string(kind * 200u, 'x')));
      const int both[2] = {page, page};
      wire.send(999, bytes_of("pages"), both);
      ::close(page);
    }
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer == me) continue;
      for (std::uint16_t kind = 0; kind < 300; ++kind) {
        const Frame frame = rank.frame(peer);
        expect(frame.kind == kind && frame.body.size() == kind * 200u && frame.descriptors.empty(),
               "frame " + std::to_string(kind) + ", not " + std::to_string(frame.kind) + " of " +
                   std::to_string(frame.body.size()) + " bytes, " + std::to_string(frame.descriptors.size()));
      }
      const Frame frame = rank.frame(peer);
      expect(frame.kind == 999 && frame.body == bytes_of("pages") && frame.descriptors.size() == 2, "the pages");
      char content[64] = {};
      expect(::pread(frame.descriptors[1].get(), content, sizeof(content), 0) > 0, "a readable page");
      expect(content == "from " + std::to_string(peer) + " to " + std::to_string(me), content);
      expect((::fcntl(frame.descriptors[0].get(), F_GETFD) & FD_CLOEXEC) != 0, "close-on-exec");
    }
    ++board.counters[0];
    expect(board.await(0, ranks), "all ranks");
    rank.close();
    expect(rank.failure_count() == 0, "no failure");
  });
  CHECK(world.trouble() == "");
}

TEST_CASE("a frame comes without its descriptors where there is no room for them, and the next one with its own") {
  World world(2, [](int me, Board& board) {
    Rank rank(shared_id(board, me), me, 2);
    Wire& wire = rank.wire(1 - me);
    const auto meet = [&](int counter) {
      ++board.counters[counter];
      expect(board.await(counter, 2), "the other rank");
    };
    const auto lost = [&] {
      const Frame frame = rank.frame(0);
      expect(frame.kind == 7 && frame.body == bytes_of("pages") && frame.descriptors_lost, "a frame without them");
      expect(frame.descriptors.empty(), "not some of them");
    };
    for (const int room : {0, 1}) {
      std::optional<Limit> few;
      if (me == 1) few.emplace(RLIMIT_NOFILE, first_free_descriptor() + room);
      meet(2 * room);
      const int both[2] = {0, 0};
      if (me == 0) wire.send(7, bytes_of("pages"), both);
      if (me == 0) wire.send(8, bytes_of("none"));
      if (me == 1) lost();
      if (me == 1) expect(rank.frame(0).kind == 8, "what follows");
      few.reset();
      meet(2 * room + 1);
      if (me == 0) wire.send(9, bytes_of("pages"), both);
      if (me == 1) expect(rank.frame(0).descriptors.size() == 2, "all that came");
    }
    meet(4);
    rank.close();
    expect(rank.failure_count() == 0, "no failure");
  });
  CHECK(world.trouble() == "");
}

TEST_CASE("the death of any rank is seen and named by all") {
  constexpr int ranks = 4;
  for (int victim = 0; victim < ranks; ++victim) {
    World world(ranks, [victim](int me, Board& board) {
      Rank rank(shared_id(board, me), me, ranks);
      ++board.counters[0];
      expect(board.await(0, ranks), "all ranks");
      const Failure failure = rank.failure();
      expect(failure.rank == victim && failure.code == Code::remote_error, failure.sentence);
      expect(contains(failure.sentence, died(rank, victim)), failure.sentence);
      rank.close();
    });
    CHECK(world.board().await(0, ranks));
    world.kill(victim, SIGKILL);
    CHECK(world.end(victim).status == -SIGKILL);
    for (int rank = 0; rank < ranks; ++rank) {
      INFO(world.board().texts[rank]);
      if (rank != victim) CHECK(world.end(rank).status == 0);
    }
  }
}

TEST_CASE("a close, and an exit without it, are departures, not deaths") {
  for (const bool closes : {true, false}) {
    for (const int leaver : {0, 2}) {
      World world(3, [closes, leaver](int me, Board& board) {
        static std::unique_ptr<Rank> rank;  // outlives the goodbye of a process that just ends
        rank = std::make_unique<Rank>(shared_id(board, me), me, 3);
        ++board.counters[0];
        expect(board.await(0, 3), "all ranks");
        if (me == leaver) {
          if (closes) rank.reset();
          return;
        }
        rank->await_left(leaver);
        expect(rank->failure_count() == 0, "no failure");
        ++board.counters[1];
        expect(board.await(1, 2), "the others");
      });
      CHECK(world.trouble() == "");
    }
  }
}

TEST_CASE("a failure that a rank tells reaches all, once, with its sentence") {
  for (int teller = 0; teller < 3; ++teller) {
    World world(3, [teller](int me, Board& board) {
      Rank rank(shared_id(board, me), me, 3);
      if (me == 0) rank.wire(2);
      ++board.counters[0];
      expect(board.await(0, 3), "all ranks");
      if (me == teller) {
        rank.mesh().tell_failure("no memory for the moon");
      } else {
        const Failure failure = rank.failure();
        expect(failure.rank == teller && contains(failure.sentence, "failed: no memory for the moon"),
               failure.sentence);
        expect(contains(failure.sentence, "rank " + std::to_string(teller) + " (host "), failure.sentence);
      }
      ++board.counters[1];
      expect(board.await(1, 3), "all ranks");
      rank.close();
      expect(rank.failure_count() == (me == teller ? 0 : 1), "one failure");
    });
    CHECK(world.trouble() == "");
  }
}

TEST_CASE("a failure reaches a rank that connects after it was told") {
  World world(2, [](int me, Board& board) {
    Rank rank(shared_id(board, me), me, 2, [me](control::Mesh& mesh) {
      if (me == 0) mesh.tell_failure("no memory for the moon");
    });
    if (me == 1) {
      const std::string sentence = rank.failure().sentence;
      expect(contains(sentence, "failed: no memory for the moon"), sentence);
    }
    ++board.counters[0];
    expect(board.await(0, 2), "both ranks");
    rank.close();
  });
  CHECK(world.trouble() == "");
}

TEST_CASE("a pair channel that ends without a reason waits for the one that comes by the tree") {
  for (const bool fails : {true, false}) {
    World world(3, [fails](int me, Board& board) {
      auto rank = std::make_unique<Rank>(shared_id(board, me), me, 3);
      if (me == 1) {
        end_a_pair_channel(rank->membership(), 2);
        std::this_thread::sleep_for(milliseconds(20));  // far longer than the news of the end needs
        if (fails) rank->mesh().tell_failure("no memory for the moon");
        if (!fails) rank.reset();
      } else if (fails) {
        const std::string sentence = rank->failure().sentence;
        expect(contains(sentence, "failed: no memory for the moon"), sentence);
      } else {
        rank->await_left(1);
        expect(rank->failure_count() == 0, "no failure");
      }
      ++board.counters[0];
      expect(board.await(0, 3), "all ranks");
    });
    CHECK(world.trouble() == "");
  }
}

TEST_CASE("a pair channel that ends without a reason, and none comes, is a death") {
  World world(3, [](int me, Board& board) {
    Rank rank(shared_id(board, me), me, 3);
    if (me == 1) end_a_pair_channel(rank.membership(), 2);
    if (me == 2) {
      const std::string sentence = rank.failure().sentence;
      expect(contains(sentence, died(rank, 1) + " (end of file)"), sentence);
    }
    ++board.counters[0];
    expect(board.await(0, 3), "all ranks");
    rank.close();
  });
  CHECK(world.trouble() == "");
}

namespace {

/// The data sockets that came, by index.
std::map<std::uint32_t, Descriptor> sockets_of(Rank& rank, int peer, int count) {
  std::map<std::uint32_t, Descriptor> sockets;
  for (int i = 0; i < count; ++i) {
    Frame frame = rank.frame(peer);
    SocketPlace place;
    expect(frame.kind == socket_frame && frame.body.size() == sizeof place && frame.descriptors.size() == 1,
           "a socket");
    std::memcpy(&place, frame.body.data(), sizeof place);
    expect(place.count == static_cast<std::uint32_t>(count), "its place");
    expect(sockets.emplace(place.index, std::move(frame.descriptors[0])).second, "each once");
  }
  return sockets;
}

}  // namespace

TEST_CASE("data sockets come in pairs, with nothing of the set-up left in their streams") {
  World world(2, [](int me, Board& board) {
    Rank rank(shared_id(board, me), me, 2);
    constexpr int count = 64;
    Wire& wire = rank.wire(1 - me);
    if (me == 0) wire.connect_sockets(count);
    for (auto& [index, socket] : sockets_of(rank, 1 - me, count)) {
      const auto word = static_cast<unsigned char>(index);
      expect(::send(socket.get(), &word, 1, MSG_NOSIGNAL) == 1, "room for a word");
      expect((::fcntl(socket.get(), F_GETFD) & FD_CLOEXEC) != 0, "close-on-exec");
      expect((::fcntl(socket.get(), F_GETFL) & O_NONBLOCK) != 0, "non-blocking");
      ::fcntl(socket.get(), F_SETFL, 0);
      ::shutdown(socket.get(), SHUT_WR);
      unsigned char heard[2] = {0xff, 0xff};
      expect(::recv(socket.get(), heard, 2, MSG_WAITALL) == 1 && heard[0] == word, "the word, and no more");
    }
    ++board.counters[0];
    expect(board.await(0, 2), "both");
    rank.close();
    expect(rank.failure_count() == 0, "no failure");
  });
  CHECK(world.trouble() == "");
}
