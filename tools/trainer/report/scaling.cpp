// A line through the origin, by least squares; see scaling.h.
#include "tools/trainer/report/scaling.h"

#include <cmath>

namespace rondo::report {

double parallel_fraction(std::span<const ScalingPoint> points) {
  double one = 0;
  for (const ScalingPoint& point : points) {
    if (point.ranks == 1) one = point.images_per_second;
  }
  double products = 0;
  double squares = 0;
  for (const ScalingPoint& point : points) {
    if (point.ranks < 2 || point.images_per_second <= 0) continue;
    const double x = 1 - 1.0 / point.ranks;
    products += x * (1 - one / point.images_per_second);
    squares += x * x;
  }
  return one > 0 && squares > 0 ? products / squares : NAN;
}

double speed_up(double fraction, int ranks) { return 1 / (1 - fraction + fraction / ranks); }

}  // namespace rondo::report
