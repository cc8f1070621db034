// Steps that are measured beside a training: what the exchange of gradients costs, and which sizes of buckets and how
// many passes a step are fastest.  Their rate is 0, so that they do all of a step's work and leave the model as it is
// (but for its running statistics).  Knows no torch.
#pragma once

#include <vector>

#include "tools/trainer/images.h"
#include "tools/trainer/learner.h"
#include "tools/trainer/options.h"
#include "tools/trainer/report/exchange_cost.h"
#include "tools/trainer/report/tune_table.h"
#include "tools/trainer/team.h"

namespace rondo::trainer {

class Trials {
 public:
  /// With Parallel::ddp or ps.  All outlive the trials.
  Trials(const Options& options, Team& team, Images& images, Learner& learner);

  /// `rounds` steps of each kind, in turns: what they cost on the slowest rank.  All ranks call it, and get the same.
  report::ExchangeCost exchange(int rounds);
  /// Every size of buckets with every number of passes, in turns: their medians.  The usual ones are among them.
  std::vector<report::TunePoint> tune(const report::TunePoint& usual);
  /// The signal that ended the trials early, or 0: their figures are none.
  int signal() const { return signal_; }

 private:
  struct Cell {
    double bucket_cap_mb = 0;
    int accumulation = 1;
  };
  double step(int passes, Exchange exchange, double* exposed = nullptr);
  std::vector<std::vector<double>> slowest(const std::vector<std::vector<double>>& lists);
  report::TunePoint point(const Cell& cell, const std::vector<double>& seconds, const std::vector<double>& exposed);

  const Options& options_;
  Team& team_;
  Learner& learner_;
  std::unique_ptr<Feed> feed_;
  std::uint64_t passes_ = 0;
  int signal_ = 0;
};

}  // namespace rondo::trainer
