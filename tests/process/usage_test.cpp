// Calls that do not match, calls that nobody answers, aborts, forks: an error on every rank that says what is wrong,
// and what was well goes on.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "ranks.h"

namespace rondo::test {
namespace {

constexpr double soon_s = 5;

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

void expect_soon(const Said& said) {
  if (said.seconds > soon_s) throw std::runtime_error("it took " + std::to_string(said.seconds) + " s");
}

void expect_code(const Said& said, ncclResult_t wanted) {
  if (said.result == wanted) return;
  throw std::runtime_error("code " + std::to_string(said.result) + ", not " + std::to_string(wanted) + ": " +
                           said.sentence);
}

using Call = std::function<ncclResult_t(int rank, ncclComm_t comm, void* buffer)>;

/// Ranks 0 and 1 of three make calls that do not match; every rank must hear of both ranks and both calls.
void expect_mismatch(const Call& call, std::initializer_list<std::string> calls) {
  for (const char* algorithm : {"ring", "star", "one_shot", "two_shot"}) {
    const Setting setting("NCCL_ALGO", algorithm);
    const Shared<Meeting> meeting;
    const std::string trouble = run_ranks(Ranks::processes, 3, [&](int rank) {
      const ncclComm_t comm = meeting->join(0, rank, 3);
      expect_success(all_reduce_floats(comm, 10), "a sound call");
      std::vector<double> buffer(200'000);
      const Said said = timed(comm, [&] { return call(rank, comm, buffer.data()); });
      expect_soon(said);
      // The rank that sees it says so; those it tells get an error of another rank.
      if (said.result != ncclInvalidUsage) expect_code(said, ncclRemoteError);
      expect_says(said.sentence, {"rank 0", "calls do not match"});
      for (const std::string& part : calls) expect_says(said.sentence, {part});
      ncclCommDestroy(comm);
    });
    INFO(algorithm);
    REQUIRE(trouble == "");
  }
}

TEST_CASE("calls that do not match are an error on every rank") {
  for (const std::size_t size : {std::size_t{1}, std::size_t{1000}, std::size_t{100'000}}) {
    expect_mismatch(
        [&](int rank, ncclComm_t comm, void* buffer) {
          const std::size_t count = rank == 0 ? size + 1 : size;
          return ncclAllReduce(buffer, buffer, count, ncclFloat32, ncclSum, comm, nullptr);
        },
        {"of " + std::to_string(size + 1) + " float32", "of " + std::to_string(size) + " float32"});
  }
  expect_mismatch(
      [](int rank, ncclComm_t comm, void* buffer) {
        return ncclAllReduce(buffer, buffer, 500, rank == 0 ? ncclInt32 : ncclFloat32, ncclSum, comm, nullptr);
      },
      {"int32", "float32"});
  expect_mismatch(
      [](int rank, ncclComm_t comm, void* buffer) {
        return ncclAllReduce(buffer, buffer, 500, ncclFloat32, rank == 0 ? ncclMax : ncclSum, comm, nullptr);
      },
      {"(max)", "(sum)"});
}

TEST_CASE("calls of a group that do not match end the others that wait for their links") {
  const auto odd = [](int rank, ncclComm_t comm, float* data) {
    const std::size_t count = rank == 0 ? 1u << 16 : 1u << 17;
    return ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, nullptr);
  };
  const auto check = [](const Said& said) {
    expect_soon(said);
    if (said.result != ncclInvalidUsage) expect_code(said, ncclRemoteError);
    expect_says(said.sentence, {"calls do not match"});
  };
  for (const bool message : {false, true}) {
    const Shared<Meeting> meeting;
    const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
      const ncclComm_t comm = meeting->join(0, rank, 2);
      std::vector<float> first(1u << 17), second(1u << 17), third(1u << 17);
      const auto sound = [&] {
        const std::size_t count = second.size() / 2;
        if (!message) return ncclAllReduce(second.data(), third.data(), count, ncclFloat32, ncclSum, comm, nullptr);
        const ncclResult_t sent = ncclSend(second.data(), count, ncclFloat32, 1 - rank, comm, nullptr);
        return sent != ncclSuccess ? sent : ncclRecv(third.data(), count, ncclFloat32, 1 - rank, comm, nullptr);
      };
      check(timed(comm, [&] {
        ncclGroupStart();
        expect_success(odd(rank, comm, first.data()), "to call in a group");
        expect_success(sound(), "to call in a group");
        return ncclGroupEnd();
      }));
      ncclCommDestroy(comm);
    });
    INFO((message ? "before a message" : "before an all-reduce"));
    REQUIRE(trouble == "");
  }
}

TEST_CASE("queued calls that do not match end those that run beside them") {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
    const ncclComm_t comm = meeting->join(0, rank, 2);
    float in[32][8] = {}, out[32][8] = {};
    const auto call = [&](int place, std::size_t count, cudaStream_t queue) {
      expect_success(ncclAllReduce(in[place], out[place], count, ncclFloat32, ncclSum, comm, queue), "a call");
    };
    for (const std::size_t count : {4, 5, 4, 5}) call(0, count, nullptr);  // so that queued ones can run ahead
    cudaStream_t queue = nullptr;
    expect_success(rondoStreamCreate(&queue), "rondoStreamCreate");
    for (int i = 0; i < 32; ++i)
      (void)ncclAllReduce(in[i], out[i], rank == 0 ? 4 : 5, ncclFloat32, ncclSum, comm, queue);
    const Said said = timed(comm, [&] { return rondoStreamSynchronize(queue); });
    expect_soon(said);
    if (said.result != ncclInvalidUsage) expect_code(said, ncclRemoteError);
    expect_says(said.sentence, {"calls do not match"});
    ncclCommDestroy(comm);
  });
  REQUIRE(trouble == "");
}

