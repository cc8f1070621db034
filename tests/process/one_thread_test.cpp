// One thread that calls for several ranks: groups in any order work; what would deadlock is an error that says why.
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ranks.h"

namespace rondo::test {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool counts_threads = false;  // its runtime has a thread of its own, which could be anybody's
#else
constexpr bool counts_threads = true;
#endif

/// Communicators of all ranks of one world in this process.
std::vector<ncclComm_t> init_all(int ranks) {
  std::vector<ncclComm_t> comms(static_cast<std::size_t>(ranks));
  expect_success(ncclCommInitAll(comms.data(), ranks, nullptr), "ncclCommInitAll");
  return comms;
}

void destroy(const std::vector<ncclComm_t>& comms) {
  for (const ncclComm_t comm : comms) ncclCommDestroy(comm);
}

/// One all-reduce over all of `comms`, called in their order between GroupStart and GroupEnd.
void reduce_in_group(const std::vector<ncclComm_t>& comms, std::size_t count, float wanted) {
  std::vector<std::vector<float>> data(comms.size(), std::vector<float>(count, 1));
  expect_success(ncclGroupStart(), "ncclGroupStart");
  for (std::size_t i = 0; i < comms.size(); ++i) {
    expect_success(ncclAllReduce(data[i].data(), data[i].data(), count, ncclFloat32, ncclSum, comms[i], nullptr),
                   "call");
  }
  expect_success(ncclGroupEnd(), "ncclGroupEnd");
  for (const auto& part : data) expect(part.front() == wanted && part.back() == wanted, "the sum");
}

using Call = std::function<ncclResult_t(ncclComm_t comm, void* buffer, std::size_t count)>;

/// `call` of rank `rank` alone must fail, and name the other one.
void expect_stranded(int rank, bool warm, const Call& call) {
  const std::string trouble = run_ranks(Ranks::processes, 1, [&](int) {
    const std::vector<ncclComm_t> comms = init_all(2);
    for (const std::size_t count : {100'000, 2}) {
      if (warm) reduce_in_group(comms, count, 2);
    }
    std::vector<float> buffer(5'000'000);  // more than sockets take
    const ncclComm_t comm = comms[static_cast<std::size_t>(rank)];
    const Said said = timed(comm, [&] { return call(comm, buffer.data(), buffer.size()); });
    expect(said.result == ncclInvalidUsage, "the code, with the sentence: " + said.sentence);
    expect_says(said.sentence, {"rank " + std::to_string(1 - rank), "no other thread", "ncclGroupStart"});
    destroy(comms);
  });
  REQUIRE(trouble == "");
}

TEST_CASE("a call that only this thread could answer is an error") {
  if (!counts_threads) return;
  const Setting timeout("RONDO_TIMEOUT", "20");
  const bool warm = GENERATE(false, true);
  const int rank = GENERATE(0, 1);
  CAPTURE(warm, rank);
  SECTION("all_reduce") {
    expect_stranded(rank, warm, [](ncclComm_t comm, void* buffer, std::size_t count) {
      return ncclAllReduce(buffer, buffer, count, ncclFloat32, ncclSum, comm, nullptr);
    });
  }
  SECTION("8 bytes") {  // warm, by the short path: a call like the last one
    expect_stranded(rank, warm, [](ncclComm_t comm, void* buffer, std::size_t) {
      return ncclAllReduce(buffer, buffer, 2, ncclFloat32, ncclSum, comm, nullptr);
    });
  }
  SECTION("broadcast from the other one") {
    expect_stranded(rank, warm, [rank](ncclComm_t comm, void* buffer, std::size_t count) {
      return ncclBroadcast(buffer, buffer, count, ncclFloat32, 1 - rank, comm, nullptr);
    });
  }
  SECTION("receive") {
    expect_stranded(rank, warm, [rank](ncclComm_t comm, void* buffer, std::size_t count) {
      return ncclRecv(buffer, count, ncclFloat32, 1 - rank, comm, nullptr);
    });
  }
  SECTION("send") {
    expect_stranded(rank, warm, [rank](ncclComm_t comm, void* buffer, std::size_t count) {
      return ncclSend(buffer, count, ncclFloat32, 1 - rank, comm, nullptr);
    });
  }
}

TEST_CASE("a group may name its communicators in any order") {
  const std::string trouble = run_ranks(Ranks::processes, 1, [](int) {
    for (const std::vector<int>& order : {std::vector{2, 1, 0}, std::vector{1, 2, 0}, std::vector{0, 2, 1}}) {
      const std::vector<ncclComm_t> comms = init_all(3);
      std::vector<ncclComm_t> named;
      for (const int rank : order) named.push_back(comms[static_cast<std::size_t>(rank)]);
      for (const std::size_t count : {1, 5'000, 200'000}) reduce_in_group(named, count, 3);
      destroy(comms);
    }
  });
  REQUIRE(trouble == "");
}

TEST_CASE("groups of two processes may open their links crosswise") {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 2, [&](int process) {
    // The first of each waits for a link that the second of the other is to start.
    const std::vector<int> mine = process == 0 ? std::vector{1, 2} : std::vector{3, 0};
    const ncclUniqueId id = meeting->id(0, process);
    std::vector<ncclComm_t> comms(2);
    expect_success(ncclGroupStart(), "ncclGroupStart");
    for (std::size_t i = 0; i < 2; ++i) expect_success(ncclCommInitRank(&comms[i], 4, id, mine[i]), "init");
    expect_success(ncclGroupEnd(), "ncclGroupEnd");
    for (const std::size_t count : {1, 5'000, 200'000}) reduce_in_group(comms, count, 4);
    destroy(comms);
  });
  REQUIRE(trouble == "");
}

TEST_CASE("a rank of the same process whose thread or queue is late is waited for") {
  const auto late = std::chrono::milliseconds(300);
  const std::string trouble = run_ranks(Ranks::processes, 1, [&](int) {
    const std::vector<ncclComm_t> comms = init_all(2);
    for (const bool queued : {false, true}) {
      for (const std::size_t count : {2, 200'000}) {
        std::vector<float> data[2] = {std::vector<float>(count, 1), std::vector<float>(count, 1)};
        const auto call = [&](int rank, cudaStream_t stream) {
          float* const buffer = data[rank].data();
          return ncclAllReduce(buffer, buffer, count, ncclFloat32, ncclSum, comms[static_cast<std::size_t>(rank)],
                               stream);
        };
        cudaStream_t queue = nullptr;
        std::thread thread;
        ncclResult_t other = ncclSuccess;
        if (queued) {
          expect_success(rondoStreamCreate(&queue), "rondoStreamCreate");
          expect_success(call(1, queue), "rank 1 by a queue");
        } else {
          thread = std::thread([&] {
            std::this_thread::sleep_for(late);
            other = call(1, nullptr);
          });
        }
        const ncclResult_t here = call(0, nullptr);
        if (thread.joinable()) thread.join();
        if (queued) expect_success(rondoStreamDestroy(queue), "rondoStreamDestroy");
        expect_success(here, "rank 0");
        expect_success(other, "rank 1");
        expect(data[0].back() == 2 && data[1].back() == 2, "the sum");
      }
    }
    destroy(comms);
  });
  REQUIRE(trouble == "");
}

}  // namespace
}  // namespace rondo::test
