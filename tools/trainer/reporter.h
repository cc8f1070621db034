// What a training tells while it runs and at its end: progress, journals, curves, the report.  Rank 0 speaks and
// writes; the others' figures are gathered.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/trainer/learner.h"
#include "tools/trainer/options.h"
#include "tools/trainer/report/exchange_cost.h"
#include "tools/trainer/report/journal.h"
#include "tools/trainer/report/measures.h"
#include "tools/trainer/report/memory.h"
#include "tools/trainer/report/progress.h"
#include "tools/trainer/report/scaling.h"
#include "tools/trainer/report/tune_table.h"
#include "tools/trainer/team.h"

namespace rondo::trainer {

class Reporter {
 public:
  Reporter(const Options& options, Team& team, double gradient_bytes);

  /// Opens the journals; `resumed`: the step that a checkpoint ended with.
  void begin(std::int64_t steps_planned, std::optional<std::int64_t> resumed);
  void step(const StepResult& result, double rate, double epoch);
  /// Of the model after `step` steps: shares and means of `images` test images.
  void evaluation(std::int64_t step, double epoch, double share, double loss, double images);
  /// What follows belongs to no step.
  void pause() { recorder_.pause(); }
  void say(const std::string& line);
  /// The report's memory is that of now, whatever comes later.
  void note_memory() { memory_ = report::process_memory(); }
  /// Gathers all ranks' figures, and prints the report; its last line is the speed.  All ranks call it.
  void finish(const report::ExchangeCost& exchange);
  /// The sweep's table, on rank 0.
  void tuned(const std::vector<report::TunePoint>& points, const report::TunePoint& usual);

 private:
  void require_folders() const;
  void write(report::Row row);
  std::vector<std::vector<double>> gather(std::vector<double> numbers);
  report::Figures own_figures() const;
  std::vector<std::pair<std::string, std::string>> settings() const;

  const Options options_;
  Team& team_;
  double gradient_bytes_;
  std::int64_t steps_planned_ = 0;
  report::Recorder recorder_;
  std::optional<report::Progress> progress_;  // these on rank 0
  std::vector<std::unique_ptr<report::Journal>> journals_;
  std::vector<report::Row> rows_;  // for --plot
  std::vector<report::ScalingPoint> others_;
  report::ProcessMemory memory_;
};

}  // namespace rondo::trainer
