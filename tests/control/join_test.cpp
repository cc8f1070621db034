// Joining: worlds of many sizes, and every way to get it wrong.
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "control.h"
#include "processes.h"

using namespace rondo;
using namespace rondo::test;
using control::join;
using control::Membership;

namespace {

/// Rank 0 makes the id; everybody joins.
Membership join_world(Board& board, int rank, int ranks, double seconds = 20) {
  if (rank == 0) board.publish(control::create_unique_id());
  return join(board.await_id(), rank, ranks, in_seconds(seconds));
}

void check_membership(const Membership& membership, const Board& board, int rank, int ranks) {
  expect(membership.rank == rank, "its own rank");
  expect(static_cast<int>(membership.members.size()) == ranks, "all members");
  for (int i = 0; i < ranks; ++i) {
    const auto& member = membership.members[static_cast<std::size_t>(i)];
    expect(member.rank == i && member.pid == board.pids[i].load() && !member.host.empty() && !member.listener.empty(),
           "member " + std::to_string(i));
  }
}

}  // namespace

TEST_CASE("worlds of 1 to 64 processes join") {
  for (const int ranks : {1, 2, 8, 64}) {
    World world(ranks, [ranks](int rank, Board& board) {
      check_membership(join_world(board, rank, ranks), board, rank, ranks);
    });
    CHECK(world.trouble() == "");
  }
}

TEST_CASE("ranks know which of them may use the same CPUs") {
  World world(4, [](int rank, Board& board) {
    cpu_set_t all;
    expect(sched_getaffinity(0, sizeof all, &all) == 0, "the CPUs of this thread");
    const int cpus = CPU_COUNT(&all);
    if (rank < 3) {  // ranks 0 and 2 the first, rank 1 the last, rank 3 all
      int first = 0;
      while (!CPU_ISSET(first, &all)) ++first;
      int last = CPU_SETSIZE - 1;
      while (!CPU_ISSET(last, &all)) --last;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(rank == 1 ? last : first, &one);
      expect(sched_setaffinity(0, sizeof one, &one) == 0, "to bind to a CPU");
    }
    const std::vector<control::Member> members = join_world(board, rank, 4).members;
    expect(members[0].cpus == 1 && members[1].cpus == 1 && members[2].cpus == 1 && members[3].cpus == cpus, "how many");
    expect(members[0].cpus_key == members[2].cpus_key, "the same CPU");
    expect((members[0].cpus_key == members[1].cpus_key) == (cpus == 1), "other CPUs, if there are others");
    expect((members[0].cpus_key == members[3].cpus_key) == (cpus == 1), "more CPUs, if there are more");
  });
  CHECK(world.trouble() == "");
}

TEST_CASE("ranks as threads of one process join several communicators at once") {
  World world(1, [](int, Board&) {
    const control::UniqueId ids[2] = {control::create_unique_id(), control::create_unique_id()};
    std::vector<Membership> got(8);
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] { got[static_cast<std::size_t>(i)] = join(ids[i / 4], i % 4, 4, in_seconds(20)); });
    }
    for (auto& thread : threads) thread.join();
    expect(got[0].communicator == got[3].communicator, "one number in a communicator");
    expect(got[0].communicator != got[4].communicator, "another in another");
    expect(std::memcmp(got[0].secret, got[4].secret, 32) != 0, "secrets that differ");
  });
  CHECK(world.trouble() == "");
}

TEST_CASE("missing ranks are named to all who wait") {
  World world(2, [](int rank, Board& board) {
    if (rank == 0) board.publish(control::create_unique_id());
    const auto id = board.await_id();
    const std::string sentence = sentence_of(Code::timeout, [&] { join(id, rank, 4, in_seconds(rank == 0 ? 1 : 10)); });
    expect(contains(sentence, "timed out after 1 s waiting for ranks 2, 3 of 4"),
           "the missing ranks, not: " + sentence);
    expect(contains(sentence, "RONDO_TIMEOUT"), "what to do");
  });
  CHECK(world.trouble() == "");
}

TEST_CASE("a rank that comes after the failure hears the same sentence") {
  World world(2, [](int rank, Board& board) {
    if (rank == 0) {
      board.publish(control::create_unique_id());
      sentence_of(Code::timeout, [&] { join(board.ids[0], 0, 2, in_seconds(0.2)); });
      ++board.counters[0];
      expect(board.await(1, 1), "the late rank");
    } else {
      expect(board.await(0, 1), "the failure");
      const std::string sentence = sentence_of(Code::timeout, [&] { join(board.ids[0], 1, 2, in_seconds(5)); });
      ++board.counters[1];
      expect(contains(sentence, "waiting for rank 1 of 2"), sentence);
    }
  });
  CHECK(world.trouble() == "");
}

TEST_CASE("ranks that disagree on the world size all hear so") {
  World world(2, [](int rank, Board& board) {
    const std::string sentence =
        sentence_of(Code::invalid_argument, [&] { join_world(board, rank, rank == 0 ? 3 : 4); });
    expect(contains(sentence, "disagree on the world size") && contains(sentence, "3") && contains(sentence, "4"),
           sentence);
  });
  CHECK(world.trouble() == "");
}

