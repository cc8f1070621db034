// What to change, from what was measured.  Each sentence states the figures and the rule that it follows from.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/trainer/report/final_report.h"

namespace rondo::report {

/// The shares from which on something is worth a change, of a step.
inline constexpr double exposed_share_wanted = 0.05;
inline constexpr double data_share_wanted = 0.05;
inline constexpr double slowness_wanted = 0.05;  // of the slowest rank's computation, above the mean

/// An all-reduce's time as latency + bytes / speed.
struct TransferFit {
  double latency = 0;  // seconds
  double speed = 0;    // bytes a second
};

/// The least squares' line through the buckets' (bytes, end - start); nothing where it isn't one: fewer than three
/// buckets, sizes within a factor of two, or a latency or a speed that isn't positive.
std::optional<TransferFit> transfer_fit(std::span<const BucketMeans> buckets);

/// The bucket size that makes latency * gradients / size (the calls) + size / speed (the last one, which nothing hides)
/// least: sqrt(latency * gradients * speed).
double best_bucket_bytes(const TransferFit& fit, double gradient_bytes);

/// The least power of two k such that exposed / (exposed + optimizer + k * backward and all before it) is at most what
/// is wanted; `step` is a step's time with `accumulation` backwards.
int wanted_accumulation(double step, double exposed, double optimizer, int accumulation);

/// Sentences; none if there is nothing to say.
std::vector<std::string> advice(const Run& run);

}  // namespace rondo::report
