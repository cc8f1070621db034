// What calls cost each other: two communicators of the same ranks one after the other and at once; many calls of one in
// a group; a queued all-reduce from the call to its completion; and one beside a computation that wants the same core.
//
// `concurrent_perf [SIZE...]` under `rondo run -n N --bind core`.  One line a size and way: microseconds of a pair of
// in-place all-reduces, the median of rounds in which the ways take turns, of the slowest rank; and the median, least
// and most, by round, of the ratio to one after the other: for two threads to the same threads one after the other, for
// all else to one thread that calls in turn.  Then one line a size: microseconds of an all-reduce of 64 (fewer where
// they would have more than 32 MiB together) of neighbouring parts of a buffer, called in turn and in a group, and the
// ratio of the two.  Then one line a size: microseconds of one call that blocks, and of one on a queue that is waited
// for by rondoStreamSynchronize, or asked by rondoStreamQuery until it is done.  Then two lines a size, for calls on
// one part of a buffer and on so many parts in turns: by how much a computation takes longer when all-reduces are
// queued before it, when the last of them was complete, and what the same all-reduces take as blocking calls; the ratio
// of the first and the last; and the processor time of a call in rank 0's caller and in its queue's worker.

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <semaphore>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/rondo.h"

namespace {

constexpr int rounds = 15;
constexpr double compute_us = 20'000;
constexpr double pairs_us = 20'000;  // some times as long as the kernel leaves a thread on its core

void check(ncclResult_t result, std::string_view doing) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "concurrent_perf: %.*s: %s: %s\n", static_cast<int>(doing.size()), doing.data(),
               ncclGetErrorString(result), ncclGetLastError(nullptr));
  std::exit(1);
}

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// A communicator with a queue and a buffer of its own.
struct Party {
  ncclComm_t communicator = nullptr;
  cudaStream_t queue = nullptr;
  std::vector<float> data;

  void reduce(std::size_t count, cudaStream_t stream, int part = 0) {
    float* const at = data.data() + static_cast<std::size_t>(part) * count;
    check(ncclAllReduce(at, at, count, ncclFloat32, ncclSum, communicator, stream), "ncclAllReduce");
  }
  void synchronize() { check(rondoStreamSynchronize(queue), "rondoStreamSynchronize"); }
};

/// Neighbouring parts of a buffer.
int parts_of(std::size_t bytes) { return static_cast<int>(std::clamp<std::size_t>((32u << 20) / bytes, 2, 64)); }

/// The largest of all ranks' times, on each; and a barrier.
double slowest(Party& party, double time_us) {
  check(ncclAllReduce(&time_us, &time_us, 1, ncclFloat64, ncclMax, party.communicator, nullptr), "ncclAllReduce");
  return time_us;
}

using Pair = Party[2];
/// `calls` pairs of all-reduces of `count` elements.
struct Way {
  const char* name;
  void (*run)(Pair& parties, std::size_t count, int calls);
  std::size_t base;  // the way that it is held against
};

void in_turn(Pair& parties, std::size_t count, int calls) {
  for (int call = 0; call < calls; ++call) {
    for (Party& party : parties) party.reduce(count, nullptr);
  }
}
void in_a_group(Pair& parties, std::size_t count, int calls) {
  for (int call = 0; call < calls; ++call) {
    check(ncclGroupStart(), "ncclGroupStart");
    for (Party& party : parties) party.reduce(count, nullptr);
    check(ncclGroupEnd(), "ncclGroupEnd");
  }
}
void call_many(Party& party, std::size_t count, int calls, cudaStream_t queue = nullptr, int parts = 1) {
  for (int call = 0; call < calls; ++call) party.reduce(count, queue, call % parts);
}

/// A second thread, there before and after what is measured.
class Second {
 public:
  Second() : thread_([this] { work(); }) {}
  ~Second() {
    begin({});
    thread_.join();
  }
  void begin(std::function<void()> work) {
    work_ = std::move(work);
    begin_.release();
  }
  void await() { done_.acquire(); }

