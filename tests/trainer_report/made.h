// Steps and figures made up for tests, whose sums can be done by hand.
#pragma once

#include "tools/trainer/report/final_report.h"

namespace rondo::test {

/// A step that begins at `begin`: 1 s of data, 2 forward, 4 backward, 0.5 exposed, 0.25 optimizer, in `backwards`
/// rounds of the first three; two buckets, ready 1 s and 3 s after the last backward began, reduced in 1 s and 1.5 s.
inline report::Step made_step(double begin, int backwards = 1, std::uint64_t number = 0) {
  using report::Phase;
  report::Step step;
  step.number = number;
  step.images = 32;
  double at = begin;
  const auto span = [&](Phase phase, double length) {
    step.spans.push_back({phase, at, at + length});
    at += length;
  };
  for (int i = 0; i < backwards; ++i) {
    span(Phase::data, 1);
    span(Phase::forward, 2);
    span(Phase::backward, 4);
  }
  const double backward = at - 4;
  span(Phase::exposed, 0.5);
  span(Phase::optimizer, 0.25);
  step.buckets = {{1 << 20, backward + 1, backward + 1, backward + 2},
                  {2 << 20, backward + 2, backward + 3, backward + 4.5}};
  return step;
}

/// Figures of a rank with 10 steps of 100 ms.
inline report::Figures made_figures(int rank) {
  report::Figures figures;
  figures.rank = rank;
  figures.host = rank / 2;
  figures.steps = 10;
  figures.images = 320;
  figures.seconds = 1;
  figures.phases = {0.001, 0.030, 0.060, 0.002, 0.005};
  figures.other = 0.002;
  figures.step_median = 0.099;
  figures.step_largest = 0.110 + rank * 0.001;
  figures.backward = 0.060;
  figures.peak_bytes = 200 << 20;
  figures.proportional_bytes = 100 << 20;
  figures.private_bytes = 50 << 20;
  figures.buckets = {{1 << 20, 0.010, 0.010, 0.012}, {25 << 20, 0.040, 0.041, 0.062}};
  return figures;
}

}  // namespace rondo::test
