// Ranks on several hosts: they join by the addresses of a unique id, talk, and see each other die.
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "../control/processes.h"
#include "../control/rank.h"
#include "../process/ranks.h"
#include "hosts.h"

using namespace rondo;
using namespace rondo::test;
using control::Failure;

namespace {

void talk(Rank& rank, int me, int ranks) {
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer != me) rank.wire(peer).send(static_cast<std::uint16_t>(100 + me), {});
  }
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer != me) expect(rank.frame(peer).kind == 100 + peer, "a frame of rank " + std::to_string(peer));
  }
}

}  // namespace

TEST_CASE("ranks of two and three hosts join by an id, and every pair talks") {
  for (const int count : {2, 3}) {
    const Hosts hosts(count);
    const int ranks = 2 * count - 1;
    World world(ranks, [&](int me, Board& board) {
      hosts.enter(me % count);
      Rank rank(shared_id(board, me), me, ranks);
      for (int peer = 0; peer < ranks; ++peer) {
        const bool near = rank.membership().members[peer].host_key == rank.membership().members[me].host_key;
        expect(near == (peer % count == me % count), "the hosts told apart");
        if (peer != me) expect(rank.wire(peer).passes_descriptors() == near, "descriptors within a host only");
      }
      talk(rank, me, ranks);
      ++board.counters[0];
      expect(board.await(0, ranks), "all ranks");
      rank.close();
      expect(rank.failure_count() == 0, "no failure");
    });
    CHECK(world.trouble() == "");
  }
}

TEST_CASE("collectives between hosts are exact") {
  for (const int count : {2, 3}) {
    const Hosts hosts(count);
    const int ranks = count + 1;
    const Shared<Meeting> meeting;
    const std::string trouble = run_ranks(Ranks::processes, ranks, [&](int rank) {
      hosts.enter(rank % count);
      ::setenv("NCCL_NSOCKS_PERTHREAD", "2", 1);
      const ncclComm_t comm = meeting->join(0, rank, ranks);
      for (const std::size_t elements : {std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20}) {
        std::vector<float> data(elements, static_cast<float>(1 << rank));
        expect_success(ncclAllReduce(data.data(), data.data(), elements, ncclFloat32, ncclSum, comm, nullptr), "a sum");
        for (const float sum : data) expect(sum == static_cast<float>((1 << ranks) - 1), "the exact sum");
      }
      expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
    });
    CHECK(trouble == "");
  }
}

TEST_CASE("IPv6 alone joins hosts, also by link-local addresses") {
  for (const bool global : {true, false}) {
    const Hosts hosts(2);
    for (int host = 0; host < 2; ++host) {
      hosts.ip(host, "addr del 10.77.0." + std::to_string(host + 1) + "/24 dev eth0");
      if (!global) hosts.ip(host, "addr del fd77::" + std::to_string(host + 1) + "/64 dev eth0");
      hosts.ip(host, "addr add fe80::" + std::to_string(host + 1) + "/64 dev eth0 nodad");
    }
    World world(2, [&](int me, Board& board) {
      hosts.enter(me);
      Rank rank(shared_id(board, me), me, 2);
      talk(rank, me, 2);
      rank.close();
    });
    CHECK(world.trouble() == "");
  }
}

TEST_CASE("the death of a rank on another host is seen and named by all") {
  const Hosts hosts(2);
  for (int victim = 0; victim < 4; ++victim) {
    World world(4, [&](int me, Board& board) {
      hosts.enter(me % 2);
      Rank rank(shared_id(board, me), me, 4);
      ++board.counters[0];
      expect(board.await(0, 4), "all ranks");
      const Failure failure = rank.failure();
      expect(failure.rank == victim && contains(failure.sentence, "died"), failure.sentence);
      rank.close();
    });
    CHECK(world.board().await(0, 4));
    world.kill(victim, SIGKILL);
    for (int rank = 0; rank < 4; ++rank) {
      INFO(world.board().texts[rank]);
      CHECK(world.end(rank).status == (rank == victim ? -SIGKILL : 0));
    }
  }
}

TEST_CASE("a root that cannot be reached is named with what each way met") {
  const Hosts hosts(2);
  hosts.ip(1, "link set eth0 down");
  World world(2, [&](int me, Board& board) {
    hosts.enter(me);
    if (me == 0) {
      board.publish(control::create_unique_id());
      expect(board.await(0, 1), "the other");
      return;
    }
    const auto id = board.await_id();
    const std::string sentence = sentence_of(Code::timeout, [&] { control::join(id, 1, 2, in_seconds(0.5)); });
    expect(contains(sentence, "cannot be reached") && contains(sentence, "10.77.0.1:"), sentence);
    ++board.counters[0];
  });
  CHECK(world.trouble() == "");
}
