// What a training tells: see reporter.h.
#include "tools/trainer/reporter.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "tools/trainer/base/atomic_file.h"
#include "tools/trainer/report/curves.h"
#include "tools/trainer/report/final_report.h"
#include "tools/trainer/report/timeline.h"
#include "tools/trainer/report/words.h"

namespace rondo::trainer {
namespace {

constexpr std::uint64_t warm_up_steps = 1;  // torch sets itself up, buckets are laid out again

/// A number of this host that others are unlikely to have, exact as a double.
double host_number() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return static_cast<double>(std::hash<std::string>{}(name) >> 12);
}

std::string formatted(const char* format, auto... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

const char* name_of(Parallel parallel) {
  switch (parallel) {
    case Parallel::none: return "none";
    case Parallel::ddp: return "ddp";
    case Parallel::ps: return "ps";
    case Parallel::dp: break;
  }
  return "dp";
}

}  // namespace

Reporter::Reporter(const Options& options, Team& team, double gradient_bytes)
    : options_(options),
      team_(team),
      gradient_bytes_(options.parallel == Parallel::none ? 0 : gradient_bytes),
      recorder_(options.steps_max == 1 ? 0 : warm_up_steps) {}

/// Of files that are written at the end: better told before the training.
void Reporter::require_folders() const {
  for (const std::string& path : {options_.report, options_.plot, options_.trace, options_.timeline}) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if (!folder.empty() && !std::filesystem::is_directory(folder)) {
      throw Error("cannot write " + path + ": there is no folder " + folder.string());
    }
  }
}

void Reporter::begin(std::int64_t steps_planned, std::optional<std::int64_t> resumed) {
  steps_planned_ = steps_planned;
  if (team_.rank() != 0) return;
  require_folders();
  for (const std::string& path : options_.other_reports) others_.push_back(report::scaling_point_of(path));
  const std::optional<std::uint64_t> from = resumed;
  if (!options_.plot.empty() && resumed && !options_.json.empty()) {
    for (report::Row& row : report::rows_of(options_.json)) {
      if (row.step <= *from) rows_.push_back(std::move(row));
    }
  }
  if (!options_.json.empty()) journals_.push_back(report::json_lines(options_.json, from));
  if (!options_.csv.empty()) {
    journals_.push_back(report::csv(options_.csv, {"loss/train", "rate/train", "accuracy/test", "loss/test"}, from));
  }
  if (!options_.tensorboard.empty()) journals_.push_back(report::tensorboard(options_.tensorboard));
  if (isatty(fileno(stdout)) == 0) return;  // elsewhere lines say what a bar would
  progress_.emplace(stdout);
  progress_->begin(options_.model, static_cast<std::uint64_t>(steps_planned_),
                   static_cast<std::uint64_t>(resumed.value_or(0)));
}

void Reporter::say(const std::string& line) {
  if (team_.rank() != 0) return;
  if (progress_) {
    progress_->say(line);
  } else {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }
}

void Reporter::write(report::Row row) {
  if (team_.rank() != 0) return;
  for (const auto& journal : journals_) journal->write(row);
  if (!options_.plot.empty()) rows_.push_back(std::move(row));
}

void Reporter::step(const StepResult& result, double rate, double epoch) {
  recorder_.add(result.times);
  const auto number = static_cast<std::int64_t>(result.times.number);
  if (progress_) progress_->show(result.times.number, formatted("loss %.4f", result.loss));
  if (number % options_.log_interval != 0 && number != steps_planned_) return;
  say(formatted("step %lld of %lld, epoch %.2f: loss %.4f, rate %.4g", static_cast<long long>(number),
                static_cast<long long>(steps_planned_), epoch, result.loss, rate) +
      (result.updated ? "" : " (a gradient overflowed: left out)"));
  write({result.times.number, epoch, {{"loss/train", result.loss}, {"rate/train", rate}}});
}

