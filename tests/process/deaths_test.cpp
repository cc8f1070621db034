// What survivors see when a rank dies, leaves, stops or never comes: an error of the right code that names it, soon.
//
// A death is to be seen within a second.  How long it took is printed; asserted is only that it was far below the
// deadline of the call, as a busy machine may delay anything.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ranks.h"

namespace rondo::test {
namespace {

constexpr double soon_s = 5;
constexpr std::size_t long_count = 8u << 20;  // 32 MiB of floats

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// What the ranks of a test of death share.
struct Scene {
  Meeting meeting;
  std::atomic<int> ready{0};
  std::atomic<double> died_at{0};
};

std::string name_of(const World& world, int rank) {
  char host[256] = {};
  ::gethostname(host, sizeof(host) - 1);
  return "rank " + std::to_string(rank) + " (host " + host + ", pid " + std::to_string(world.pid(rank)) + ")";
}

/// What a survivor does: runs, returns what it was told.
using Survivor = std::function<Said(ncclComm_t comm, Scene& scene)>;

/// Whatever was meant to fail, and when.
void report_death(const Said& said, const Scene& scene, int rank) {
  const double took = now_s() - scene.died_at.load();
  if (said.result != ncclRemoteError) {
    throw std::runtime_error("code " + std::to_string(said.result) + ": " + said.sentence);
  }
  std::printf("  rank %d knew after %.0f ms\n", rank, took * 1000);
  std::fflush(stdout);
  if (took > soon_s) throw std::runtime_error("it took " + std::to_string(took) + " s");
}

/// Kills `victim` of `ranks` when all survivors are ready and `delay_ms` have passed; the survivors must be told.
void kill_one(int ranks, int victim, int delay_ms, const Survivor& survive) {
  const Shared<Scene> scene;
  World world(ranks, [&](int rank, Board& board) {
    const ncclComm_t comm = scene->meeting.join(0, rank, ranks);
    for (const std::size_t count : {1000, 1}) {
      if (all_reduce_floats(comm, count) != ncclSuccess) throw std::runtime_error("a sound call failed");
    }
    if (rank == victim) {
      scene->ready.fetch_add(1);
      for (;;) sleep_ms(1000);
    }
    const Said said = survive(comm, *scene);
    report_death(said, *scene, rank);
    board.say(rank, said.sentence);
    const Said again = timed(comm, [&] { return all_reduce_floats(comm, 10); });
    expect_says(std::to_string(again.result), {std::to_string(ncclRemoteError)});
    ncclCommDestroy(comm);
  });
  while (scene->ready.load() < ranks) sleep_ms(1);
  sleep_ms(delay_ms);
  scene->died_at.store(now_s());
  world.kill(victim, SIGKILL);
  INFO(ranks << " ranks, rank " << victim << " killed");
  for (int rank = 0; rank < ranks; ++rank) {
    const Ending ending = world.end(rank);
    INFO("rank " << rank << ": " << world.board().texts[rank]);
    if (rank == victim) continue;
    REQUIRE(ending.status == 0);
    REQUIRE(contains(world.board().texts[rank], name_of(world, victim)));
  }
}

Said blocked_call(ncclComm_t comm, Scene& scene) {
  scene.ready.fetch_add(1);
  return timed(comm, [&] { return all_reduce_floats(comm, 100); });
}

Said blocked_large_call(ncclComm_t comm, Scene& scene) {
  scene.ready.fetch_add(1);
  return timed(comm, [&] { return all_reduce_floats(comm, 1u << 20); });
}

Said idle(ncclComm_t comm, Scene& scene) {
  scene.ready.fetch_add(1);
  return timed(comm, [&] {
    ncclResult_t result = ncclSuccess;
    while (result == ncclSuccess) {
      if (ncclCommGetAsyncError(comm, &result) != ncclSuccess) return ncclInternalError;
      sleep_ms(1);
    }
    return result;
  });
}

Said on_a_queue(ncclComm_t comm, Scene& scene) {
  cudaStream_t queue = nullptr;
  expect_success(rondoStreamCreate(&queue), "rondoStreamCreate");
  float data[9] = {};
  for (float& part : data) {  // mostly run at once: calls like them went before
    expect_success(ncclAllReduce(&part, &part, 1, ncclFloat32, ncclSum, comm, queue), "a call on a queue");
  }
  scene.ready.fetch_add(1);
  Said said = timed(comm, [&] { return rondoStreamSynchronize(queue); });
  expect_success(rondoStreamDestroy(queue), "rondoStreamDestroy");
  return said;
}

TEST_CASE("a death ends a blocked call") {
  for (const int victim : {0, 1, 2}) kill_one(3, victim, 20, blocked_call);
  for (const int victim : {0, 1}) kill_one(2, victim, 20, blocked_large_call);
}

TEST_CASE("a death ends calls that already sleep") {
  for (const int victim : {0, 3}) kill_one(4, victim, 300, blocked_call);
}

TEST_CASE("a death is told to who is idle") {
  for (const int victim : {0, 1, 2}) kill_one(3, victim, 20, idle);
}

TEST_CASE("a death ends calls on a queue") {
  for (const int victim : {0, 1}) kill_one(2, victim, 50, on_a_queue);
}

TEST_CASE("a death in the middle of a long all-reduce") {
  for (const char* algorithm : {"ring", "two_shot"}) {
    const Setting setting("NCCL_ALGO", algorithm);
    for (const int victim : {0, 1, 2}) {
      const Shared<Scene> scene;
      World world(3, [&](int rank, Board& board) {
        const ncclComm_t comm = scene->meeting.join(0, rank, 3);
        void* data = nullptr;
        expect_success(ncclMemAlloc(&data, long_count * sizeof(float)), "ncclMemAlloc");
        Said said;
        while (said.result == ncclSuccess) {
          said =
              timed(comm, [&] { return ncclAllReduce(data, data, long_count, ncclFloat32, ncclSum, comm, nullptr); });
          if (said.result == ncclSuccess) scene->ready.fetch_add(1);
        }
        expect_success(ncclMemFree(data), "ncclMemFree");  // peers may still have it mapped
        report_death(said, *scene, rank);
        board.say(rank, said.sentence);
        ncclCommAbort(comm);
      });
      while (scene->ready.load() < 3) sleep_ms(1);
      sleep_ms(7 * victim + 3);
      scene->died_at.store(now_s());
      world.kill(victim, SIGKILL);
      for (int rank = 0; rank < 3; ++rank) {
        const Ending ending = world.end(rank);
        INFO(algorithm << ", rank " << victim << " killed, rank " << rank << ": " << world.board().texts[rank]);
        if (rank == victim) continue;
        REQUIRE(ending.status == 0);
        REQUIRE(contains(world.board().texts[rank], name_of(world, victim)));
      }
    }
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t shelf_count = 1u << 18;
#else
constexpr std::size_t shelf_count = 4u << 20;
#endif

/// A way of moving plain memory: how many ranks, and a call of which every rank looks at what it got.
struct Way {
  const char* name;
  int ranks;
  std::size_t count;
  ncclResult_t (*call)(const float* in, float* out, std::size_t count, ncclComm_t comm);
  float (*wanted)(std::size_t i, std::size_t count, int call);
  bool shares_a_core = false;
};

float given(int rank, int call) { return static_cast<float>(1 + rank + call % 100); }

const Way ways[] = {
    {"broadcasts from a shelf", 4, shelf_count,
     [](const float* in, float* out, std::size_t count, ncclComm_t comm) {
       return ncclBroadcast(in, out, count, ncclFloat32, 0, comm, nullptr);
     },
     [](std::size_t, std::size_t, int call) { return given(0, call); }, true},
    {"answers in slots", 2, 64u << 10,
     [](const float* in, float* out, std::size_t count, ncclComm_t comm) {
       return ncclAllReduce(in, out, count, ncclFloat32, ncclSum, comm, nullptr);
     },
     [](std::size_t, std::size_t, int call) { return given(0, call) + given(1, call); }},
    {"copies by the kernel", 2, 1u << 20,
     [](const float* in, float* out, std::size_t count, ncclComm_t comm) {
       return ncclAllGather(in, out, count, ncclFloat32, comm, nullptr);
     },
     [](std::size_t i, std::size_t count, int call) { return given(i < count ? 0 : 1, call); }},
};

/// Calls until one fails; what succeeds must be right, however late the death is seen.
Said call_until_death(const Way& way, int rank, ncclComm_t comm, std::atomic<int>& ready) {
  std::vector<float> in(way.count), out(way.count * (way.ranks == 2 ? 2 : 1));
  for (int call = 0;; ++call) {
    std::fill(in.begin(), in.end(), given(rank, call));
    std::fill(out.begin(), out.end(), -1.0f);
    const Said said = timed(comm, [&] { return way.call(in.data(), out.data(), way.count, comm); });
    if (said.result != ncclSuccess) return said;
    const std::size_t got = way.wanted(way.count, way.count, call) != way.wanted(0, way.count, call) ? 2 : 1;
    for (std::size_t i = 0; i < way.count * got; ++i) {
      if (out[i] != way.wanted(i, way.count, call)) throw std::runtime_error("a call that succeeded, and wrong bytes");
    }
    if (call == 5) ready.fetch_add(1);
  }
}

TEST_CASE("a death in the middle of calls that move plain memory") {
  for (const Way& way : ways) {
    for (int victim = 0; victim < way.ranks; ++victim) {
      const Shared<Scene> scene;
      World world(way.ranks, [&](int rank, Board& board) {
        if (way.shares_a_core) share_a_core();
        const ncclComm_t comm = scene->meeting.join(0, rank, way.ranks);
        const Said said = call_until_death(way, rank, comm, scene->ready);
        report_death(said, *scene, rank);
        board.say(rank, said.sentence);
        expect_success(ncclCommAbort(comm), "ncclCommAbort");
      });
      while (scene->ready.load() < way.ranks) sleep_ms(1);
      sleep_ms(victim);
      scene->died_at.store(now_s());
      world.kill(victim, SIGKILL);
      for (int rank = 0; rank < way.ranks; ++rank) {
        const Ending ending = world.end(rank);
        INFO(way.name << ", rank " << victim << " killed, rank " << rank << ": " << world.board().texts[rank]);
        if (rank == victim) continue;
        REQUIRE(ending.status == 0);
        REQUIRE(contains(world.board().texts[rank], name_of(world, victim)));
      }
    }
  }
}

TEST_CASE("a death during init") {
  for (const int victim : {0, 1, 2}) {
    const Shared<Scene> scene;
    const Setting timeout("RONDO_TIMEOUT", "20");
    World world(4, [&](int rank, Board& board) {
      const ncclUniqueId id = scene->meeting.id(0, rank);
      scene->ready.fetch_add(1);
      if (rank == 3) {  // never joins, so that the others wait
        while (scene->died_at.load() == 0) sleep_ms(1);
        return;
      }
      ncclComm_t comm = nullptr;
      const Said said = timed(nullptr, [&] { return ncclCommInitRank(&comm, 4, id, rank); });
      report_death(said, *scene, rank);
      board.say(rank, said.sentence);
      if (comm != nullptr) throw std::runtime_error("a failed init left a handle");
    });
    while (scene->ready.load() < 4) sleep_ms(1);
    sleep_ms(100);
    scene->died_at.store(now_s());
    world.kill(victim, SIGKILL);
    for (int rank = 0; rank < 3; ++rank) {
      const Ending ending = world.end(rank);
      INFO("rank " << victim << " killed, rank " << rank << ": " << world.board().texts[rank]);
      if (rank == victim) continue;
      REQUIRE(ending.status == 0);
      // With the root's process goes the list of who had joined: all that is known is whose id it was.
      const std::string named = victim == 0 ? "the process that made the unique id" : name_of(world, victim);
      REQUIRE(contains(world.board().texts[rank], named));
    }
  }
}

TEST_CASE("a rank that ends without destroy fails only the calls that need it") {
  const Shared<Scene> scene;
  World world(3, [&](int rank, Board& board) {
    const ncclComm_t all = scene->meeting.join(0, rank, 3);
    const ncclComm_t pair = rank < 2 ? scene->meeting.join(1, rank, 2) : nullptr;
    expect_success(all_reduce_floats(all, 100), "a sound call");
    if (rank == 2) return leave(all);  // the process ends
    while (scene->ready.load() == 0) sleep_ms(1);
    sleep_ms(200);
    expect_success(all_reduce_floats(pair, 100), "a call without the rank that left");
    const Said said = timed(all, [&] { return all_reduce_floats(all, 100); });
    if (said.result != ncclRemoteError) throw std::runtime_error("code " + std::to_string(said.result));
    board.say(rank, said.sentence);
    ncclCommDestroy(all);
    expect_success(ncclCommDestroy(pair), "ncclCommDestroy");
  });
  REQUIRE(world.end(2).status == 0);
  scene->ready.store(1);
  for (const int rank : {0, 1}) {
    const Ending ending = world.end(rank);
    INFO("rank " << rank << ": " << world.board().texts[rank]);
    REQUIRE(ending.status == 0);
    REQUIRE(contains(world.board().texts[rank], name_of(world, 2)));
    REQUIRE(contains(world.board().texts[rank], "left"));
  }
}

TEST_CASE("what a rank sent before it left still arrives") {
  for (int round = 0; round < 20; ++round) {
    const Shared<Meeting> meeting;
    const std::string trouble = run_ranks(Ranks::processes, 3, [&](int rank) {
      const ncclComm_t comm = meeting->join(0, rank, 3);
      float value = static_cast<float>(rank + 1);
      expect_success(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr), "the last call");
      if (value != 6) throw std::runtime_error("a wrong sum");
      leave(comm);
    });
    REQUIRE(trouble == "");
  }
}

TEST_CASE("a rank that is stopped and continued costs time, not results") {
  for (const std::size_t count : {std::size_t{1000}, std::size_t{1} << 20}) {
    const Shared<Scene> scene;
    World world(3, [&](int rank, Board&) {
      const ncclComm_t comm = scene->meeting.join(0, rank, 3);
      std::vector<float> data(count);
      for (int i = 0; i < 40; ++i) {
        std::fill(data.begin(), data.end(), static_cast<float>(rank + i));
        expect_success(ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, comm, nullptr), "a call");
        for (const float value : data) expect(value == static_cast<float>(3 * i + 3), "the exact sum");
        scene->ready.fetch_add(1);
        if (i == 20 && rank == 0) sleep_ms(300);
      }
      expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
    });
    while (scene->ready.load() < 6) sleep_ms(1);
    world.kill(1, SIGSTOP);
    sleep_ms(3000);
    world.kill(1, SIGCONT);
    REQUIRE(world.trouble() == "");
  }
}

}  // namespace
}  // namespace rondo::test