TEST_CASE("a rank that joins twice is an error to all") {
  World world(2, [](int rank, Board& board) {
    if (rank == 0) board.publish(control::create_unique_id());
    const auto id = board.await_id();
    const std::string sentence = sentence_of(Code::invalid_argument, [&] { join(id, 1, 3, in_seconds(10)); });
    expect(contains(sentence, "rank 1 joined twice"), sentence);
  });
  CHECK(world.trouble() == "");
}

TEST_CASE("wrong arguments and garbage ids get a sentence") {
  World world(1, [](int, Board&) {
    const auto id = control::create_unique_id();
    sentence_of(Code::invalid_argument, [&] { join(id, 0, 0, in_seconds(1)); });
    sentence_of(Code::invalid_argument, [&] { join(id, 0, 65537, in_seconds(1)); });
    sentence_of(Code::invalid_argument, [&] { join(id, -1, 2, in_seconds(1)); });
    expect(
        contains(sentence_of(Code::invalid_argument, [&] { join(id, 2, 2, in_seconds(1)); }), "outside the world of 2"),
        "the range");
    const control::UniqueId empty;
    sentence_of(Code::invalid_argument, [&] { join(empty, 0, 1, in_seconds(1)); });
    for (std::size_t i = 0; i < sizeof(id.bytes); ++i) {
      control::UniqueId damaged = id;
      damaged.bytes[i] ^= std::byte{0x40};
      sentence_of(Code::invalid_argument, [&] { join(damaged, 0, 1, in_seconds(1)); });
    }
    join(id, 0, 1, in_seconds(5));
    expect(contains(sentence_of(Code::invalid_usage, [&] { join(id, 0, 1, in_seconds(5)); }), "once"),
           "an id serves once");
  });
  CHECK(world.trouble() == "");
}

TEST_CASE("an id whose maker has ended, before or meanwhile") {
  World world(2, [](int rank, Board& board) {
    if (rank == 0) {
      board.publish(control::create_unique_id());
      expect(board.await(0, 1), "the joiner");
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return;
    }
    const auto id = board.await_id();
    ++board.counters[0];
    std::string sentence = sentence_of(Code::remote_error, [&] { join(id, 1, 2, in_seconds(10)); });
    expect(contains(sentence, "ended before all ranks had joined"), sentence);
    sentence = sentence_of(Code::remote_error, [&] { join(id, 1, 2, in_seconds(10)); });
    expect(contains(sentence, "nobody serves this unique id"), sentence);
  });
  CHECK(world.trouble() == "");
}

TEST_CASE("a rank that dies while the others join is named") {
  World world(3, [](int rank, Board& board) {
    if (rank == 0) board.publish(control::create_unique_id());
    const auto id = board.await_id();
    if (rank == 2) {
      std::thread([&board] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        ::kill(::getpid(), SIGKILL);
      }).detach();
    }
    const std::string sentence = sentence_of(Code::remote_error, [&] { join(id, rank, 4, in_seconds(10)); });
    expect(contains(sentence, "rank 2 (host ") && contains(sentence, "died while the ranks were joining"), sentence);
  });
  CHECK(world.end(2).status == -SIGKILL);
  CHECK(world.end(0).status == 0);
  CHECK(world.end(1).status == 0);
  INFO(world.board().texts[0] << world.board().texts[1]);
}

TEST_CASE("a derived rendezvous: others may come first, again and again") {
  const std::string name = "rondo-test-" + std::to_string(::getpid());
  World world(3, [name](int rank, Board& board) {
    for (int round = 0; round < 5; ++round) {
      if (rank == 0 && round == 0) std::this_thread::sleep_for(std::chrono::milliseconds(200));
      const auto id =
          rank == 0 ? control::create_derived_root({name, "a secret"}) : control::derived_unique_id({name, "a secret"});
      check_membership(join(id, rank, 3, in_seconds(10)), board, rank, 3);
    }
  });
  CHECK(world.trouble() == "");
}

TEST_CASE("a derived rendezvous that nobody serves, or of another secret") {
  const std::string name = "rondo-test-" + std::to_string(::getpid());
  World world(1, [name](int, Board&) {
    std::string sentence = sentence_of(Code::timeout, [&] {
      join(control::derived_unique_id({name, "s"}), 1, 2, in_seconds(0.3));
    });
    expect(contains(sentence, "rank 0 does not serve the rendezvous '" + name + "'"), sentence);
    control::create_derived_root({name, "one"});
    sentence = sentence_of(Code::timeout, [&] {
      join(control::derived_unique_id({name, "two"}), 1, 2, in_seconds(0.3));
    });
    sentence_of(Code::invalid_usage, [&] { control::create_derived_root({name, "one"}); });
    sentence_of(Code::invalid_usage, [&] { control::create_derived_root({name, "three"}); });
    sentence_of(Code::invalid_argument, [&] { control::create_derived_root({std::string(65, 'x'), "s"}); });
  });
  CHECK(world.trouble() == "");
}
