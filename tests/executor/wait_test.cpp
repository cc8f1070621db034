// How callers and workers wait, by counting: sched_yield is this program's own.  When they sleep is a matter of time,
// which tests do not assert.
#define CATCH_CONFIG_MAIN
#include "wait.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

namespace {

using namespace rondo;
using namespace std::chrono_literals;

int yields = 0;
bool others_run = false;  // for so long that it shows

}  // namespace

extern "C" int sched_yield() noexcept {
  ++yields;
  const auto began = Waiter::Clock::now();
  while (others_run && Waiter::Clock::now() - began < 400us) pause_cpu();
  return 0;
}

namespace {

/// One wait of so many turns, in vain; how often it yielded.
int yields_in(Waiter& waiter, int turns) {
  const int before = yields;
  waiter.moved();
  const auto nothing = [] { return false; };
  for (int i = 0; i < turns; ++i) waiter.turn(nothing, [](Wakeups&) {});
  return yields - before;
}

/// What a thread has learnt is its own: one for each case.
template <typename Case>
void on_a_thread(Case&& body) {
  std::thread(body).join();
}

TEST_CASE("Who spins yields once an answer is late, and sooner where that let one come") {
  Doorbell doorbell = Doorbell::create();
  on_a_thread([&] {
    Waiter waiter(WaitStyle::spin, doorbell, 1s);
    const int at_once = yields_in(waiter, 63);
    const int soon = yields_in(waiter, 255);
    const int late = yields_in(waiter, 256);
    const int after_an_answer = yields_in(waiter, 64);
    CHECK(at_once == 0);
    CHECK(soon == 0);
    CHECK(late == 1);
    CHECK(after_an_answer == 1);
    // Where one brought none it is late again.  A machine that halts this thread in the midst is asked once more.
    int in_vain = 0;
    for (int i = 0; i < 20 && in_vain != 2; ++i) {
      yields_in(waiter, 256);
      in_vain = yields_in(waiter, 128);
    }
    CHECK(in_vain == 2);
    CHECK(yields_in(waiter, 64) == 0);
  });
}

TEST_CASE("Who spins keeps its core where other work would take it, for a while") {
  Doorbell doorbell = Doorbell::create();
  on_a_thread([&] {
    Waiter waiter(WaitStyle::spin, doorbell, 1s);
    others_run = true;
    CHECK(yields_in(waiter, 256) == 1);
    others_run = false;
    int later = 0;
    for (int i = 0; i < 255; ++i) later += yields_in(waiter, 256);
    CHECK(later == 0);
    for (int i = 0; i < 3; ++i) later += yields_in(waiter, 256);
    CHECK(later > 0);
  });
}

TEST_CASE("Where cores are short every turn yields; a worker never does") {
  Doorbell doorbell = Doorbell::create();
  Waiter waiter(WaitStyle::yield, doorbell, 1s);
  CHECK(yields_in(waiter, 20) == 20);
  Waiter worker(WaitStyle::polite, doorbell, 1s);
  CHECK(yields_in(worker, 15) == 0);
}

}  // namespace