void Reporter::evaluation(std::int64_t step, double epoch, double share, double loss, double images) {
  say(formatted("epoch %.2f, step %lld: accuracy %.2f %%, loss %.4f on %.0f test images", epoch,
                static_cast<long long>(step), 100 * share, loss, images));
  write({static_cast<std::uint64_t>(step), epoch, {{"accuracy/test", share}, {"loss/test", loss}}});
  pause();
}

report::Figures Reporter::own_figures() const {
  report::Figures own = recorder_.figures();
  own.rank = team_.rank();
  own.host = host_number();
  if (options_.parallel == Parallel::dp && team_.rank() != 0) return own;  // the process is replica 0's
  own.peak_bytes = memory_.peak_bytes;
  own.proportional_bytes = memory_.proportional_bytes;
  own.private_bytes = memory_.private_bytes;
  return own;
}

/// Every rank's numbers, filled up to the longest.
std::vector<std::vector<double>> Reporter::gather(std::vector<double> numbers) {
  const double length = static_cast<double>(numbers.size());
  const std::vector<double> lengths = team_.gather({&length, 1});
  numbers.resize(static_cast<std::size_t>(*std::max_element(lengths.begin(), lengths.end())));
  const std::vector<double> all = team_.gather(numbers);
  std::vector<std::vector<double>> parts;
  for (std::size_t begin = 0; begin < all.size(); begin += numbers.size()) {
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(begin);
    parts.emplace_back(from, from + static_cast<std::ptrdiff_t>(numbers.size()));
  }
  return parts;
}

std::vector<std::pair<std::string, std::string>> Reporter::settings() const {
  return {{"model", options_.model},
          {"parallel", name_of(options_.parallel)},
          {"batch a rank", std::to_string(options_.batch)},
          {"threads a rank", std::to_string(options_.threads)}};
}

void Reporter::tuned(const std::vector<report::TunePoint>& points, const report::TunePoint& usual) {
  if (team_.rank() != 0) return;
  std::fputs(report::tune_table(points, usual).c_str(), stdout);
  for (const std::string& sentence : report::tune_advice(points, usual)) std::printf("  %s\n", sentence.c_str());
  if (options_.report.empty()) return;
  nlohmann::json file{{"world_size", team_.ranks()}, {"tune", report::tune_json(points, usual)}};
  for (const auto& [key, value] : settings()) file["settings"][key] = value;
  write_atomically(options_.report, file.dump(1) + "\n");
}

void Reporter::finish(const report::ExchangeCost& exchange) {
  if (recorder_.figures().steps == 0) return;  // no step was left to do, on any rank
  report::Run run;
  for (const std::vector<double>& numbers : gather(report::flat(own_figures()))) {
    run.ranks.push_back(report::figures_from(numbers));
  }
  std::vector<std::vector<report::Step>> steps;
  if (!options_.trace.empty()) {
    for (const std::vector<double>& numbers : gather(report::flat(recorder_.kept()))) {
      steps.push_back(report::steps_from(numbers));
    }
  }
  if (team_.rank() != 0) return;
  run.settings = settings();
  run.gradient_bytes = gradient_bytes_;
  run.bucket_bytes = options_.bucket_cap_mb * 1024 * 1024;
  run.accumulation = options_.accumulation;
  run.others = others_;
  run.exchange = exchange;
  progress_.reset();
  if (!options_.plot.empty()) write_atomically(options_.plot, report::curves_svg(rows_, options_.model));
  if (!options_.trace.empty()) write_atomically(options_.trace, report::chrome_trace(steps).dump());
  if (!options_.timeline.empty()) {
    const double backward = report::mean(run, [](const report::Figures& figures) { return figures.backward; });
    write_atomically(options_.timeline, report::timeline_svg(report::mean_buckets(run), backward, options_.model));
  }
  if (!options_.report.empty()) write_atomically(options_.report, report::to_json(run).dump(1) + "\n");
  std::fputs(report::text(run).c_str(), stdout);
}

}  // namespace rondo::trainer
