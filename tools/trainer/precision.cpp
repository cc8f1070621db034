// Autocast and the loss scale: see precision.h.
#include "tools/trainer/precision.h"

#include <ATen/autocast_mode.h>

#include <algorithm>

namespace rondo::trainer {
namespace {

constexpr std::int64_t growth_interval = 2000;
constexpr double scale_min = 1.0 / 65536;

void set(at::DeviceType device, Precision precision) {
  if (precision != Precision::as_is) {
    at::autocast::set_autocast_dtype(device, precision == Precision::fp16 ? at::kHalf : at::kBFloat16);
  }
  at::autocast::set_autocast_enabled(device, precision != Precision::as_is);
}

}  // namespace

Autocast::Autocast(at::DeviceType device, Precision precision) : device_(device), before_(current(device)) {
  set(device_, precision);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();  // of parameters in half precision
  set(device_, before_);
}

Precision Autocast::current(at::DeviceType device) {
  if (!at::autocast::is_autocast_enabled(device)) return Precision::as_is;
  return at::autocast::get_autocast_dtype(device) == at::kHalf ? Precision::fp16 : Precision::bf16;
}

void LossScale::update(bool overflowed) {
  if (overflowed) {
    scale_ = std::max(scale_ / 2, scale_min);
    good_steps_ = 0;
  } else if (++good_steps_ == growth_interval) {
    scale_ *= 2;
    good_steps_ = 0;
  }
}

}  // namespace rondo::trainer