 private:
  void work() {
    for (begin_.acquire(); work_; begin_.acquire()) {
      work_();
      done_.release();
    }
  }
  std::binary_semaphore begin_{0}, done_{0};
  std::function<void()> work_;
  std::thread thread_;
};
Second& second() {
  static Second thread;
  return thread;
}
void in_threads(Pair& parties, std::size_t count, int calls) {
  second().begin([&] { call_many(parties[1], count, calls); });
  call_many(parties[0], count, calls);
  second().await();
}
void by_thread(Pair& parties, std::size_t count, int calls) {
  call_many(parties[0], count, calls);
  second().begin([&] { call_many(parties[1], count, calls); });
  second().await();
}
void on_one_queue(Pair& parties, std::size_t count, int calls) {
  for (int call = 0; call < calls; ++call) {
    for (Party& party : parties) party.reduce(count, parties[0].queue);
    parties[0].synchronize();
  }
}
void on_two_queues(Pair& parties, std::size_t count, int calls) {
  for (int call = 0; call < calls; ++call) {
    for (Party& party : parties) party.reduce(count, party.queue);
    for (Party& party : parties) party.synchronize();
  }
}
const Way ways[] = {{"in turn", in_turn, 0},    {"group", in_a_group, 0},       {"by thread", by_thread, 2},
                    {"threads", in_threads, 2}, {"one queue", on_one_queue, 0}, {"two queues", on_two_queues, 0}};

int calls_for(std::size_t bytes) {
  return static_cast<int>(std::clamp<std::size_t>((std::size_t{64} << 20) / std::max<std::size_t>(bytes, 1), 3, 2000));
}

/// The median, the least and the most of values that belong together, divided.
struct Spread {
  double median = 0, least = 0, most = 0;
};
Spread ratios(const std::vector<double>& times, const std::vector<double>& bases) {
  std::vector<double> values;
  for (std::size_t i = 0; i < times.size(); ++i) values.push_back(times[i] / bases[i]);
  return {median(values), *std::min_element(values.begin(), values.end()),
          *std::max_element(values.begin(), values.end())};
}

void measure_ways(Pair& parties, std::size_t bytes, bool speaks) {
  constexpr std::size_t kinds = std::size(ways);
  const std::size_t count = bytes / sizeof(float);
  int calls = std::min(calls_for(bytes), 500);
  std::vector<double> times[kinds];
  for (int round = 0; round <= rounds; ++round) {  // the first is not counted, but by how many calls fill the time
    double first = 0;
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      slowest(parties[0], 0);
      const double begin = now_us();
      ways[kind].run(parties, count, calls);
      const double time = slowest(parties[0], (now_us() - begin) / calls);
      if (kind == 0) first = time;
      if (round > 0) times[kind].push_back(time);
    }
    if (round == 0) calls = std::clamp(static_cast<int>(pairs_us / first), 3, 100'000);
  }
  if (!speaks) return;
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    const Spread ratio = ratios(times[kind], times[ways[kind].base]);
    std::printf("%12zu %12s %12.2f %8.2f %8.2f %8.2f\n", bytes, ways[kind].name, median(times[kind]), ratio.median,
                ratio.least, ratio.most);
  }
}

void measure_group(Party& party, std::size_t bytes, bool speaks) {
  const std::size_t count = bytes / sizeof(float);
  const int parts = parts_of(bytes), calls = std::max(1, calls_for(bytes) / parts);
  std::vector<double> times[2];
  for (int round = 0; round <= rounds; ++round) {  // the first is not counted
    for (const bool grouped : {false, true}) {
      slowest(party, 0);
      const double begin = now_us();
      for (int i = 0; i < calls; ++i) {
        if (grouped) check(ncclGroupStart(), "ncclGroupStart");
        for (int part = 0; part < parts; ++part) party.reduce(count, nullptr, part);
        if (grouped) check(ncclGroupEnd(), "ncclGroupEnd");
      }
      const double time = slowest(party, (now_us() - begin) / calls / parts);
      if (round > 0) times[grouped].push_back(time);
    }
  }
  if (!speaks) return;
  const Spread ratio = ratios(times[1], times[0]);
  std::printf("%12zu %6d %12.3f %12.3f %8.2f %8.2f %8.2f\n", bytes, parts, median(times[0]), median(times[1]),
              ratio.median, ratio.least, ratio.most);
}

void blocking(Party& party, std::size_t count) { party.reduce(count, nullptr); }
void synchronized(Party& party, std::size_t count) {
  party.reduce(count, party.queue);
  party.synchronize();
}
void asked(Party& party, std::size_t count) {
  party.reduce(count, party.queue);
  ncclResult_t state = ncclInProgress;
  while ((state = rondoStreamQuery(party.queue)) == ncclInProgress) {
  }
  check(state, "rondoStreamQuery");
}

