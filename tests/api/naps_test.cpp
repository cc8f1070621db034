// A queue's worker that is woken again and again naps: calls gather meanwhile, whoever waits or asks is served at once,
// and a worker with nothing to do is not on its feet.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "api_fixture.h"
#include "queue.h"

namespace {

using namespace std::chrono_literals;

/// A queue of the fake's calls.  Nothing here is waited for longer than a test that fails may take.
struct Given {
  explicit Given(std::chrono::microseconds shortest_nap) : queue(shortest_nap) {}
  Ranks ranks{2, 1};
  rondo::Queue queue;
  float data[4] = {};

  void call(int part = 0) {
    rondo::Call call;
    call.in = call.out = &data[part];
    call.count = 1;
    queue.push_call(ranks[0], call, nullptr);
  }
  static std::size_t ran() {
    const std::lock_guard lock(fake::world().mutex);
    return fake::world().ran.size();
  }
  static std::size_t calls_ran() {
    const std::lock_guard lock(fake::world().mutex);
    std::size_t calls = 0;
    for (const fake::Ran& ran : fake::world().ran) calls += ran.calls.size();
    return calls;
  }
  static bool ran_here() {
    const std::lock_guard lock(fake::world().mutex);
    return fake::world().ran.back().thread == std::this_thread::get_id();
  }
  /// Gives a call; whether the worker has run it after so long at the most.  Looks without pause: the worker naps only
  /// where calls come soon after each other.
  bool comes(std::chrono::milliseconds most = 10s) {
    const std::size_t before = ran();
    call();
    const auto until = std::chrono::steady_clock::now() + most;
    while (ran() == before && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return ran() != before;
  }
  /// Calls until the worker does not come; the last call is still there.
  bool falls_asleep() {
    for (int call = 0; call < 100; ++call) {
      if (!comes(100ms)) return true;
    }
    return false;
  }
};

/// How often queues' workers of this process have gone to sleep.
long times_slept() {
  long sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name, word;
    std::ifstream(task.path() / "comm") >> name;
    if (name != "rondo-queue") continue;
    std::ifstream status(task.path() / "status");
    while (status >> word && word != "voluntary_ctxt_switches:") {
    }
    long times = 0;
    status >> times;
    sum += times;
  }
  return sum;
}

}  // namespace

TEST_CASE("a worker that is woken again and again naps, and who waits runs what has gathered") {
  Given given(1h);
  REQUIRE(given.falls_asleep());
  given.call();
  CHECK_FALSE(given.comes(20ms));
  const std::size_t before = Given::ran();
  given.queue.drain();
  CHECK(Given::ran() == before + 3);
  CHECK(Given::ran_here());
}

TEST_CASE("who waits for a call runs none behind it, though they might run at once") {
  Given given(1h);
  REQUIRE(given.falls_asleep());
  fake::world().runs_ahead = true;
  for (const int part : {1, 2, 3}) given.call(part);
  const std::size_t before = Given::calls_ran();
  given.queue.wait(before + 2);  // the one that is still there, and one more
  CHECK(Given::calls_ran() == before + 2);
  CHECK(Given::ran_here());
}

TEST_CASE("it comes at once when somebody asks, and then does not nap") {
  Given given(1h);
  REQUIRE(given.falls_asleep());
  for (auto slept = 0ms; !given.queue.ask() && slept < 10s; slept += 1ms) std::this_thread::sleep_for(1ms);
  REQUIRE(given.queue.ask());
  CHECK_FALSE(Given::ran_here());
  CHECK(given.comes());
}

TEST_CASE("a nap ends by itself") {
  Given given(1ms);
  bool all = true;
  for (int call = 0; call < 60 && all; ++call) all = given.comes();
  CHECK(all);
}

TEST_CASE("a worker that has nothing to do does not wake up to nap again") {
  Given given(1ms);
  for (int call = 0; call < 60; ++call) {
    const std::size_t before = Given::ran();
    given.call();
    while (Given::ran() == before) std::this_thread::yield();
  }
  bool rests = false;
  for (int look = 0; look < 20 && !rests; ++look) {
    const long before = times_slept();
    std::this_thread::sleep_for(60ms);
    rests = times_slept() == before;
  }
  CHECK(rests);
}