TEST_CASE("another collective, or another order, is an error on every rank") {
  const auto one = [](ncclComm_t comm, void* buffer) {
    return ncclAllReduce(buffer, buffer, 500, ncclFloat32, ncclSum, comm, nullptr);
  };
  const auto other = [](ncclComm_t comm, void* buffer) {
    return ncclBroadcast(buffer, buffer, 500, ncclFloat32, 1, comm, nullptr);
  };
  for (const int odd : {0, 1, 2}) {
    const Setting timeout("RONDO_TIMEOUT", "3");
    const Shared<Meeting> meeting;
    const std::string trouble = run_ranks(Ranks::processes, 3, [&](int rank) {
      const ncclComm_t comm = meeting->join(0, rank, 3);
      std::vector<float> buffer(500);
      const Said said = timed(comm, [&] {
        const ncclResult_t first = rank == odd ? other(comm, buffer.data()) : one(comm, buffer.data());
        return first != ncclSuccess ? first : rank == odd ? one(comm, buffer.data()) : other(comm, buffer.data());
      });
      expect_soon(said);
      if (said.result != ncclInvalidUsage) expect_code(said, ncclRemoteError);
      // A broadcast's root runs ahead: then it is its next call that meets the others' first.
      expect_says(said.sentence, {"all_reduce", contains(said.sentence, "broadcast") ? "" : "call 1"});
      ncclCommDestroy(comm);
    });
    INFO("rank " << odd << " calls in another order");
    REQUIRE(trouble == "");
  }
}

TEST_CASE("a rank that never calls is named when time is up") {
  for (const int absent : {0, 1, 2}) {
    const Setting timeout("RONDO_TIMEOUT", "2");
    const Shared<Meeting> meeting;
    const std::string trouble = run_ranks(Ranks::processes, 3, [&](int rank) {
      const ncclComm_t comm = meeting->join(0, rank, 3);
      expect_success(all_reduce_floats(comm, 10), "a sound call");
      if (rank == absent) {
        ncclResult_t error = ncclSuccess;
        while (error == ncclSuccess) ncclCommGetAsyncError(comm, &error), sleep_ms(5);
      } else {
        const Said said = timed(comm, [&] { return all_reduce_floats(comm, 10); });
        if (said.result != ncclTimeout) expect_code(said, ncclRemoteError);
        expect_says(said.sentence, {"RONDO_TIMEOUT", "rank " + std::to_string(absent) + " (host"});
        if (said.seconds < 1.5) throw std::runtime_error("before its time");
      }
      ncclCommDestroy(comm);
    });
    INFO("rank " << absent << " does not call");
    REQUIRE(trouble == "");
  }
}

TEST_CASE("a rank that never joins is named when time is up") {
  const Setting timeout("RONDO_TIMEOUT", "1");
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 3, [&](int rank) {
    const ncclUniqueId id = meeting->id(0, rank);
    int passed = 0;
    if (rank == 2) return meeting->barrier(3, passed);
    ncclComm_t comm = nullptr;
    const Said said = timed(nullptr, [&] { return ncclCommInitRank(&comm, 3, id, rank); });
    expect_code(said, ncclTimeout);
    expect_says(said.sentence, {"rank 2", "RONDO_TIMEOUT"});
    expect(comm == nullptr, "no handle");
    meeting->barrier(3, passed);
  });
  REQUIRE(trouble == "");
}

