// Every collective, algorithm, type and operator, with few and many ranks, elements and kinds of memory: exact results,
// nothing written outside the buffers, inputs kept.  Cases are drawn by a seed that every rank shares.
//
// PRODUCTS_SEEDS: how many seeds (1).  PRODUCTS_RANKS_MAX: of the processes (9).  PRODUCTS_HOSTS: over how many hosts,
// by NCCL_HOSTID and in turns, the processes are spread (1); more than one: without the cases of one process.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "cases.h"
#include "ranks.h"

namespace rondo::test {
namespace {

constexpr int repeats = 3;  // the first lend of a region is declined, the next ones are not

void run_cases(unsigned seed, int cases, int rank, int ranks, ncclComm_t comm) {
  std::mt19937 random(seed);
  cudaStream_t queue = nullptr;
  expect_success(rondoStreamCreate(&queue), "rondoStreamCreate");
  for (int i = 0; i < cases; ++i) {
    const Case c = draw(random, ranks, i == 0);
    CaseOnRank here(c, rank, ranks, comm);
    const bool queued = i % 4 == 3;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      here.prepare();
      expect_success(here.run(queued ? queue : nullptr), c.text());
      if (queued) expect_success(rondoStreamSynchronize(queue), c.text());
      here.check();
    }
  }
  expect_success(rondoStreamDestroy(queue), "rondoStreamDestroy");
}

/// Every algorithm of every collective occurs.
constexpr const char* algorithms[] = {
    "",
    "ring",
    "allreduce:star;reducescatter:pat;allgather:halving_doubling;broadcast:binomial;reduce:binomial",
    "allreduce:tree;reducescatter:halving_doubling;allgather:pat;reduce:chain",
    "allreduce:one_shot;allgather:direct;gather:binomial;scatter:binomial;alltoall:bruck",
    "allreduce:two_shot;reducescatter:direct;reduce:two_shot",
    "one_shot_pull",
    "two_shot_pull",
    "chain",
    "allreduce:recursive_doubling",
    "allreduce:halving_doubling",
    "hierarchical",
};

// How much a run covers; more in nightly, less where a sanitizer slows it.
int seeds() { return environment_number("PRODUCTS_SEEDS", 1); }
int cases() { return environment_number("PRODUCTS_CASES", 40); }
int hosts() { return environment_number("PRODUCTS_HOSTS", 1); }
int ranks_max() { return environment_number("PRODUCTS_RANKS_MAX", 9); }

void run_products(Ranks how, int ranks, unsigned seed, int cases) {
  for (const char* algorithm : algorithms) {
    ::setenv("NCCL_ALGO", algorithm, 1);  // for the children
    const Shared<Meeting> meeting;
    const std::string trouble = run_ranks(how, ranks, [&](int rank) {
      if (hosts() > 1) ::setenv("NCCL_HOSTID", ("host-" + std::to_string(rank % hosts())).c_str(), 1);
      const ncclComm_t comm = meeting->join(0, rank, ranks);
      run_cases(seed, cases, rank, ranks, comm);
      expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
    });
    ::unsetenv("NCCL_ALGO");
    INFO("NCCL_ALGO=" << algorithm << ", " << ranks << " ranks, seed " << seed);
    REQUIRE(trouble == "");
  }
}

TEST_CASE("collectives are exact between processes") {
  for (int seed = 1; seed <= seeds(); ++seed) {
    for (int ranks = 1; ranks <= ranks_max(); ++ranks) run_products(Ranks::processes, ranks, seed, cases() / 2);
  }
}

// From 2 KiB on (16 KiB between more than two ranks) up to 96 KiB a call has two programs, one of them for ranks whose
// memory is all mapped.
TEST_CASE("all-reduce is exact where ranks' memory suits different programs") {
  if (hosts() > 1) return;
  for (const int ranks : {2, 3, 5}) {
    const Shared<Meeting> meeting;
    const std::string trouble = run_ranks(Ranks::processes, ranks, [&](int rank) {
      const ncclComm_t comm = meeting->join(0, rank, ranks);
      std::mt19937 random(static_cast<unsigned>(ranks));
      const unsigned masks = 1u << (2 * ranks);
      for (unsigned i = 0; i < (ranks < 4 ? masks : 24); ++i) {
        Case c{Collective::all_reduce, i % 5 == 4 ? Kind::premul_sum : Kind::sum, ncclFloat32, 700, 0, i % 2 != 0, i};
        if (ranks > 2) c.count = 4500;
        c.count += random() % 1500;
        if (ranks > 3) c.memory = static_cast<unsigned>(random());
        CaseOnRank here(c, rank, ranks, comm);
        for (int repeat = 0; repeat < repeats; ++repeat) {
          here.prepare();
          expect_success(here.run(nullptr), c.text());
          here.check();
        }
      }
      expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
    });
    INFO(ranks << " ranks");
    REQUIRE(trouble == "");
  }
}

TEST_CASE("collectives are exact between threads") {
  if (hosts() > 1) return;
  for (int seed = 1; seed <= seeds(); ++seed) {
    for (const int ranks : {1, 2, 3, 5, 8}) {
      if (ranks <= ranks_max()) run_products(Ranks::threads, ranks, seed + 1000, cases() / 4);
    }
  }
}

TEST_CASE("collectives are exact between ranks of one thread, in groups") {
  if (hosts() > 1) return;
  for (int seed = 1; seed <= seeds(); ++seed) {
    for (const int ranks : {1, 2, 3, 4, 7}) {
      const std::string trouble = run_ranks(Ranks::processes, 1, [&](int) {
        std::vector<ncclComm_t> comms(static_cast<std::size_t>(ranks));
        expect_success(ncclCommInitAll(comms.data(), ranks, nullptr), "ncclCommInitAll");
        std::mt19937 random(static_cast<unsigned>(seed));
        for (int i = 0; i < cases(); ++i) {
          const Case c = draw(random, ranks, i == 0);
          std::vector<std::unique_ptr<CaseOnRank>> all;
          for (int rank = 0; rank < ranks; ++rank) {
            all.push_back(std::make_unique<CaseOnRank>(c, rank, ranks, comms[static_cast<std::size_t>(rank)]));
          }
          for (int repeat = 0; repeat < repeats; ++repeat) {
            for (auto& one : all) one->prepare();
            expect_success(ncclGroupStart(), "ncclGroupStart");
            for (auto& one : all) expect_success(one->run(nullptr), c.text());
            expect_success(ncclGroupEnd(), c.text());
            for (auto& one : all) one->check();
          }
        }
        for (const ncclComm_t comm : comms) expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
      });
      INFO(ranks << " ranks, seed " << seed);
      REQUIRE(trouble == "");
    }
  }
}

}  // namespace
}  // namespace rondo::test
