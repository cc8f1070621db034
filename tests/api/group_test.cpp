// Groups and queues over a fake communicator: what runs together, in which order, on which thread, and how it fails.
#define CATCH_CONFIG_MAIN
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>

#include "api/handle.h"
#include "api_fixture.h"
#include "base/result.h"
#include "base/threads.h"
#include "queue.h"

namespace {
thread_local int allocations = 0;
}

// Of this program and of the library in it.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes);
}
void* operator new(std::size_t bytes) {
  void* const room = operator new(bytes, std::nothrow);
  if (room == nullptr) throw std::bad_alloc();
  return room;
}
void operator delete(void* room) noexcept { std::free(room); }
void operator delete(void* room, std::size_t) noexcept { std::free(room); }

namespace {

using rondo::Patience;

ncclResult_t reduce(ncclComm_t comm, std::size_t count, cudaStream_t stream = nullptr) {
  static float buffer[1024];
  return ncclAllReduce(buffer, buffer, count, ncclFloat, ncclSum, comm, stream);
}

/// The counts of each batch that ran, as "1 2|3".
std::string batches() {
  const std::lock_guard lock(fake::world().mutex);
  std::string text;
  for (const fake::Ran& ran : fake::world().ran) {
    if (!text.empty()) text += "|";
    for (std::size_t i = 0; i < ran.calls.size(); ++i) {
      text += (i == 0 ? "" : " ") + std::to_string(ran.calls[i].call.count);
    }
  }
  return text;
}

class Stream {
 public:
  Stream() {
    if (rondoStreamCreate(&stream_) != ncclSuccess) std::abort();
  }
  ~Stream() { rondoStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

TEST_CASE("a group's calls run as one batch at the outermost end") {
  Ranks ranks(2, 2);
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(reduce(ranks[0], 1) == ncclSuccess);
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(reduce(ranks[1], 2) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(batches().empty());
  CHECK(reduce(ranks[0], 3) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(batches() == "1 2 3");
  CHECK(reduce(ranks[0], 4) == ncclSuccess);
  CHECK(batches() == "1 2 3|4");
  CHECK(fake::world().ran[0].calls[2].turn == rondo::CallOrder::entered);
}

TEST_CASE("in a group collectives go before sends and receives, whatever their order") {
  Ranks ranks(2, 1);
  float data = 0;
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(reduce(ranks[0], 2) == ncclSuccess);
  CHECK(ncclSend(&data, 1, ncclFloat, 1, ranks[0], nullptr) == ncclSuccess);
  CHECK(reduce(ranks[0], 3) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(batches() == "2 3 1");
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(reduce(ranks[0], 4) == ncclSuccess);
  CHECK(reduce(ranks[0], 5) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(batches() == "2 3 1|4 5");
}

TEST_CASE("a group's own calls run in its thread, also those that came before one for a queue") {
  Ranks ranks(2, 2);
  const Stream stream;
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(reduce(ranks[0], 1) == ncclSuccess);
  CHECK(reduce(ranks[1], 2, stream) == ncclSuccess);
  CHECK(reduce(ranks[0], 3) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(rondoStreamSynchronize(stream) == ncclSuccess);
  const bool first = fake::world().ran[0].calls.size() == 2;  // or the queue's was
  CHECK(batches() == (first ? "1 3|2" : "2|1 3"));
  CHECK(fake::world().ran[first ? 0 : 1].thread == std::this_thread::get_id());
}

TEST_CASE("a group enters all of its communicators, or none") {
  Ranks ranks(2, 2);
  CHECK(reduce(ranks[0], 1) == ncclSuccess);
  std::thread([&] { (void)reduce(ranks[1], 1); }).join();  // who owns it then
  fake::world().ran.clear();
  CHECK(ncclGroupStart() == ncclSuccess);
  for (ncclComm_t comm : {ranks[0], ranks[1]}) CHECK(reduce(comm, 2) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(batches() == "2 2");
  for (const rondo::PendingCall& call : fake::world().ran[0].calls) CHECK(call.turn == 0);
  CHECK_FALSE(ranks[0]->communicator->order().is_inside());
  CHECK_FALSE(ranks[0]->communicator->order().is_held());
}

TEST_CASE("an end without a start is refused, an empty group is not") {
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  CHECK(last_contains("ncclGroupStart"));
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
}

TEST_CASE("a wrong argument fails at once and leaves the group as it was") {
  Ranks ranks(2, 1);
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(reduce(ranks[0], 1) == ncclSuccess);
  CHECK(ncclAllReduce(nullptr, nullptr, 9, ncclFloat, ncclSum, ranks[0], nullptr) == ncclInvalidArgument);
  CHECK(reduce(ranks[0], 2) == ncclSuccess);
  CHECK(reduce(ranks[0], 0) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(batches() == "1 2");
}

TEST_CASE("a failure in a group is its end's") {
  Ranks ranks(2, 2);
  fake::world().outcome = [&](const rondo::PendingCall& call) {
    if (call.call.count != 2) return rondo::Status{};
    static_cast<fake::Fake*>(call.communicator)->fail(rondo::Code::timeout);
    return rondo::Status{rondo::Code::timeout, -1};
  };
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(reduce(ranks[0], 1) == ncclSuccess);
  CHECK(reduce(ranks[1], 2) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclTimeout);
  CHECK(last() == "ncclGroupEnd: the fake failed");
}

TEST_CASE("inits in a group join at once, each in its thread") {
  fake::world().reset();
  constexpr int ranks = 4;
  std::atomic<int> joined{0};
  fake::world().join = [&](int, int) {
    joined.fetch_add(1);
    while (joined.load() < ranks) std::this_thread::yield();  // as real ranks do
  };
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comms[ranks] = {};
  CHECK(ncclGroupStart() == ncclSuccess);
  for (int rank = 0; rank < ranks; ++rank) CHECK(ncclCommInitRank(&comms[rank], ranks, id, rank) == ncclSuccess);
  CHECK(joined == 0);
  CHECK(reduce(comms[0], 1) == ncclInvalidUsage);
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(joined == ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    int value = -1;
    CHECK((ncclCommUserRank(comms[rank], &value) == ncclSuccess && value == rank));
  }
  CHECK(ncclGroupStart() == ncclSuccess);
  for (ncclComm_t comm : comms) CHECK(reduce(comm, 1) == ncclSuccess);
  for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
  ncclComm_t late = nullptr;
  CHECK(ncclCommInitRank(&late, 1, id, 0) == ncclInvalidUsage);
  CHECK(late == nullptr);
  CHECK(fake::world().alive == ranks);
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(batches() == "1 1 1 1");
  CHECK(fake::world().alive == 0);
}

TEST_CASE("an init that fails in a group leaves NULL, the others stay") {
  fake::world().reset();
  fake::world().join = [](int rank, int) {
    if (rank == 1) throw rondo::Error(rondo::Code::remote_error, "rank 0 left");
  };
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comms[2] = {};
  CHECK(ncclGroupStart() == ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) CHECK(ncclCommInitRank(&comms[rank], 2, id, rank) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclRemoteError);
  CHECK(comms[1] == nullptr);
  CHECK(ncclCommAbort(comms[0]) == ncclSuccess);
  CHECK(fake::world().alive == 0);
}

TEST_CASE("InitAll makes all ranks, or none") {
  fake::world().reset();
  ncclComm_t comms[3] = {};
  const int devices[3] = {4, 4, 2};
  REQUIRE(ncclCommInitAll(comms, 3, devices) == ncclSuccess);
  for (int rank = 0; rank < 3; ++rank) {
    int value = -1;
    CHECK((ncclCommUserRank(comms[rank], &value) == ncclSuccess && value == rank));
    CHECK((ncclCommCuDevice(comms[rank], &value) == ncclSuccess && value == devices[rank]));
    CHECK(ncclCommDestroy(comms[rank]) == ncclSuccess);
  }
  const int wrong[3] = {0, -1, 2};
  CHECK(ncclCommInitAll(comms, 3, wrong) == ncclInvalidArgument);
  CHECK(ncclCommInitAll(comms, 0, nullptr) == ncclInvalidArgument);
  CHECK(ncclCommInitAll(nullptr, 1, nullptr) == ncclInvalidArgument);
  fake::world().join = [](int rank, int) {
    if (rank == 2) throw rondo::Error(rondo::Code::system_error, "no memory");
  };
  CHECK(ncclCommInitAll(comms, 3, nullptr) == ncclSystemError);
  for (ncclComm_t comm : comms) CHECK(comm == nullptr);
  CHECK(fake::world().alive == 0);
}

TEST_CASE("a group that is not simulated forgets its calls") {
  Ranks ranks(2, 1);
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(reduce(ranks[0], 1) == ncclSuccess);
  CHECK(ncclGroupSimulateEnd(&info) == ncclInvalidUsage);
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  CHECK(batches().empty());
}

TEST_CASE("calls on a queue return at once and run in order on its worker") {
  Ranks ranks(2, 1);
  const Stream stream;
  Gate gate;
  std::atomic<bool> begun{false};
  fake::world().outcome = [&](const rondo::PendingCall&) {
    begun = true;
    gate.wait();
    return rondo::Status{};
  };
  for (std::size_t count = 1; count <= 3; ++count) CHECK(reduce(ranks[0], count, stream) == ncclSuccess);
  while (!begun) std::this_thread::yield();  // then the worker goes on to the end
  CHECK(rondoStreamQuery(stream) == ncclInProgress);
  gate.open();
  CHECK(rondoStreamSynchronize(stream) == ncclSuccess);
  CHECK(rondoStreamQuery(stream) == ncclSuccess);
  CHECK(batches() == "1|2|3");
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(fake::world().ran[i].patience == Patience::worker);
    CHECK(fake::world().ran[i].thread != std::this_thread::get_id());
    CHECK(fake::world().ran[i].thread == fake::world().ran[0].thread);
    CHECK(fake::world().ran[i].calls[0].turn == i);
  }
}

TEST_CASE("to give a queue as many calls as it has held before allocates nothing") {
  Ranks ranks(2, 1);
  const Stream stream;
  constexpr int calls = 50;
  for (const bool first : {true, false}) {
    Gate gate;
    fake::world().outcome = [&](const rondo::PendingCall&) {
      gate.wait();
      return rondo::Status{};
    };
    const int before = allocations;
    int given = 0;
    for (int call = 0; call < calls; ++call) given += reduce(ranks[0], 1, stream) == ncclSuccess ? 1 : 0;
    const int made = allocations - before;
    CHECK(given == calls);
    gate.open();
    CHECK(rondoStreamSynchronize(stream) == ncclSuccess);
    CHECK((made > 0) == first);
  }
  CHECK(fake::world().ran.size() == 2 * calls);
}

TEST_CASE("a thread that has used a queue sees that another destroyed it, and a forked child that it is not its own") {
  Ranks ranks(2, 1);
  cudaStream_t stream = nullptr;
  REQUIRE(rondoStreamCreate(&stream) == ncclSuccess);
  CHECK(reduce(ranks[0], 1, stream) == ncclSuccess);
  CHECK(rondoStreamSynchronize(stream) == ncclSuccess);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(rondoStreamQuery(stream) == ncclInvalidUsage ? 0 : 1);
  int status = -1;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  std::thread([&] { REQUIRE(rondoStreamDestroy(stream) == ncclSuccess); }).join();
  CHECK(rondoStreamQuery(stream) == ncclInvalidArgument);
  CHECK(reduce(ranks[0], 1, stream) == ncclInvalidArgument);
}

/// Calls and waits until a call was run by this thread, as that is left to chance; the number of calls.
template <typename Wait>
std::size_t calls_until_one_ran_here(ncclComm_t comm, cudaStream_t stream, Wait&& wait) {
  for (std::size_t calls = 1;; ++calls) {
    REQUIRE(reduce(comm, calls, stream) == ncclSuccess);
    REQUIRE(wait() == ncclSuccess);
    REQUIRE(fake::world().ran.size() == calls);
    const fake::Ran& last = fake::world().ran.back();
    CHECK(last.calls[0].call.count == calls);
    const bool here = last.thread == std::this_thread::get_id();
    CHECK(last.patience == (here ? Patience::caller : Patience::worker));
    if (here) return calls;
  }
}

TEST_CASE("a thread that waits for a queue or an event runs what the worker has not begun") {
  Ranks ranks(2, 1);
  const Stream stream;
  rondoEvent_t event = nullptr;
  REQUIRE(rondoEventCreate(&event) == ncclSuccess);
  (void)calls_until_one_ran_here(ranks[0], stream, [&] { return rondoStreamSynchronize(stream); });
  CHECK(rondoStreamQuery(stream) == ncclSuccess);
  const auto record = [&] { return rondoEventRecord(event, stream); };
  fake::world().ran.clear();
  (void)calls_until_one_ran_here(ranks[0], stream,
                                 [&] { return record() ? ncclSystemError : rondoEventSynchronize(event); });
  fake::world().ran.clear();
  (void)calls_until_one_ran_here(ranks[0], stream,
                                 [&] { return record() ? ncclSystemError : rondoStreamWaitEvent(nullptr, event); });
  CHECK(rondoEventDestroy(event) == ncclSuccess);
}

TEST_CASE("a wait for an event runs nothing behind it, and the worker does") {
  Ranks ranks(2, 1);
  const Stream stream;
  rondoEvent_t event = nullptr;
  REQUIRE(rondoEventCreate(&event) == ncclSuccess);
  std::atomic<int> behind{0};
  std::atomic<bool> here{false};
  const auto self = std::this_thread::get_id();
  fake::world().outcome = [&](const rondo::PendingCall& call) {
    if (call.call.count != 2) return rondo::Status{};
    here = here || std::this_thread::get_id() == self;
    behind.fetch_add(1);
    return rondo::Status{};
  };
  constexpr int rounds = 100;
  for (int round = 1; round <= rounds; ++round) {
    CHECK(reduce(ranks[0], 1, stream) == ncclSuccess);
    CHECK(rondoEventRecord(event, stream) == ncclSuccess);
    CHECK(reduce(ranks[0], 2, stream) == ncclSuccess);
    CHECK(rondoEventSynchronize(event) == ncclSuccess);
    while (behind < round) std::this_thread::yield();  // nobody waits for it: without the worker this never ends
  }
  CHECK_FALSE(here);
  CHECK(rondoEventDestroy(event) == ncclSuccess);
}

TEST_CASE("threads that call and wait on one queue keep the order of turns, and each waits for its own") {
  Ranks ranks(2, 1);
  const Stream stream;
  constexpr int threads = 3, calls = 300;
  std::vector<std::atomic<int>> done(threads);
  fake::world().outcome = [&](const rondo::PendingCall& call) {
    done[call.call.count - 1].fetch_add(1);
    return rondo::Status{};
  };
  std::vector<std::thread> callers;
  std::atomic<int> early{0};
  for (int thread = 0; thread < threads; ++thread) {
    callers.emplace_back([&, thread] {
      for (int call = 1; call <= calls; ++call) {
        if (reduce(ranks[0], static_cast<std::size_t>(thread) + 1, stream) != ncclSuccess) early.fetch_add(1);
        if (call % 3 != 0) continue;
        if (rondoStreamSynchronize(stream) != ncclSuccess || done[thread] < call) early.fetch_add(1);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(early == 0);
  REQUIRE(fake::world().ran.size() == threads * calls);
  for (std::size_t i = 0; i < fake::world().ran.size(); ++i) CHECK(fake::world().ran[i].calls[0].turn == i);
}

TEST_CASE("a group gives each queue one batch, and keeps each communicator's order") {
  Ranks ranks(3, 3);
  const Stream one;
  const Stream other;
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(reduce(ranks[0], 1, one) == ncclSuccess);
  CHECK(reduce(ranks[1], 2, other) == ncclSuccess);
  CHECK(reduce(ranks[0], 3, one) == ncclSuccess);
  CHECK(reduce(ranks[2], 4, one) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(rondoStreamSynchronize(one) == ncclSuccess);
  CHECK(rondoStreamSynchronize(other) == ncclSuccess);
  const std::string first = batches();
  CHECK((first == "1 3 4|2" || first == "2|1 3 4"));

  fake::world().ran.clear();
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(reduce(ranks[0], 1, one) == ncclSuccess);
  CHECK(reduce(ranks[0], 2, other) == ncclSuccess);
  CHECK(reduce(ranks[0], 3, one) == ncclSuccess);  // after 2: not in the batch of 1
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(rondoStreamSynchronize(one) == ncclSuccess);
  CHECK(rondoStreamSynchronize(other) == ncclSuccess);
  REQUIRE(fake::world().ran.size() == 3);
  for (const fake::Ran& ran : fake::world().ran) {
    REQUIRE(ran.calls.size() == 1);
    CHECK(ran.calls[0].turn == ran.calls[0].call.count + 1);  // two turns were taken before
  }
}

TEST_CASE("the first failure on a queue is told once by synchronize") {
  Ranks ranks(2, 1);
  const Stream stream;
  fake::world().outcome = [&](const rondo::PendingCall& call) {
    static_cast<fake::Fake*>(call.communicator)->fail(rondo::Code::remote_error);
    return rondo::Status{call.call.count == 1 ? rondo::Code::remote_error : rondo::Code::timeout, -1};
  };
  CHECK(reduce(ranks[0], 1, stream) == ncclSuccess);
  CHECK(reduce(ranks[0], 2, stream) == ncclSuccess);
  CHECK(rondoStreamSynchronize(stream) == ncclRemoteError);
  CHECK(last_contains("the fake failed"));
  CHECK(rondoStreamSynchronize(stream) == ncclSuccess);
  ncclResult_t state = ncclSuccess;
  CHECK(ncclCommGetAsyncError(ranks[0], &state) == ncclSuccess);
  CHECK(state == ncclRemoteError);
}

TEST_CASE("events order queues") {
  Ranks ranks(2, 2);
  const Stream one;
  const Stream other;
  rondoEvent_t before = nullptr;
  rondoEvent_t after = nullptr;
  REQUIRE(rondoEventCreate(&before) == ncclSuccess);
  REQUIRE(rondoEventCreate(&after) == ncclSuccess);
  CHECK(rondoEventQuery(before) == ncclSuccess);
  CHECK(rondoStreamWaitEvent(one, before) == ncclSuccess);
  Gate gate;
  fake::world().outcome = [&](const rondo::PendingCall& call) {
    if (call.call.count == 1) gate.wait();
    return rondo::Status{};
  };
  float ms = -1;
  CHECK(rondoEventRecord(before, nullptr) == ncclSuccess);
  CHECK(reduce(ranks[0], 1, one) == ncclSuccess);
  CHECK(rondoEventRecord(after, one) == ncclSuccess);
  CHECK(rondoStreamWaitEvent(other, after) == ncclSuccess);
  CHECK(reduce(ranks[1], 2, other) == ncclSuccess);
  CHECK(rondoEventQuery(after) == ncclInProgress);
  CHECK(rondoEventElapsedTime(&ms, before, after) == ncclInvalidUsage);
  CHECK(rondoStreamQuery(other) == ncclInProgress);
  gate.open();
  CHECK(rondoStreamWaitEvent(nullptr, after) == ncclSuccess);
  CHECK(rondoEventQuery(after) == ncclSuccess);
  CHECK(rondoStreamSynchronize(other) == ncclSuccess);
  CHECK(batches() == "1|2");
  CHECK(rondoEventElapsedTime(&ms, before, after) == ncclSuccess);
  CHECK(ms >= 0);
  CHECK(rondoEventSynchronize(after) == ncclSuccess);
  CHECK(rondoEventDestroy(before) == ncclSuccess);
  CHECK(rondoEventDestroy(after) == ncclSuccess);
  CHECK(rondoEventRecord(nullptr, one) == ncclInvalidArgument);
}

TEST_CASE("destroying a queue waits for its calls; afterwards it is unknown") {
  Ranks ranks(2, 1);
  cudaStream_t stream = nullptr;
  REQUIRE(rondoStreamCreate(&stream) == ncclSuccess);
  for (int i = 0; i < 100; ++i) CHECK(reduce(ranks[0], 1, stream) == ncclSuccess);
  CHECK(rondoStreamDestroy(stream) == ncclSuccess);
  CHECK(fake::world().ran.size() == 100);
  CHECK(reduce(ranks[0], 1, stream) == ncclInvalidArgument);
  CHECK(last_contains("stream is not a queue of rondoStreamCreate"));
  CHECK(rondoStreamDestroy(stream) == ncclInvalidArgument);
  CHECK(rondoStreamDestroy(nullptr) == ncclInvalidArgument);
  CHECK(rondoStreamSynchronize(nullptr) == ncclSuccess);
  CHECK(rondoStreamCreate(nullptr) == ncclInvalidArgument);
}

TEST_CASE("a queue that ends before its worker begins leaves no thread counted as idle") {
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  bool alone = false;
  for (int i = 0; i < 2000 && !alone; ++i) {
    cudaStream_t queue = nullptr;
    REQUIRE(rondoStreamCreate(&queue) == ncclSuccess);
    REQUIRE(rondoStreamDestroy(queue) == ncclSuccess);
    alone = rondo::threads::only_this_one_acts();
  }
  over = true;
  other.join();
  CHECK_FALSE(alone);
}

TEST_CASE("threads have their own groups") {
  Ranks ranks(2, 2);
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(reduce(ranks[0], 1) == ncclSuccess);
  std::thread([&] {
    CHECK(reduce(ranks[1], 2) == ncclSuccess);
    CHECK(ncclGroupEnd() == ncclInvalidUsage);
    ncclGroupStart();
    CHECK(reduce(ranks[1], 3) == ncclSuccess);  // never ended: forgotten with its thread
  }).join();
  CHECK(batches() == "2");
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(batches() == "2|1");
}

}  // namespace

TEST_CASE("a stream that is destroyed is refused while its queue still lives") {
  cudaStream_t stream = nullptr;
  REQUIRE(rondoStreamCreate(&stream) == ncclSuccess);
  const std::shared_ptr<rondo::Queue> held = rondo::find_queue(stream);  // as by a call that is on its way
  REQUIRE(rondo::find_queue(stream) == held);
  REQUIRE(rondoStreamDestroy(stream) == ncclSuccess);
  CHECK_THROWS_AS(rondo::find_queue(stream), rondo::Error);
}
