// Mixed precision: autocast for a scope, and the scale that keeps small fp16 gradients from becoming zero.
#pragma once

#include <c10/core/DeviceType.h>

#include "tools/trainer/options.h"

namespace rondo::trainer {

/// While one lives, operators on this thread compute in the precision given (as_is: in that of their operands).
class Autocast {
 public:
  Autocast(at::DeviceType device, Precision precision);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  /// What this thread computes in.
  static Precision current(at::DeviceType device);

 private:
  at::DeviceType device_;
  Precision before_;
};

/// Doubles after `growth_interval` steps without an overflow; halves at one, and that step is left out.
class LossScale {
 public:
  explicit LossScale(double start) : scale_(start) {}
  double scale() const { return scale_; }
  /// After each step: whether a gradient was infinite or no number.
  void update(bool overflowed);
  /// For checkpoints.
  std::int64_t good_steps() const { return good_steps_; }
  void restore(double scale, std::int64_t good_steps) { scale_ = scale, good_steps_ = good_steps; }

 private:
  double scale_;
  std::int64_t good_steps_ = 0;
};

}  // namespace rondo::trainer
