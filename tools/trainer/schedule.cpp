// The learning rate of each step: see schedule.h.
#include "tools/trainer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rondo::trainer {

double peak_rate(const Options& options, double global_batch) {
  return options.rate > 0 ? options.rate : options.rate_base * global_batch / options.rate_base_size;
}

double rate_at(const Options& options, double peak, double epoch, double epochs) {
  if (epoch < options.warmup_epochs) {
    return options.warmup_rate + (peak - options.warmup_rate) * epoch / options.warmup_epochs;
  }
  switch (options.schedule) {
    case Schedule::constant: return peak;
    case Schedule::step:
      return std::max(options.rate_min,
                      peak * std::pow(options.decay_factor, std::floor(epoch / options.decay_epochs)));
    case Schedule::cosine: break;
  }
  const double length = std::max(epochs - options.warmup_epochs, 1e-9);
  const double done = std::clamp((epoch - options.warmup_epochs) / length, 0.0, 1.0);
  return options.rate_min + (peak - options.rate_min) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

}  // namespace rondo::trainer