void measure_latency(Party& party, std::size_t bytes, bool speaks) {
  using Way = void (*)(Party&, std::size_t);
  constexpr Way kinds[] = {blocking, synchronized, asked};
  const std::size_t count = bytes / sizeof(float);
  const int calls = std::min(calls_for(bytes), 500);
  std::vector<double> times[std::size(kinds)];
  for (int round = 0; round <= rounds; ++round) {  // the first is not counted
    for (std::size_t kind = 0; kind < std::size(kinds); ++kind) {
      slowest(party, 0);
      const double begin = now_us();
      for (int call = 0; call < calls; ++call) kinds[kind](party, count);
      const double time = slowest(party, (now_us() - begin) / calls);
      if (round > 0) times[kind].push_back(time);
    }
  }
  if (!speaks) return;
  std::printf("%12zu %12.2f %12.2f %12.2f\n", bytes, median(times[0]), median(times[1]), median(times[2]));
}

/// Multiplies and adds in registers; returns what must be kept lest the compiler drop it.
double compute(long turns) {
  asm volatile("" : "+r"(turns));  // or a second call would be the first one's result
  double values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  for (long turn = 0; turn < turns; ++turn) {
    for (double& value : values) value = value * 0.999999 + 0.5;
  }
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

long turns_for(double wanted_us) {
  volatile double kept = 0;
  double best = 1e30;
  constexpr long probe = 1'000'000;
  for (int round = 0; round < 5; ++round) {
    const double begin = now_us();
    kept = kept + compute(probe);
    best = std::min(best, now_us() - begin);
  }
  return static_cast<long>(probe * wanted_us / best);
}

double own_processor_us() {
  timespec time = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

/// Of the workers of queues, as Linux counts it.
double workers_processor_us() {
  double sum_ns = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    double run_ns = 0;
    std::ifstream(task.path() / "comm") >> name;
    std::ifstream(task.path() / "schedstat") >> run_ns;
    if (name == "rondo-queue") sum_ns += run_ns;
  }
  return sum_ns * 1e-3;
}

/// Times on the slowest rank.
struct Beside {
  double all_us = 0;                    // to call and to compute
  double done_us = 0;                   // until the last of the calls was complete
  double caller_us = 0, worker_us = 0;  // this rank's processor time
};

/// `calls` all-reduces on the queue, and a computation behind the calls.
Beside compute_beside(Party& party, std::size_t count, int calls, int parts, long turns, double& kept) {
  rondoEvent_t start = nullptr, end = nullptr;
  check(rondoEventCreate(&start), "rondoEventCreate");
  check(rondoEventCreate(&end), "rondoEventCreate");
  check(rondoEventRecord(start, nullptr), "rondoEventRecord");
  const double workers_before = workers_processor_us();
  const double begin = now_us(), processor_before = own_processor_us();
  call_many(party, count, calls, party.queue, parts);
  const double caller = own_processor_us() - processor_before;
  check(rondoEventRecord(end, party.queue), "rondoEventRecord");
  kept += compute(turns);
  const double all = now_us() - begin;
  party.synchronize();
  const double worker = workers_processor_us() - workers_before;
  float done_ms = 0;
  check(rondoEventElapsedTime(&done_ms, start, end), "rondoEventElapsedTime");
  check(rondoEventDestroy(start), "rondoEventDestroy");
  check(rondoEventDestroy(end), "rondoEventDestroy");
  return {slowest(party, all), slowest(party, done_ms * 1e3), caller, worker};
}

/// The computation alone.
double compute_alone(Party& party, long turns, double& kept) {
  slowest(party, 0);
  const double begin = now_us();
  kept += compute(turns);
  return slowest(party, now_us() - begin);
}

void measure_compute(Party& party, std::size_t bytes, int parts, long turns, bool speaks) {
  const std::size_t count = bytes / sizeof(float);
  double kept = 0;
  std::vector<double> alone, blocking, beside, done, lost, caller, worker;
  int calls = 1;
  for (int round = 0; round <= rounds; ++round) {
    slowest(party, 0);
    const double begin = now_us();
    call_many(party, count, calls, nullptr, parts);
    const double reduced = slowest(party, now_us() - begin);
    const double before = compute_alone(party, turns, kept);
    const Beside both = compute_beside(party, count, calls, parts, turns, kept);
    const double computed = (before + compute_alone(party, turns, kept)) / 2;
    if (round == 0) {  // as many calls as take half of the computation's time, by all ranks' measure
      calls = std::clamp(static_cast<int>(compute_us / 2 / std::max(reduced, 1.0)), 1, 5000);
      continue;
    }
    blocking.push_back(reduced);
    alone.push_back(computed);
    beside.push_back(both.all_us);
    done.push_back(both.done_us);
    caller.push_back(both.caller_us / calls);
    worker.push_back(both.worker_us / calls);
    lost.push_back(both.all_us - computed);
  }
  if (!speaks || kept == 0) return;
  const Spread ratio = ratios(lost, blocking);
  std::printf("%12zu %6d %6d %12.1f %12.1f %12.1f %12.1f %12.1f %8.2f %8.2f %8.2f %8.3f %8.3f\n", bytes, parts, calls,
              median(alone), median(beside), median(lost), median(done), median(blocking), ratio.median, ratio.least,
              ratio.most, median(caller), median(worker));
}

}  // namespace

