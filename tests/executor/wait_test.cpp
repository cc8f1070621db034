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

/// A turn in which nothing came.
void one_turn(Waiter& waiter) {
  waiter.turn([] { return false; }, [](Wakeups&) {});
}

/// One wait of so many turns; how often it yielded.  What it waited for comes as the next wait begins.
int yields_in(Waiter& waiter, int turns) {
  const int before = yields;
  waiter.moved();
  for (int i = 0; i < turns; ++i) one_turn(waiter);
  return yields - before;
}

/// Of several waits, each of one turn.
int yields_in_waits(Waiter& waiter, int waits) {
  int all = 0;
  for (int i = 0; i < waits; ++i) all += yields_in(waiter, 1);
  return all;
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

TEST_CASE("Where cores are short who waits looks on before it yields, as long as that pays; a worker never yields") {
  Doorbell doorbell = Doorbell::create();
  on_a_thread([&] {
    Waiter waiter(WaitStyle::yield, doorbell, 1s);
    CHECK(yields_in(waiter, LookingOn::looks - 1) == 0);  // an answer came: the next wait begins
    CHECK(!Waiter::yield_at_once());
    CHECK(yields_in(waiter, LookingOn::looks) == 1);
    // That was in vain, and so the next waits yield at once.
    CHECK(yields_in_waits(waiter, LookingOn::pass_over_min) == LookingOn::pass_over_min);
    CHECK(yields_in(waiter, LookingOn::looks - 1) == 0);
  });
  on_a_thread([&] {
    Waiter waiter(WaitStyle::yield, doorbell, 1s);
    waiter.sleep_as(Waiter::Sleep::on_sockets);
    CHECK(yields_in(waiter, 20) == 20);  // there each look is a system call
  });
  Waiter worker(WaitStyle::polite, doorbell, 1s);
  CHECK(yields_in(worker, 15) == 0);
}

TEST_CASE("Who has yielded in vain looks some times before it yields again, at the beginning of a wait") {
  Doorbell doorbell = Doorbell::create();
  on_a_thread([&] {
    Waiter waiter(WaitStyle::yield, doorbell, 1s);
    yields_in(waiter, LookingOn::looks);  // in vain: no wait looks on first from now on
    CHECK(yields_in(waiter, 30) == 1);
    CHECK(yields_in(waiter, 31) == 2);
    CHECK(yields_in(waiter, 61) == 3);
    CHECK(yields_in(waiter, 70) == 12);  // what takes longer leaves the core to those that bring it
    // Who has made nothing ready for a wait may do the first of them by itself.
    const int before = yields;
    CHECK(Waiter::yield_at_once());
    CHECK(yields == before + 1);
    CHECK(yields_in(waiter, 1) == 1);  // each wait begins anew
  });
}

TEST_CASE("What is in vain is tried ever more rarely, and soon again once it has paid") {
  Doorbell doorbell = Doorbell::create();
  on_a_thread([&] {
    Waiter waiter(WaitStyle::yield, doorbell, 1s);
    int tries = 0;
    for (int i = 0; i < 2 * LookingOn::pass_over_max; ++i) {
      if (yields_in(waiter, 1) != 0) continue;
      for (unsigned turn = 1; turn < LookingOn::looks; ++turn) one_turn(waiter);
      ++tries;
    }
    CHECK(tries >= 5);
    CHECK(tries <= 10);
    int passed_over = 0;
    while (passed_over <= LookingOn::pass_over_max && yields_in(waiter, 1) != 0) ++passed_over;
    CHECK(passed_over <= LookingOn::pass_over_max);
    CHECK(yields_in_waits(waiter, 20) == 0);  // all paid
    for (int i = 0; i < 20 && yields_in(waiter, 1) == 0; ++i) {
      for (unsigned turn = 1; turn < LookingOn::looks; ++turn) one_turn(waiter);
    }
    CHECK(yields_in_waits(waiter, LookingOn::pass_over_min) == LookingOn::pass_over_min - 1);
  });
}

TEST_CASE("Who looks on yields now and then all the same: others have its core, too") {
  Doorbell doorbell = Doorbell::create();
  on_a_thread([&] {
    Waiter waiter(WaitStyle::yield, doorbell, 1s);
    CHECK(yields_in_waits(waiter, LookingOn::in_a_row_max) == 0);
    CHECK(yields_in_waits(waiter, LookingOn::in_a_row_max + 1) == 1);
  });
}

}  // namespace
