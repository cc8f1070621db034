// How speed grows with ranks, and Amdahl's formula for it: S(n) = 1 / ((1 - p) + p / n), p being the share of the work
// that all ranks do side by side.
#pragma once

#include <span>

namespace rondo::report {

struct ScalingPoint {
  int ranks = 1;
  double images_per_second = 0;
};

/// The p that fits the points best.  In 1 - 1/S = p (1 - 1/n) it is the slope of a line through the origin: the least
/// squares' one is sum(xy) / sum(xx).  Above 1 means faster than n times (caches).  NaN without a point of one rank
/// and one of several.
double parallel_fraction(std::span<const ScalingPoint> points);

/// Amdahl's S(n).
double speed_up(double fraction, int ranks);

}  // namespace rondo::report