TEST_CASE("an abort from another thread ends a blocked call here and on the others") {
  for (const int aborts : {0, 2}) {
    for (const std::size_t count : {std::size_t{10}, std::size_t{1} << 20}) {
      const Shared<Meeting> meeting;
      const std::string trouble = run_ranks(Ranks::processes, 3, [&](int rank) {
        const ncclComm_t comm = meeting->join(0, rank, 3);
        expect_success(all_reduce_floats(comm, 10), "a sound call");
        if (rank == 1) {  // does not call, so that the others wait
          const Said said = timed(comm, [&] {
            ncclResult_t error = ncclSuccess;
            while (error == ncclSuccess) ncclCommGetAsyncError(comm, &error), sleep_ms(1);
            return error;
          });
          expect_code(said, ncclRemoteError);
          expect_says(said.sentence, {"rank " + std::to_string(aborts) + " (host", "aborted"});
          ncclCommDestroy(comm);
          return;
        }
        std::thread aborter;
        if (rank == aborts) {
          aborter = std::thread([&] {
            sleep_ms(100);
            const Said said = timed(nullptr, [&] { return ncclCommAbort(comm); });
            if (said.seconds > soon_s || said.result != ncclSuccess) std::abort();
          });
        }
        std::vector<float> data(count);
        const Said said = timed(nullptr, [&] {
          return ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, comm, nullptr);
        });
        expect_soon(said);
        expect(said.result != ncclSuccess, "an error");
        if (aborter.joinable()) return aborter.join();
        expect_code(said, ncclRemoteError);
        expect_says(said.sentence, {"rank " + std::to_string(aborts) + " (host", "aborted"});
        ncclCommAbort(comm);
      });
      INFO("rank " << aborts << " aborts a call of " << count);
      REQUIRE(trouble == "");
    }
  }
}

TEST_CASE("a forked child can use nothing and end, and its parent goes on") {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
    const ncclComm_t comm = meeting->join(0, rank, 2);
    cudaStream_t queue = nullptr;
    expect_success(rondoStreamCreate(&queue), "rondoStreamCreate");
    void* memory = nullptr;
    expect_success(ncclMemAlloc(&memory, 1 << 20), "ncclMemAlloc");
    for (int round = 0; round < 3; ++round) {
      expect_success(all_reduce_floats(comm, 1000), "a call");
      const pid_t child = ::fork();
      if (child == 0) {
        const Said call = timed(nullptr, [&] { return all_reduce_floats(comm, 1000); });
        const Said queued = timed(nullptr, [&] { return all_reduce_floats(comm, 1000, queue); });
        ncclUniqueId id;
        const Said made = timed(nullptr, [&] { return ncclGetUniqueId(&id); });
        ncclCommDestroy(comm);
        ncclMemFree(memory);
        const bool right = call.result == ncclInvalidUsage && queued.result == ncclInvalidUsage &&
                           made.result == ncclInvalidUsage && contains(call.sentence, "fork");
        if (!right)
          std::fprintf(stderr, "%d %d %d %s\n", call.result, queued.result, made.result, call.sentence.c_str());
#if !defined(__SANITIZE_ADDRESS__)  // which takes what the parent's threads own for leaks
        if (round == 1) std::exit(right ? 0 : 1);
#endif
        ::_exit(right ? 0 : 1);
      }
      expect_success(all_reduce_floats(comm, 1000), "a call beside the child");
      int status = -1;
      expect(::waitpid(child, &status, 0) == child, "the child's end");
      expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child's errors, status " + std::to_string(status));
      expect_success(all_reduce_floats(comm, 1 << 20), "a call after the child");
    }
    expect_success(ncclMemFree(memory), "ncclMemFree");
    expect_success(rondoStreamDestroy(queue), "rondoStreamDestroy");
    expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
  });
  REQUIRE(trouble == "");
}

TEST_CASE("two communicators in two threads of each process do not meet") {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 3, [&](int rank) {
    std::string wrong[2];
    std::thread threads[2];
    for (int which = 0; which < 2; ++which) {
      threads[which] = std::thread([&, which] {
        try {
          // The second one has its ranks the other way round.
          const int mine = which == 0 ? rank : 2 - rank;
          const ncclComm_t comm = meeting->join(which, mine, 3);
          for (int i = 0; i < 300; ++i) {
            std::vector<float> data(i % 7 == 0 ? 50'000 : 50, static_cast<float>(i + mine));
            expect_success(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr),
                           "a call");
            for (const float value : data) expect(value == static_cast<float>(3 * i + 3), "the exact sum");
          }
          expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
        } catch (const std::exception& error) {
          wrong[which] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    expect(wrong[0].empty() && wrong[1].empty(), wrong[0] + wrong[1]);
  });
  REQUIRE(trouble == "");
}

}  // namespace
}  // namespace rondo::test
