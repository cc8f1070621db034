// Mutants of the shipped schedules: every step of one rank dropped, doubled, swapped with the next, redirected, turned
// to another operation, moved to a neighbouring block; every flag flipped; one credit less.  Nearly all must be
// rejected, and what survives must be harmless: right in every mode, and the same under random orders of events.
#include <iostream>

#include "proof.h"

namespace rondo::plan {
namespace {

using Steps = std::vector<Step>;

constexpr int slices = 2;

/// All single-step mutants of a strand, except those that change nothing.
std::vector<Steps> mutants_of(const Steps& right, int ranks) {
  std::vector<Steps> list;
  const auto add = [&](Steps steps) {
    if (steps != right) list.push_back(std::move(steps));
  };
  for (std::size_t i = 0; i < right.size(); ++i) {
    const auto edited = [&](auto&& edit) {
      Steps steps = right;
      edit(steps[i]);
      add(std::move(steps));
    };
    Steps steps = right;
    steps.erase(steps.begin() + i);
    add(steps);
    steps = right;
    steps.insert(steps.begin() + i, right[i]);
    add(steps);
    steps = right;
    if (i + 1 < steps.size()) std::swap(steps[i], steps[i + 1]);
    add(steps);
    const auto redirect = [&](std::int32_t& peer) { peer = peer == here ? here : (peer + 1) % ranks; };
    edited([&](Step& s) {
      for (std::int32_t& peer : s.from) redirect(peer);
    });
    edited([&](Step& s) {
      for (std::int32_t& peer : s.to) redirect(peer);
    });
    edited([](Step& s) {
      if (!s.from.empty()) s.from.pop_back();
    });
    edited([](Step& s) {
      if (!s.to.empty()) s.to.pop_back();
    });
    for (int operation = 0; operation < operation_count; ++operation)
      edited([&](Step& s) { s.operation = static_cast<Operation>(operation); });
    for (const int by : {-1, 1}) {
      edited([&](Step& s) {
        if (s.source) s.source.first += by;
      });
      edited([&](Step& s) {
        if (s.target) s.target.first += by;
      });
    }
    edited([](Step& s) { s.finish = !s.finish; });
    edited([](Step& s) { s.reply = !s.reply; });
  }
  return list;
}

bool caught(const Run& run, const Schedule& schedule) {
  for (const Options& mode : modes(schedule, run.collective.ranks, slices)) {
    const Verdict verdict = verify(run, mode);
    if (!verdict.ok() || (schedule.left_fold && !verdict.left_fold)) return true;
  }
  return false;
}

void require_harmless(const Run& run, const Schedule& schedule) {
  Options options{.credits = schedule.credits(slices, run.collective.ranks) + 1, .slices = slices};
  options.expressions = true;
  const Verdict first = verify(run, options);
  for (int seed = 0; seed < 6; ++seed) {
    options.seed = seed;
    REQUIRE(verify(run, options).results == first.results);
  }
}

TEST_CASE("single-step mutants are rejected, or harmless") {
  int total = 0, rejected = 0;
  for (const Schedule& schedule : schedules())
    for (const int ranks : {2, 3, 5})
      for (const int rank : {0, ranks - 1}) {
        Run run = build_run(schedule, Topology::one_host(ranks), 0);
        for (Strand& strand : run.plans[rank].strands)
          for (Steps& mutant : mutants_of(strand.steps, ranks)) {
            std::swap(strand.steps, mutant);
            ++total;
            if (caught(run, schedule)) {
              ++rejected;
            } else {
              require_harmless(run, schedule);
            }
            std::swap(strand.steps, mutant);
          }
      }
  std::cout << "mutants: " << rejected << " of " << total << " rejected\n";
  REQUIRE(total > 10'000);
  REQUIRE(rejected * 100 >= total * 95);  // most of the rest: local copies and independent steps swapped
}

TEST_CASE("a schedule with one credit less than it claims deadlocks") {
  for (const Schedule& schedule : schedules()) {
    const int ranks = 5;
    Options worst = modes(schedule, ranks, slices).back();
    worst.credits -= 1;
    REQUIRE(verify(build_run(schedule, Topology::one_host(ranks)), worst).fault == Fault::deadlock);
  }
}

}  // namespace
}  // namespace rondo::plan
