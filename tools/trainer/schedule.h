// The learning rate of each step: linear warm-up, then cosine, steps or a constant, in epochs and fractions of epochs.
// Without --lr the peak follows the global batch linearly (0.1 for 256 images, 0.8 for 2048: Goyal et al. 2017).
#pragma once

#include "tools/trainer/options.h"

namespace rondo::trainer {

/// The rate after warm-up, for steps of `global_batch` images over all ranks and passes.
double peak_rate(const Options& options, double global_batch);

/// The rate of a step that begins at `epoch` (fractions count) of a training of `epochs`.
double rate_at(const Options& options, double peak, double epoch, double epochs);

}  // namespace rondo::trainer
