// Steps to figures, figures to doubles and back, and what the kernel says of memory.
#include "tools/trainer/report/measures.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "tests/trainer_report/made.h"
#include "tools/trainer/report/memory.h"

using namespace rondo::report;
using rondo::test::made_step;

namespace {

bool same(const BucketSpan& a, const BucketSpan& b) {
  return a.bytes == b.bytes && a.ready == b.ready && a.start == b.start && a.end == b.end;
}

}  // namespace

TEST_CASE("Figures are the means of the steps behind the warm-up") {
  Recorder recorder(1);
  CHECK(recorder.figures().steps == 0);
  recorder.add(made_step(0));
  CHECK(recorder.figures().steps == 0);
  recorder.add(made_step(10));
  recorder.add(made_step(18));
  recorder.add(made_step(28));
  const Figures figures = recorder.figures();
  CHECK(figures.steps == 3);
  CHECK(figures.images == 96);
  CHECK(figures.seconds == Approx(8 + 10 + 7.75));  // the last one ends with its last span
  CHECK(figures.phase(Phase::data) == Approx(1));
  CHECK(figures.phase(Phase::forward) == Approx(2));
  CHECK(figures.phase(Phase::backward) == Approx(4));
  CHECK(figures.phase(Phase::exposed) == Approx(0.5));
  CHECK(figures.phase(Phase::optimizer) == Approx(0.25));
  CHECK(figures.other == Approx((0.25 + 2.25 + 0) / 3));
  CHECK(figures.step_median == Approx(8));
  CHECK(figures.step_largest == Approx(10));
  CHECK(figures.backward == Approx(4));
  REQUIRE(figures.buckets.size() == 2);
  CHECK(figures.buckets[1].ready == Approx(2));
  CHECK(figures.buckets[1].start == Approx(3));
  CHECK(figures.buckets[1].end == Approx(4.5));
  double parts = figures.other;
  for (const double phase : figures.phases) parts += phase;
  CHECK(parts == Approx(figures.step()));
}

TEST_CASE("Accumulation sums phases, and buckets belong to the last backward") {
  Recorder recorder;
  recorder.add(made_step(0, 3));
  const Figures figures = recorder.figures();
  CHECK(figures.phase(Phase::backward) == Approx(12));
  CHECK(figures.backward == Approx(4));
  CHECK(figures.buckets.at(0).ready == Approx(1));
}

TEST_CASE("A pause belongs to no step, and rebuilt buckets replace the old ones") {
  Recorder recorder;
  Step old = made_step(0);
  old.buckets = {{5, 0, 0, 100}};
  recorder.add(old);
  recorder.pause();
  recorder.add(made_step(1000));
  recorder.add(made_step(1008));
  const Figures figures = recorder.figures();
  CHECK(figures.seconds == Approx(7.75 + 8 + 7.75));
  REQUIRE(figures.buckets.size() == 2);
  CHECK(figures.buckets[0].end == Approx(2));
  CHECK_THROWS_AS(recorder.add(Step{}), std::invalid_argument);
}

TEST_CASE("A step of a rank that has no images left has no backward") {
  Recorder recorder;
  Step idle;
  idle.spans = {{Phase::exposed, 10, 13}, {Phase::optimizer, 13, 14}};
  idle.buckets = {{5, 10, 10.5, 12}};
  recorder.add(idle);
  const Figures figures = recorder.figures();
  CHECK(figures.backward == 0);
  CHECK(figures.buckets.at(0).end == Approx(2));  // since the step began
}

TEST_CASE("The latest steps are kept") {
  Recorder recorder(0, 2);
  for (std::uint64_t i = 0; i < 5; ++i) recorder.add(made_step(10.0 * double(i), 1, i));
  REQUIRE(recorder.kept().size() == 2);
  CHECK(recorder.kept()[0].number == 3);
  CHECK(recorder.kept()[1].number == 4);
}

TEST_CASE("Figures and steps travel as doubles, with padding behind them") {
  Figures figures = rondo::test::made_figures(3);
  figures.device_bytes = 7;
  std::vector<double> doubles = flat(figures);
  doubles.resize(doubles.size() + 9, std::numeric_limits<double>::quiet_NaN());
  const Figures back = figures_from(doubles);
  CHECK(flat(back) == flat(figures));
  CHECK(back.rank == 3);
  CHECK(back.phases == figures.phases);
  CHECK(back.device_bytes == 7);
  REQUIRE(back.buckets.size() == 2);
  CHECK(same(back.buckets[1], figures.buckets[1]));

  const std::vector<Step> steps{made_step(1, 2, 8), made_step(20, 1, 9)};
  doubles = flat(steps);
  doubles.push_back(1e300);
  const std::vector<Step> steps_back = steps_from(doubles);
  REQUIRE(steps_back.size() == 2);
  CHECK(steps_back[0].number == 8);
  CHECK(steps_back[0].spans.size() == 8);
  CHECK(steps_back[0].spans[7].phase == Phase::optimizer);
  CHECK(steps_back[1].spans[2].end == 27);
  CHECK(same(steps_back[1].buckets[0], steps[1].buckets[0]));
  CHECK(steps_from(flat(std::span<const Step>{})).empty());
}

TEST_CASE("Doubles that are no figures are refused") {
  const std::vector<double> good = flat(rondo::test::made_figures(0));
  for (std::size_t length = 0; length < good.size(); ++length) {
    CHECK_THROWS_AS(figures_from({good.data(), length}), std::invalid_argument);
  }
  std::vector<double> bad = good;
  for (const double length : {-1.0, 0.0, 1.0, 5.0, 1e9, double(NAN)}) {
    bad[0] = length;
    CHECK_THROWS_AS(figures_from(bad), std::invalid_argument);
  }
  std::vector<double> steps = flat(std::vector<Step>{made_step(0)});
  for (const std::size_t place : {std::size_t(3), std::size_t(4), std::size_t(5)}) {  // spans, buckets, a phase
    std::vector<double> broken = steps;
    broken[place] = 99;
    CHECK_THROWS_AS(steps_from(broken), std::invalid_argument);
  }
}

TEST_CASE("Memory: what a process touches shows, and shared pages are divided") {
  constexpr std::size_t bytes = 64 << 20;
  void* const pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(pages != MAP_FAILED);
  const ProcessMemory before = process_memory();
  CHECK(before.peak_bytes > 0);
  CHECK(before.private_bytes <= before.proportional_bytes);
  std::memset(pages, 1, bytes);
  const ProcessMemory alone = process_memory();
  CHECK(alone.proportional_bytes - before.proportional_bytes > 0.9 * bytes);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    volatile char sum = 0;
    for (std::size_t i = 0; i < bytes; i += 4096) sum = sum + static_cast<const char*>(pages)[i];
    ::close(ends[1]);
    (void)!::read(ends[0], &byte, 1);  // until the parent closes its end
    ::_exit(0);
  }
  ::close(ends[0]);
  const std::string folder = "/proc/" + std::to_string(child);
  double shared = process_memory(folder).proportional_bytes;
  for (int i = 0; i < 10'000 && shared < 0.45 * bytes; ++i) {
    ::usleep(1000);
    shared = process_memory(folder).proportional_bytes;
  }
  const double mine = process_memory().proportional_bytes;
  ::close(ends[1]);
  ::waitpid(child, nullptr, 0);
  CHECK(shared > 0.45 * bytes);
  CHECK(mine < alone.proportional_bytes - 0.4 * bytes);
  ::munmap(pages, bytes);
  CHECK(process_memory("/no/such").peak_bytes == 0);
}
