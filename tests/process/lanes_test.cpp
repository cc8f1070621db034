// Large calls in stripes over several lanes, walked by one thread and by several: the same bits, every step once, and
// helpers that come and go.  Products, deaths and wrong usage run with such settings as they are (see meson.build).
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "log.h"
#include "ranks.h"

namespace rondo::test {
namespace {

#ifdef __SANITIZE_THREAD__
constexpr std::size_t counts[] = {1, 1000, 9001};  // what ThreadSanitizer does in seconds
constexpr int calls = 8;
#else
constexpr std::size_t counts[] = {1, 1000, 70'001, 300'000};
constexpr int calls = 40;
#endif

void set_lanes(int lanes, int threads, const char* bytes_min) {
  ::setenv("NCCL_MIN_NCHANNELS", std::to_string(lanes).c_str(), 1);
  ::setenv("RONDO_NTHREADS", std::to_string(threads).c_str(), 1);
  ::setenv("RONDO_LANE_BYTES", bytes_min, 1);
}

int helpers() { return threads_named("rondo-lane-"); }

/// The kernel forgets a thread some time after its end.
void await_no_helpers() {
  for (int i = 0; helpers() > 0 && i < 2000; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  expect(helpers() == 0, "no helpers after the communicator");
}

/// Values whose sums are rounded, so that the order of reduction shows.
void fill(std::vector<float>& data, int rank) {
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = 1.0f / static_cast<float>(1 + (i * 7 + static_cast<std::size_t>(rank) * 3) % 1013);
  }
}

/// All-reduces of some sizes, one after another, in a group, and on a queue: all their results.
std::vector<float> results(ncclComm_t comm, int rank) {
  std::vector<float> all;
  for (const std::size_t count : counts) {
    std::vector<float> data(count), again(count), queued(count);
    for (std::vector<float>* const buffer : {&data, &again, &queued}) fill(*buffer, rank);
    expect_success(ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, comm, nullptr), "a call");
    std::vector<float> small(3), gathered(3 * count);
    fill(small, rank);
    expect_success(ncclGroupStart(), "ncclGroupStart");
    expect_success(ncclAllReduce(small.data(), small.data(), 3, ncclFloat32, ncclSum, comm, nullptr), "a small one");
    expect_success(ncclAllReduce(again.data(), again.data(), count, ncclFloat32, ncclSum, comm, nullptr), "one of two");
    expect_success(ncclBroadcast(again.data(), gathered.data(), 1, ncclFloat32, 0, comm, nullptr), "a broadcast");
    expect_success(ncclGroupEnd(), "ncclGroupEnd");
    expect(std::memcmp(data.data(), again.data(), count * sizeof(float)) == 0, "the same bits in a group");
    cudaStream_t queue = nullptr;
    expect_success(rondoStreamCreate(&queue), "rondoStreamCreate");
    expect_success(ncclAllReduce(queued.data(), queued.data(), count, ncclFloat32, ncclSum, comm, queue), "queued");
    expect_success(rondoStreamSynchronize(queue), "rondoStreamSynchronize");
    expect_success(rondoStreamDestroy(queue), "rondoStreamDestroy");
    expect(std::memcmp(data.data(), queued.data(), count * sizeof(float)) == 0, "the same bits on a queue");
    all.insert(all.end(), data.begin(), data.end());
    all.insert(all.end(), small.begin(), small.end());
  }
  return all;
}

TEST_CASE("any number of threads gives the bits of one, for every number of ranks, lanes and elements") {
  for (const char* const algorithm : {"one_shot", "two_shot", "ring", "tree"}) {
    for (const int ranks : {2, 3}) {
      const Shared<Meeting> meeting;
      const std::string trouble = run_ranks(Ranks::processes, ranks, [&](int rank) {
        ::setenv("NCCL_ALGO", (std::string("allreduce:") + algorithm).c_str(), 1);
        int number = 0;
        for (const int lanes : {2, 4}) {
          std::vector<float> of_one;
          for (const int threads : {1, 2, 3}) {
            set_lanes(lanes, threads, "1");
            const ncclComm_t comm = meeting->join(number++, rank, ranks);
            const std::vector<float> found = results(comm, rank);
            if (threads == 1) of_one = found;
            expect(std::memcmp(found.data(), of_one.data(), found.size() * sizeof(float)) == 0,
                   std::to_string(threads) + " threads, " + std::to_string(lanes) + " lanes: the bits of one");
            expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
          }
        }
      });
      INFO(algorithm << ", " << ranks << " ranks");
      REQUIRE(trouble == "");
    }
  }
}

long sum(const std::vector<long>& numbers) {
  long all = 0;
  for (const long number : numbers) all += number;
  return all;
}

TEST_CASE("every step is walked once, by helpers or the caller, and helpers end with the communicator") {
  constexpr std::size_t count = 300'000;
  for (const char* const transport : {"shm", "tcp"}) {
    const Shared<Meeting> meeting;
    const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
      ::setenv("NCCL_DEBUG_SUBSYS", "COLL", 1);
      ::setenv("RONDO_TRANSPORT", transport, 1);
      ::setenv("NCCL_ALGO", "ring", 1);
      const Log log(rank);
      long steps = 0, by_helpers = 0;
      for (const int threads : {2, 3, 4}) {
        const std::size_t before = log.text().size();
        set_lanes(4, threads, "1048576");
        const ncclComm_t comm = meeting->join(threads, rank, 2);
        expect_success(all_reduce_floats(comm, 1000), "a small call");
        expect(helpers() == 0, "no helpers before the first large call");
        for (int i = 0; i < calls; ++i) expect_success(all_reduce_floats(comm, count), "a large call");
        expect(helpers() == threads - 1, std::to_string(helpers()) + " helpers");
        expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
        await_no_helpers();
        const std::string text = log.text().substr(before);
        const long shares = sum(numbers_before(" shares of", text)), back = sum(numbers_before(" shares from", text));
        expect(shares + back == calls * (threads - 1), std::to_string(shares) + " and " + std::to_string(back));
        by_helpers += shares;
        const long walked = sum(numbers_before(" steps", text));
        if (steps == 0) steps = walked;
        expect(walked == steps && walked % calls == 0, std::to_string(walked) + " steps, not " + std::to_string(steps));
      }
      expect(by_helpers > 0, "shares that helpers walked");
    });
    INFO(transport);
    REQUIRE(trouble == "");
  }
}

