// Ranks as processes or threads: see ranks.h.
#include "ranks.h"

#include <sched.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace rondo::test {
namespace {

constexpr int patience_ms = 30000;

template <class Condition>
void await(Condition&& condition, const char* what) {
  for (int i = 0; !condition(); ++i) {
    if (i >= 2 * patience_ms) throw std::runtime_error(std::string("waited too long for ") + what);
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
}

}  // namespace

ncclUniqueId Meeting::id(int number, int rank) {
  if (rank == 0) {
    expect_success(ncclGetUniqueId(&ids[number]), "ncclGetUniqueId");
    ready[number].store(1);
  }
  await([&] { return ready[number].load() != 0; }, "the id");
  return ids[number];
}

ncclComm_t Meeting::join(int number, int rank, int ranks) {
  ncclComm_t comm = nullptr;
  expect_success(ncclCommInitRank(&comm, ranks, id(number, rank), rank), "ncclCommInitRank");
  return comm;
}

void Meeting::barrier(int ranks, int& passed) {
  arrived.fetch_add(1);
  ++passed;
  await([&] { return arrived.load() >= passed * ranks; }, "the other ranks of the test");
}

void expect_result(ncclResult_t result, ncclResult_t wanted, const std::string& what) {
  if (result == wanted) return;
  throw std::runtime_error(what + " gave " + std::to_string(result) + ", not " + std::to_string(wanted) + ": " +
                           ncclGetLastError(nullptr));
}

void expect_says(const std::string& text, std::initializer_list<std::string> parts) {
  for (const std::string& part : parts) {
    if (!contains(text, part)) throw std::runtime_error("'" + text + "' does not say '" + part + "'");
  }
}

std::string run_ranks(Ranks how, int ranks, const std::function<void(int rank)>& body) {
  if (how == Ranks::processes) {
    World world(ranks, [&](int rank, Board&) { body(rank); });
    return world.trouble();
  }
  World world(1, [&](int, Board&) {
    std::mutex mutex;
    std::string trouble;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          body(rank);
        } catch (const std::exception& error) {
          const std::lock_guard lock(mutex);
          trouble += "thread of rank " + std::to_string(rank) + ": " + error.what() + "\n";
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (!trouble.empty()) throw std::runtime_error(trouble);
  });
  return world.trouble();
}

void share_a_core() {
  cpu_set_t allowed, one;
  expect(::sched_getaffinity(0, sizeof allowed, &allowed) == 0, "the CPUs that may be used");
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  expect(::sched_setaffinity(0, sizeof one, &one) == 0, "one CPU");
}

void leave(ncclComm_t comm) {
  static std::vector<ncclComm_t>& left = *new std::vector<ncclComm_t>;
  left.push_back(comm);
}

Said timed(ncclComm_t comm, const std::function<ncclResult_t()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  Said said;
  said.result = call();
  said.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  said.sentence = ncclGetLastError(comm);
  return said;
}

ncclResult_t all_reduce_floats(ncclComm_t comm, std::size_t count, cudaStream_t stream) {
  std::vector<float> data(count, 1.0f);
  const ncclResult_t result = ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, comm, stream);
  if (stream == nullptr || result != ncclSuccess) return result;
  return rondoStreamSynchronize(stream);
}

int environment_number(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

}  // namespace rondo::test
