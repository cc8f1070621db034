// A training from its first step to its last: data, rate, evaluations, checkpoints, report.
#pragma once

#include "tools/trainer/options.h"

namespace rondo::trainer {

struct Ending {
  int status = 0;  // of the process
  int signal = 0;  // that asked it to end, or 0
};

/// Trains, and evaluates after each epoch; or only evaluates.  Throws what fails, with a sentence; what every rank
/// would throw, rank 0 prints, and all return status 1.
Ending train(const Options& options);

}  // namespace rondo::trainer
