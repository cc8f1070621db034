// The order of calls, and the thread that may go without it: others see it inside, or it does not enter.
//
// What is wrong here shows as a count that lacks some, or as a communicator in use that is freed; ThreadSanitizer sees
// it, too.  Each order is revoked once, so that there are many, with the moment left to chance.
#define CATCH_CONFIG_MAIN
#include "communicator/order.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "api_fixture.h"

namespace {

using rondo::CallOrder;
using rondo::control::Clock;

constexpr int orders = 300;

constexpr std::chrono::seconds soon(20);

/// One thing done in its turn, or without one.
template <typename Action>
void call(CallOrder& order, Action&& action) {
  if (order.enter()) {
    action();
    order.leave();
    return;
  }
  if (!order.wait_for_turn(order.take_turns(1), soon)) std::abort();
  action();
  order.end_turns(1);
}

/// Runs `work` in a thread for each, all at once.
template <typename... Work>
void at_once(Work... work) {
  std::atomic<int> here{0};
  std::vector<std::thread> threads;
  const auto begin = [&](auto& one) {
    threads.emplace_back([&here, &one] {
      here.fetch_add(1);
      while (here.load() < static_cast<int>(sizeof...(work))) std::this_thread::yield();
      one();
    });
  };
  (begin(work), ...);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("the first thread that calls owns the order until another one calls or ends it") {
  CallOrder order;
  REQUIRE(order.enter());
  CHECK(order.is_inside());
  CHECK_FALSE(order.has_turn(0));
  order.leave();
  CHECK(order.has_turn(0));
  SECTION("its own turns keep it out while they last") {
    const std::uint64_t turn = order.take_turns(2);
    CHECK_FALSE(order.enter());
    order.end_turns(1);
    CHECK_FALSE(order.enter());
    CHECK(order.has_turn(turn + 1));
    order.end_turns(1);
    CHECK(order.enter());
  }
  SECTION("another thread's turn ends it for good") {
    std::thread([&] { order.take_turns(1); }).join();
    order.end_turns(1);
    CHECK_FALSE(order.enter());
    CHECK_FALSE(order.hold());
  }
  SECTION("another thread does not enter") {
    std::thread([&] { CHECK_FALSE(order.enter()); }).join();
    CHECK(order.enter());
  }
  SECTION("it may hold what it is not inside, until that is revoked") {
    REQUIRE(order.hold());
    REQUIRE(order.hold());
    order.let_go();
    CHECK(order.is_held());
    CHECK_FALSE(order.is_inside());
    std::thread([&] { order.revoke(); }).join();
    CHECK(order.is_held());
    order.let_go();
    CHECK_FALSE(order.is_held());
    CHECK_FALSE(order.hold());
    CHECK_FALSE(order.is_held());
  }
}

TEST_CASE("a turn waits for the owner that is inside") {
  CallOrder order;
  REQUIRE(order.enter());
  std::thread([&] { CHECK_FALSE(order.wait_for_turn(order.take_turns(1), std::chrono::milliseconds(5))); }).join();
  order.leave();
  CHECK(order.wait_for_turn(0, soon));
}

TEST_CASE("who waits for a turn is patient as long as calls before it end") {
  CallOrder order;
  constexpr int before = 20;
  order.take_turns(before);
  const std::uint64_t turn = order.take_turns(1);
  std::thread others([&] {
    for (int i = 0; i < before; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      order.end_turns(1);
    }
  });
  CHECK(order.wait_for_turn(turn, std::chrono::milliseconds(1000)));  // and not 2 s
  others.join();
  CHECK_FALSE(order.wait_for_turn(turn + 1, std::chrono::milliseconds(10)));
}

TEST_CASE("calls of several threads go one by one while ownership ends") {
  int wrong = 0;
  for (int i = 0; i < orders; ++i) {
    CallOrder order;
    int count = 0;  // no atomic: the order guards it
    const int others = i % 16 == 0 ? 2 : 1;
    std::atomic<bool> owned{false};
    std::atomic<int> left{others};
    int owners = 0;
    const auto owner = [&] {
      call(order, [&] { ++count; });
      owned = true;
      for (owners = 1; left.load(std::memory_order_relaxed) > 0; ++owners) call(order, [&] { ++count; });
    };
    const auto other = [&] {
      while (!owned) std::this_thread::yield();
      for (int k = i % 64; k > 0; --k) std::atomic_signal_fence(std::memory_order_seq_cst);
      for (int k = 0; k < 3; ++k) call(order, [&] { ++count; });
      left.fetch_sub(1);
    };
    if (others == 2) {
      at_once(owner, other, other);
    } else {
      at_once(owner, other);
    }
    wrong += count != owners + 3 * others;
  }
  CHECK(wrong == 0);
}

TEST_CASE("whoever revokes sees the owner inside, or it does not enter") {
  std::atomic<int> late{0};
  for (int i = 0; i < orders; ++i) {
    CallOrder order;
    auto alive = std::make_unique<std::atomic<bool>>(true);
    std::atomic<bool> owned{false};
    at_once(
        [&] {
          const auto stay = [&] {
            for (int k = 0; k < 100; ++k) late += !alive->load(std::memory_order_relaxed);
          };
          while (order.enter()) {
            stay();
            order.leave();
            if (!order.hold()) return;
            stay();
            order.let_go();
            owned = true;
          }
        },
        [&] {
          while (!owned) std::this_thread::yield();
          for (int k = i % 64; k > 0; --k) std::atomic_signal_fence(std::memory_order_seq_cst);
          order.revoke();
          while (order.is_inside() || order.is_held()) std::this_thread::yield();
          alive->store(false, std::memory_order_relaxed);
        });
  }
  CHECK(late == 0);
}

/// A call of so many elements, which tell it from others.
void call_of(ncclComm_t comm, std::size_t count, cudaStream_t stream = nullptr) {
  static float buffer[8];
  CHECK(ncclBroadcast(buffer, buffer, count, ncclFloat, 0, comm, stream) == ncclSuccess);
}

/// Of all that ran, the call of so many elements.
std::uint64_t turn_of(std::size_t count) {
  const std::lock_guard lock(fake::world().mutex);
  for (const fake::Ran& ran : fake::world().ran) {
    for (const rondo::PendingCall& pending : ran.calls) {
      if (pending.call.count == count) return pending.turn;
    }
  }
  return CallOrder::entered - 1;
}

TEST_CASE("a group behind one without queues keeps the order of its calls, on queues or not") {
  for (const bool first_is_queued : {false, true}) {
    Ranks ranks(1, 1);
    cudaStream_t stream = nullptr;
    REQUIRE(rondoStreamCreate(&stream) == ncclSuccess);
    for (int group = 0; group < 2; ++group) {  // the second of these calls finds the room of the first
      REQUIRE(ncclGroupStart() == ncclSuccess);
      call_of(ranks[0], 1);
      CHECK(ncclGroupEnd() == ncclSuccess);
    }
    REQUIRE(ncclGroupStart() == ncclSuccess);
    for (std::size_t i = 0; i < 4; ++i) call_of(ranks[0], 2 + i, (i % 2 == 0) == first_is_queued ? stream : nullptr);
    CHECK(ncclGroupEnd() == ncclSuccess);
    CHECK(rondoStreamSynchronize(stream) == ncclSuccess);
    for (std::size_t i = 0; i < 4; ++i) CHECK(turn_of(2 + i) == i);
    CHECK(rondoStreamDestroy(stream) == ncclSuccess);
  }
}

TEST_CASE("a group whose owner is revoked while it collects takes a turn for each call") {
  Ranks ranks(1, 1);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  call_of(ranks[0], 1);
  CHECK(ncclGroupEnd() == ncclSuccess);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  call_of(ranks[0], 2);
  call_of(ranks[0], 3);
  std::thread([&] { call_of(ranks[0], 4); }).join();
  CHECK(ncclGroupEnd() == ncclSuccess);
  std::thread([&] { call_of(ranks[0], 5); }).join();
  CHECK(turn_of(4) == 0);
  CHECK(turn_of(2) == 1);
  CHECK(turn_of(3) == 2);
  CHECK(turn_of(5) == 3);
}

TEST_CASE("a communicator that is aborted while its owner collects a group is freed at the group's end") {
  for (const bool has_called : {false, true}) {
    Ranks ranks(2, 2);
    float value[2] = {};
    ncclComm_t comm = ranks[0];
    if (has_called) REQUIRE(ncclBroadcast(value, value, 1, ncclFloat, 0, comm, nullptr) == ncclSuccess);
    REQUIRE(ncclGroupStart() == ncclSuccess);
    REQUIRE(ncclSend(value, 1, ncclFloat, 1, comm, nullptr) == ncclSuccess);
    REQUIRE(ncclRecv(value + 1, 1, ncclFloat, 1, comm, nullptr) == ncclSuccess);
    std::thread([&] { CHECK(ncclCommAbort(ranks.take(0)) == ncclSuccess); }).join();
    CHECK(fake::world().alive == 2);
    fake::world().outcome = [](const rondo::PendingCall& pending) { return pending.communicator->status(); };
    CHECK(ncclGroupEnd() == ncclInvalidUsage);
    CHECK(fake::world().alive == 1);
  }
}

TEST_CASE("a group that is forgotten lets go of an aborted communicator") {
  Ranks ranks(1, 1);
  float value = 0;
  REQUIRE(ncclGroupStart() == ncclSuccess);
  REQUIRE(ncclBroadcast(&value, &value, 1, ncclFloat, 0, ranks[0], nullptr) == ncclSuccess);
  std::thread([&] { CHECK(ncclCommAbort(ranks.take(0)) == ncclSuccess); }).join();
  CHECK(fake::world().alive == 1);
  CHECK(ncclGroupSimulateEnd(nullptr) == ncclInvalidUsage);
  CHECK(fake::world().alive == 0);
}

TEST_CASE("threads call while another one ends the communicator") {
  for (int i = 0; i < 50; ++i) {
    Ranks ranks(1, 1);
    ncclComm_t comm = ranks[0];
    std::atomic<int> calling{0};
    std::atomic<int> ended{0};
    fake::world().outcome = [&](const rondo::PendingCall& pending) {
      calling.fetch_add(1);
      while (pending.communicator->status().ok()) std::this_thread::yield();
      ended.fetch_add(1);
      return pending.communicator->status();
    };
    const auto caller = [&] {
      float value = 0;
      if (ncclBroadcast(&value, &value, 1, ncclFloat, 0, comm, nullptr) != ncclInvalidUsage) std::abort();
    };
    at_once(caller, caller, [&] {
      while (calling < 2) std::this_thread::yield();
      if (ncclCommAbort(ranks.take(0)) != ncclSuccess || ended != 2) std::abort();
    });
    CHECK(fake::world().alive == 0);
  }
}