int main(int argument_count, char** arguments) {
  std::vector<std::size_t> sizes;
  for (int i = 1; i < argument_count; ++i) sizes.push_back(std::strtoull(arguments[i], nullptr, 10));
  if (sizes.empty()) sizes = {8, 4096, 262144, 2 << 20, 16 << 20};
  if (*std::min_element(sizes.begin(), sizes.end()) < sizeof(float)) {
    std::fprintf(stderr, "usage: concurrent_perf [SIZE...]: bytes, at least 4\n");
    return 2;
  }
  Pair parties;
  int rank = 0;
  check(rondoCommInitFromEnv(&parties[0].communicator), "rondoCommInitFromEnv");
  check(ncclCommUserRank(parties[0].communicator, &rank), "ncclCommUserRank");
  ncclUniqueId id = {};
  int ranks = 0;
  check(ncclCommCount(parties[0].communicator, &ranks), "ncclCommCount");
  if (rank == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  check(ncclBroadcast(&id, &id, sizeof id, ncclInt8, 0, parties[0].communicator, nullptr), "ncclBroadcast");
  check(ncclCommInitRank(&parties[1].communicator, ranks, id, rank), "ncclCommInitRank");
  for (Party& party : parties) {
    std::size_t most = 0;
    for (const std::size_t bytes : sizes) most = std::max(most, bytes * static_cast<std::size_t>(parts_of(bytes)));
    party.data.assign(most / sizeof(float), 0.0f);
    check(rondoStreamCreate(&party.queue), "rondoStreamCreate");
  }
  if (rank == 0) std::printf("#%11s %12s %12s %8s %8s %8s\n", "size(B)", "pair", "time(us)", "ratio", "least", "most");
  for (const std::size_t bytes : sizes) measure_ways(parties, bytes, rank == 0);
  if (rank == 0) {
    std::printf("#%11s %6s %12s %12s %8s %8s %8s\n", "size(B)", "calls", "turn(us)", "group(us)", "ratio", "least",
                "most");
  }
  for (const std::size_t bytes : sizes) measure_group(parties[0], bytes, rank == 0);
  if (rank == 0) std::printf("#%11s %12s %12s %12s\n", "size(B)", "blocking(us)", "queued(us)", "asked(us)");
  for (const std::size_t bytes : sizes) measure_latency(parties[0], bytes, rank == 0);
  if (rank == 0) {
    std::printf("#%11s %6s %6s %12s %12s %12s %12s %12s %8s %8s %8s %8s %8s\n", "size(B)", "parts", "calls",
                "compute(us)", "beside(us)", "lost(us)", "done(us)", "blocking(us)", "ratio", "least", "most", "caller",
                "worker");
  }
  const long turns = turns_for(compute_us);
  for (const std::size_t bytes : sizes) {
    for (const int parts : {1, parts_of(bytes)}) measure_compute(parties[0], bytes, parts, turns, rank == 0);
  }
  for (Party& party : parties) check(rondoStreamDestroy(party.queue), "rondoStreamDestroy");
  for (Party& party : parties) check(ncclCommDestroy(party.communicator), "ncclCommDestroy");
  return 0;
}