TEST_CASE("an abort, a timeout and a call that differs end what helpers wait for") {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
    set_lanes(3, 3, "1");
    int passed = 0;
    const ncclComm_t aborted = meeting->join(0, rank, 2);
    expect_success(all_reduce_floats(aborted, 100'000), "a sound call");
    if (rank == 0) {
      std::vector<float> data(1'000'000, 1.0f);  // before the other thread starts: the call must be first
      float* const place = data.data();
      std::thread other([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        ncclCommAbort(aborted);
      });
      const ncclResult_t result = ncclAllReduce(place, place, data.size(), ncclFloat32, ncclSum, aborted, nullptr);
      expect(result != ncclSuccess, "an aborted call");
      other.join();
    }
    meeting->barrier(2, passed);
    if (rank == 1) ncclCommAbort(aborted);

    const ncclComm_t differs = meeting->join(1, rank, 2);
    const Said said = timed(differs, [&] { return all_reduce_floats(differs, rank == 0 ? 90'000 : 80'000); });
    expect(said.result == ncclInvalidUsage || said.result == ncclRemoteError, said.sentence);
    expect_says(said.sentence, {"90000", "80000"});
    ncclCommAbort(differs);

    ::setenv("RONDO_TIMEOUT", "2", 1);
    const ncclComm_t late = meeting->join(2, rank, 2);
    if (rank == 0) {
      expect_success(all_reduce_floats(late, 100'000), "a sound call");
      const Said missed = timed(late, [&] { return all_reduce_floats(late, 100'000); });
      expect(missed.result != ncclSuccess, "a call that nobody answers");
      expect_says(missed.sentence, {"RONDO_TIMEOUT", "rank 1"});
    } else {
      expect_success(all_reduce_floats(late, 100'000), "a sound call");
    }
    meeting->barrier(2, passed);
    ncclCommAbort(late);
    await_no_helpers();
  });
  REQUIRE(trouble == "");
}

TEST_CASE("numbers of lanes that differ, or that no communicator has, are errors in a sentence") {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
    const auto refused = [&](int number, std::initializer_list<std::string> words) {
      ncclComm_t comm = nullptr;
      const ncclUniqueId id = meeting->id(number, rank);
      const Said said = timed(nullptr, [&] { return ncclCommInitRank(&comm, 2, id, rank); });
      expect(said.result != ncclSuccess, "an error");
      expect_says(said.sentence, words);
    };
    set_lanes(2 + rank, 0, "1");
    refused(0, {"settings differ", "NCCL_MIN_NCHANNELS=2", "NCCL_MIN_NCHANNELS=3"});
    set_lanes(2, 0, rank == 0 ? "1" : "2");
    refused(1, {"settings differ", "RONDO_LANE_BYTES=1", "RONDO_LANE_BYTES=2"});
    set_lanes(2, 17, "1");
    refused(2, {"RONDO_NTHREADS=17", "from 0 to 16"});
    // More lanes than there are, of which only so many are wanted: that can be.
    set_lanes(99, 1, "1");
    ::setenv("NCCL_MAX_CTAS", rank == 0 ? "3" : "4", 1);
    ::setenv("NCCL_MAX_NCHANNELS", "3", 1);
    const ncclComm_t comm = meeting->join(3, rank, 2);
    expect_success(all_reduce_floats(comm, 100'000), "a call");
    expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
  });
  REQUIRE(trouble == "");
}

}  // namespace
}  // namespace rondo::test
