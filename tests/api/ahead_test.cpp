// Queued calls that run at once, over a fake communicator: which do, and that each is done when it is, not with others.
#define CATCH_CONFIG_MAIN
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "api_fixture.h"
#include "base/limits.h"
#include "queue.h"

namespace {

/// A queue whose worker stands in a call of one element until that is let through; of calls of 8, in the third.
class Held {
 public:
  Held() {
    fake::world().runs_ahead = true;
    fake::world().outcome = [this](const rondo::PendingCall& pending) {
      const std::size_t count = pending.call.count;
      if (count == 8 && ++begun == 1) fake::world().runs_ahead = true;
      while (count == holds && (count != 8 || begun == 3)) std::this_thread::yield();
      if (count != fails) return rondo::Status{};
      static_cast<fake::Fake*>(pending.communicator)->fail(rondo::Code::remote_error);
      return rondo::Status{rondo::Code::remote_error, -1};
    };
    if (rondoStreamCreate(&stream) != ncclSuccess) std::abort();
    call(0, 1);
    while (ran().empty()) std::this_thread::yield();
  }
  ~Held() {
    holds = 0;
    rondoStreamDestroy(stream);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  void call(int part, std::size_t count, int of = 0) { call(data[part], data[part], count, of); }
  void call(const float* in, float* out, std::size_t count, int of = 0, ncclDataType_t type = ncclFloat,
            ncclRedOp_t op = ncclSum) {
    if (ncclAllReduce(in, out, count, type, op, (*comms[of])[0], stream) != ncclSuccess) std::abort();
  }
  void record() {
    rondoEvent_t event = nullptr;
    if (rondoEventCreate(&event) != ncclSuccess || rondoEventRecord(event, stream) != ncclSuccess) std::abort();
    rondoEventDestroy(event);
  }
  /// How many calls ran at once, as "1 3 2".
  static std::string ran() {
    const std::lock_guard lock(fake::world().mutex);
    std::string text;
    for (const fake::Ran& ran : fake::world().ran) text += (text.empty() ? "" : " ") + std::to_string(ran.calls.size());
    return text;
  }
  /// Lets all through.
  std::string let() {
    holds = 0;
    CHECK(rondoStreamSynchronize(stream) == ncclSuccess);
    return ran();
  }

  std::unique_ptr<Ranks> comms[2] = {std::make_unique<Ranks>(2, 1), std::make_unique<Ranks>(2, 1)};
  std::atomic<std::size_t> holds{1}, fails{0};
  std::atomic<int> begun{0};
  float data[64][64] = {};
  cudaStream_t stream = nullptr;
};

}  // namespace

TEST_CASE("queued all-reduces that are alike and touch other memory run at once") {
  Held held;
  for (int part = 0; part < 5; ++part) held.call(part, 8);
  CHECK(held.let() == "1 5");
}

TEST_CASE("what reads or writes what another call writes runs behind it") {
  Held held;
  for (const int part : {0, 1, 0, 2, 3, 3}) held.call(part, 8);
  CHECK(held.let() == "1 2 3 1");
}

TEST_CASE("out of place, it is what is written that counts") {
  Held held;
  const auto from_to = [&](int from, int to) { held.call(held.data[from], held.data[to], 8); };
  SECTION("read by both") {
    from_to(0, 1), from_to(0, 2);
    CHECK(held.let() == "1 2");
  }
  SECTION("written, then read") {
    from_to(0, 1), from_to(1, 2);
    CHECK(held.let() == "1 1 1");
  }
  SECTION("read, then written") {
    from_to(1, 2), from_to(0, 1);
    CHECK(held.let() == "1 1 1");
  }
}

TEST_CASE("other counts, other communicators and events are borders, and so many at most run at once") {
  SECTION("counts") {
    Held held;
    held.call(0, 8), held.call(1, 8), held.call(2, 9), held.call(3, 9);
    CHECK(held.let() == "1 2 2");
  }
  SECTION("operators and types") {
    Held held;
    for (int part = 0; part < 8; ++part) {
      held.call(held.data[part], held.data[part], 8, 0, part < 4 ? ncclFloat : ncclInt32,
                part % 4 < 2 ? ncclSum : ncclMax);
    }
    CHECK(held.let() == "1 2 2 2 2");
  }
  SECTION("types") {
    Held held;
    for (int part = 0; part < 4; ++part) {
      held.call(held.data[part], held.data[part], 8, 0, part < 2 ? ncclFloat : ncclInt32);
    }
    CHECK(held.let() == "1 2 2");
  }
  SECTION("communicators") {
    Held held;
    held.call(0, 8), held.call(1, 8), held.call(2, 8, 1), held.call(3, 8, 1);
    CHECK(held.let() == "1 2 2");
  }
  SECTION("events") {
    Held held;
    held.call(0, 8), held.call(1, 8), held.record(), held.call(2, 8), held.call(3, 8);
    CHECK(held.let() == "1 2 2");
  }
  SECTION("turns of others") {
    Held held;
    held.call(0, 8);
    REQUIRE(ncclAllReduce(held.data[9], held.data[9], 8, ncclFloat, ncclSum, (*held.comms[0])[0], nullptr) ==
            ncclSuccess);  // the fake runs it at once
    held.call(1, 8);
    CHECK(held.let() == "1 1 1 1");
  }
  SECTION("large ones") {
    constexpr std::size_t most = rondo::limits::queued_ahead_bytes_max / sizeof(float);
    for (const std::size_t count : {most, most + 1}) {
      Held held;
      std::vector<float> buffer(2 * count);
      held.call(0, 8), held.call(1, 8);  // from here on such calls run together
      held.call(buffer.data(), buffer.data(), count), held.call(&buffer[count], &buffer[count], count);
      CHECK(held.let() == (count == most ? "1 2 2" : "1 2 1 1"));
    }
  }
  SECTION("most") {
    Held held;
    for (int part = 0; part < 40; ++part) held.call(part, 8);
    CHECK(held.let() == "1 32 8");
  }
}

TEST_CASE("where it gains nothing they run one by one, and it is tried again after 64") {
  Held held;
  fake::world().runs_ahead = false;  // until the first of them runs
  for (int call = 0; call < 32 + 64 + 6; ++call) held.call(call % 64, 8);
  std::string wanted = "1";
  for (int call = 0; call < 32 + 64; ++call) wanted += " 1";
  CHECK(held.let() == wanted + " 6");
}

TEST_CASE("who waits for one of the calls that run at once does not wait for those behind it") {
  Held held;
  const auto queue = rondo::find_queue(held.stream);
  for (int part = 0; part < 4; ++part) held.call(part, 8);
  SECTION("a waiter that came before") {
    std::thread waiter([&] { queue->wait(3); });
    held.holds = 8;
    waiter.join();
  }
  SECTION("a waiter that comes later") {
    held.holds = 8;
    while (held.begun < 3) std::this_thread::yield();
    queue->wait(3);
  }
  CHECK_FALSE(queue->ask());
  CHECK(held.let() == "1 4");
}

TEST_CASE("a failure among calls that run at once is told once") {
  Held held;
  held.fails = 8;
  for (int part = 0; part < 3; ++part) held.call(part, 8);
  held.holds = 0;
  CHECK(rondoStreamSynchronize(held.stream) == ncclRemoteError);
  CHECK(last_contains("the fake failed"));
  CHECK(rondoStreamSynchronize(held.stream) == ncclSuccess);
  CHECK(Held::ran() == "1 3");
}
