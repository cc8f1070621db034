// The border over real communicators: threads as ranks, one process, through shared memory.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "rondo.h"

namespace {

/// All ranks of one communicator.
class World {
 public:
  explicit World(int ranks) : comms(static_cast<std::size_t>(ranks)) {
    REQUIRE(ncclCommInitAll(comms.data(), ranks, nullptr) == ncclSuccess);
  }
  ~World() {
    ncclGroupStart();
    for (ncclComm_t comm : comms) ncclCommDestroy(comm);
    ncclGroupEnd();
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Runs `body` as every rank, each in its thread.  Catch's assertions are not for several threads.
  template <typename Body>
  void as_ranks(Body&& body) {
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < comms.size(); ++rank)
      threads.emplace_back([&, rank] { body(rank, comms[rank]); });
    for (std::thread& thread : threads) thread.join();
  }

  std::vector<ncclComm_t> comms;
};

std::vector<float> values(std::size_t rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(rank + i % 7);
  return values;
}

TEST_CASE("collectives of threads that block") {
  constexpr std::size_t n = 3;
  World world(n);
  for (const std::size_t count : {1UL, 2UL, 1000UL, 100'003UL}) {
    std::vector<int> wrong(n, 0);
    world.as_ranks([&](std::size_t rank, ncclComm_t comm) {
      const auto check = [&](bool right) { wrong[rank] += right ? 0 : 1; };
      std::vector<float> b = values(rank, count);
      check(ncclAllReduce(b.data(), b.data(), count, ncclFloat, ncclSum, comm, nullptr) == ncclSuccess);
      for (std::size_t i = 0; i < count; ++i) check(b[i] == static_cast<float>(3 + 3 * (i % 7)));
      b = values(rank, count);
      check(ncclBcast(b.data(), count, ncclFloat, 1, comm, nullptr) == ncclSuccess);
      check(b == values(1, count));
      std::vector<float> all(n * count);
      const std::vector<float> mine = values(rank, count);
      check(ncclAllGather(mine.data(), all.data(), count, ncclFloat, comm, nullptr) == ncclSuccess);
      for (std::size_t r = 0; r < n; ++r)
        check(std::vector<float>(&all[r * count], &all[r * count] + count) == values(r, count));
      std::vector<float> out(count);
      check(ncclReduceScatter(all.data(), out.data(), count, ncclFloat, ncclSum, comm, nullptr) == ncclSuccess);
      for (std::size_t i = 0; i < count; ++i) check(out[i] == 3 * mine[i]);
    });
    CHECK(wrong == std::vector<int>(n, 0));
  }
}

TEST_CASE("windows are of what ncclMemAlloc gave") {
  World world(1);
  void* memory = nullptr;
  REQUIRE(ncclMemAlloc(&memory, 8192) == ncclSuccess);
  char* const behind = static_cast<char*>(memory) + 4096;
  std::vector<float> plain(1024);
  ncclWindow_t window = nullptr, beyond = nullptr, none = nullptr;
  CHECK(ncclCommWindowRegister(world.comms[0], behind, 4096, &window, NCCL_WIN_COLL_SYMMETRIC) == ncclSuccess);
  CHECK(window != nullptr);
  CHECK(ncclCommWindowRegister(world.comms[0], behind, 4097, &beyond, 0) == ncclSuccess);
  CHECK(beyond == nullptr);
  CHECK(ncclCommWindowRegister(world.comms[0], plain.data(), 4096, &none, 0) == ncclSuccess);
  CHECK(none == nullptr);
  void* address = nullptr;
  CHECK(ncclWinGetUserPtr(world.comms[0], window, &address) == ncclSuccess);
  CHECK(address == behind);
  CHECK(ncclMemFree(memory) == ncclSuccess);
}

TEST_CASE("all ranks of one thread, in a group") {
  World world(4);
  std::vector<std::vector<float>> buffers;
  for (std::size_t rank = 0; rank < 4; ++rank) buffers.push_back(values(rank, 5000));
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    float* const b = buffers[rank].data();
    CHECK(ncclAllReduce(b, b, 5000, ncclFloat, ncclSum, world.comms[rank], nullptr) == ncclSuccess);
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  for (const std::vector<float>& b : buffers) {
    for (std::size_t i = 0; i < b.size(); ++i) REQUIRE(b[i] == static_cast<float>(6 + 4 * (i % 7)));
  }
}

TEST_CASE("all ranks of one thread, on queues, with an event") {
  World world(2);
  cudaStream_t streams[2] = {};
  std::vector<std::vector<float>> buffers;
  rondoEvent_t done = nullptr;
  REQUIRE(rondoEventCreate(&done) == ncclSuccess);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    REQUIRE(rondoStreamCreate(&streams[rank]) == ncclSuccess);
    buffers.push_back(values(rank, 70'000));
  }
  for (int round = 0; round < 3; ++round) {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      float* const b = buffers[rank].data();
      CHECK(ncclAllReduce(b, b, 70'000, ncclFloat, ncclMax, world.comms[rank], streams[rank]) == ncclSuccess);
    }
  }
  CHECK(rondoEventRecord(done, streams[0]) == ncclSuccess);
  CHECK(rondoEventSynchronize(done) == ncclSuccess);
  for (cudaStream_t stream : streams) CHECK(rondoStreamSynchronize(stream) == ncclSuccess);
  for (const std::vector<float>& b : buffers) CHECK(b == values(1, 70'000));
  for (cudaStream_t stream : streams) CHECK(rondoStreamDestroy(stream) == ncclSuccess);
  CHECK(rondoEventDestroy(done) == ncclSuccess);
}

TEST_CASE("ranks that disagree on the count are told, and all fail") {
  World world(2);
  std::vector<ncclResult_t> results(2);
  world.as_ranks([&](std::size_t rank, ncclComm_t comm) {
    std::vector<float> b(1000);
    results[rank] = ncclAllReduce(b.data(), b.data(), 10 + rank, ncclFloat, ncclSum, comm, nullptr);
  });
  for (const ncclResult_t result : results) CHECK((result == ncclInvalidUsage || result == ncclRemoteError));
  CHECK(std::string(ncclGetLastError(world.comms[0])).find("all_reduce") != std::string::npos);
}

TEST_CASE("abort ends the calls of every rank") {
  World world(2);
  ncclResult_t result = ncclSuccess;
  std::thread waiting([&] {
    float b = 1;
    result = ncclAllReduce(&b, &b, 1, ncclFloat, ncclSum, world.comms[1], nullptr);
  });
  CHECK(ncclCommAbort(std::exchange(world.comms[0], nullptr)) == ncclSuccess);
  waiting.join();
  CHECK(result != ncclSuccess);
  CHECK(result != ncclTimeout);
}

TEST_CASE("memory of ncclMemAlloc, PreMulSum and avg") {
  World world(2);
  std::vector<float> got(2);
  world.as_ranks([&](std::size_t rank, ncclComm_t comm) {
    void* memory = nullptr;
    const std::size_t count = 1 << 18;
    if (ncclMemAlloc(&memory, count * sizeof(float)) != ncclSuccess) return;
    auto* const b = static_cast<float*>(memory);
    for (std::size_t i = 0; i < count; ++i) b[i] = static_cast<float>(rank + 1);
    ncclRedOp_t op{};
    float scalar = 2;
    ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, ncclScalarHostImmediate, comm);
    ncclAllReduce(b, b, count, ncclFloat, op, comm, nullptr);       // 2 * 1 + 2 * 2
    ncclAllReduce(b, b, count, ncclFloat, ncclAvg, comm, nullptr);  // 6
    got[rank] = b[count - 1];
    ncclRedOpDestroy(op, comm);
    if (ncclMemFree(memory) != ncclSuccess) got[rank] = -1;
  });
  CHECK(got == std::vector<float>{6, 6});
  float outside = 0;
  CHECK(ncclMemFree(&outside) == ncclInvalidArgument);
  CHECK(ncclMemFree(nullptr) == ncclSuccess);
}

}  // namespace
