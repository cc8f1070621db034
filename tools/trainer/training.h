// The training: data, model, optimizer and ranks, step by step.
#pragma once

#include "tools/trainer/options.h"

namespace rondo::trainer {

/// Trains, and evaluates after each epoch; or only evaluates.  The number of the signal that asked it to end, or 0.
/// Throws what fails, with a sentence.
int train(const Options& options);

}  // namespace rondo::trainer
