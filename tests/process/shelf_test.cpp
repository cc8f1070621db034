// Broadcasts of plain memory between ranks that share cores: a root copies once to memory that all map.  What arrives
// is right call by call, whoever is root, in groups and with mapped memory, too; what it took is given back.
#include <catch2/catch.hpp>
#include <cerrno>
#include <fstream>
#include <string>
#include <vector>

#include "denied.h"
#include "ranks.h"

namespace rondo::test {
namespace {

constexpr int ranks = 4;

/// Regions that this process maps, its own and its peers'.
int regions_mapped() {
  std::ifstream maps("/proc/self/maps");
  int regions = 0;
  for (std::string line; std::getline(maps, line);) regions += line.find("rondo-memory") != std::string::npos;
  return regions;
}

float value(int call, int root, std::size_t i) {
  return static_cast<float>(call * 100 + root * 10) + static_cast<float>(i % 7);
}

void broadcast(ncclComm_t comm, int rank, int call, std::size_t count, float* data) {
  const int root = call % ranks;
  for (std::size_t i = 0; i < count; ++i) data[i] = rank == root ? value(call, root, i) : -1.0f;
  expect_success(ncclBroadcast(data, data, count, ncclFloat32, root, comm, nullptr), "a broadcast");
  // The root may write at once to what it gave.
  const std::vector<float> got(data, data + count);
  for (std::size_t i = 0; i < count; ++i) data[i] = -2.0f;
  std::size_t right = 0;
  while (right < count && got[right] == value(call, root, right)) ++right;
  expect(right == count, "call " + std::to_string(call) + ", what the root gave at " + std::to_string(right));
}

}  // namespace

TEST_CASE("broadcasts between ranks that share a core") {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, ranks, [&](int rank) {
    share_a_core();
    int passed = 0;
    int before = 0;
    for (int round = 0; round < 3; ++round) {
      const ncclComm_t comm = meeting->join(round, rank, ranks);
      std::vector<float> data(400'000);
      int call = 0;
      for (const std::size_t count : {3'000, 100'003, 400'000}) {
        for (int i = 0; i < ranks; ++i) broadcast(comm, rank, call++, count, data.data());
      }
      expect(regions_mapped() > 0, "a shelf");
      void* mapped = nullptr;
      expect_success(ncclMemAlloc(&mapped, 400'000), "ncclMemAlloc");
      for (int i = 0; i < ranks; ++i) broadcast(comm, rank, call++, 100'000, static_cast<float*>(mapped));
      expect_success(ncclGroupStart(), "a group");
      std::vector<std::vector<float>> parts(2, std::vector<float>(50'000, static_cast<float>(rank)));
      for (int i = 0; i < 2; ++i) {
        expect_success(ncclBroadcast(parts[i].data(), parts[i].data(), 50'000, ncclFloat32, i, comm, nullptr),
                       "a part");
      }
      expect_success(ncclGroupEnd(), "a group's end");
      for (int i = 0; i < 2; ++i) {
        for (const float got : parts[i]) expect(got == static_cast<float>(i), "a part of a group");
      }
      meeting->barrier(ranks, passed);
      expect_success(ncclCommDestroy(comm), "the end");
      expect_success(ncclMemFree(mapped), "ncclMemFree");
      meeting->barrier(ranks, passed);
      if (round == 0) before = regions_mapped();
    }
    expect(regions_mapped() <= before, "regions given back");
  });
  REQUIRE(trouble == "");
}

TEST_CASE("a root that can have no memory for a shelf does without") {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, ranks, [&](int rank) {
    share_a_core();
    const ncclComm_t comm = meeting->join(0, rank, ranks);
    std::vector<float> data(100'003);
    for (int call = 0; call < ranks; ++call) broadcast(comm, rank, call, 1, data.data());  // opens the links
    deny(SYS_memfd_create, EMFILE);
    for (int call = 0; call < 2 * ranks; ++call) broadcast(comm, rank, call, data.size(), data.data());
    expect(regions_mapped() == 0, "no shelf");
    expect_success(ncclCommDestroy(comm), "the end");
  });
  REQUIRE(trouble == "");
}

}  // namespace rondo::test
