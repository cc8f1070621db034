// Measured steps: see trials.h.  Every one begins at a barrier, so that no step pays for the lateness of another.
#include "tools/trainer/trials.h"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "tools/trainer/report/words.h"
#include "tools/trainer/stop.h"

namespace rondo::trainer {
namespace {

constexpr double mebibyte = 1 << 20;

}  // namespace

Trials::Trials(const Options& options, Team& team, Images& images, Learner& learner)
    : options_(options), team_(team), learner_(learner), feed_(images.whole_batches()) {}

/// Seconds of one step of this rank, and of those the wait for communication.
double Trials::step(int passes, Exchange exchange, double* exposed) {
  StepPlan plan;
  plan.number = passes_ + 1;
  plan.passes = passes;
  plan.images = static_cast<std::size_t>(options_.batch) * static_cast<std::size_t>(passes);
  plan.first_pass = passes_;
  plan.signal = stop_signal();
  plan.exchange = exchange;
  passes_ += static_cast<std::uint64_t>(passes);
  team_.barrier();
  const StepResult result = learner_.step(*feed_, plan);
  if (exchange == Exchange::usual && signal_ == 0) signal_ = result.signal;  // which all ranks see alike
  const std::vector<report::Span>& spans = result.times.spans;
  for (const report::Span& span : spans) {
    if (exposed != nullptr && span.phase == report::Phase::exposed) *exposed += span.end - span.begin;
  }
  return spans.back().end - spans.front().begin;
}

/// Lists of equal length; each number that of the rank where it is largest.
std::vector<std::vector<double>> Trials::slowest(const std::vector<std::vector<double>>& lists) {
  std::vector<double> flat;
  for (const std::vector<double>& list : lists) flat.insert(flat.end(), list.begin(), list.end());
  const std::vector<double> all = team_.gather(flat);
  for (std::size_t i = 0; i < all.size(); ++i) flat[i % flat.size()] = std::max(flat[i % flat.size()], all[i]);
  std::vector<std::vector<double>> result;
  auto next = flat.begin();
  for (const std::vector<double>& list : lists) {
    result.emplace_back(next, next + static_cast<std::ptrdiff_t>(list.size()));
    next += static_cast<std::ptrdiff_t>(list.size());
  }
  return result;
}

report::ExchangeCost Trials::exchange(int rounds) {
  constexpr std::array kinds{Exchange::usual, Exchange::paused, Exchange::detached};
  std::vector<std::vector<double>> lists(kinds.size() + 1);
  // Without the layer, autograd's gradients need memory that a step with it gives back.  What is freed stays with the
  // process from now on, or some steps would pay for getting pages again: 30 ms where gradients have 100 MB.
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  for (const Exchange kind : kinds) step(options_.accumulation, kind);
  for (int round = 0; round < rounds && signal_ == 0; ++round) {
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const std::size_t kind = (i + static_cast<std::size_t>(round)) % kinds.size();  // none always follows the same
      lists[kind].push_back(step(options_.accumulation, kinds[kind]));
    }
    lists.back().push_back(learner_.exchange_alone());
  }
  if (signal_ != 0) return {};
  lists = slowest(lists);
  return report::exchange_cost({lists[0], lists[1], lists[2], lists[3]});
}

report::TunePoint Trials::point(const Cell& cell, const std::vector<double>& seconds,
                                const std::vector<double>& exposed) {
  const double images = double(options_.batch) * cell.accumulation * options_.tune_steps * team_.ranks();
  std::vector<double> shares(seconds.size());
  std::transform(exposed.begin(), exposed.end(), seconds.begin(), shares.begin(),
                 [](double part, double whole) { return part / whole; });
  return {cell.bucket_cap_mb * mebibyte, cell.accumulation, images / report::median(seconds), report::median(shares)};
}

std::vector<report::TunePoint> Trials::tune(const report::TunePoint& usual) {
  std::set<double> sizes(options_.tune_bucket_caps_mb.begin(), options_.tune_bucket_caps_mb.end());
  std::set<int> accumulations(options_.tune_accumulations.begin(), options_.tune_accumulations.end());
  sizes.insert(usual.bucket_bytes / mebibyte);
  accumulations.insert(usual.accumulation);
  std::vector<Cell> cells;
  for (const double size : sizes) {
    for (const int accumulation : accumulations) cells.push_back({size, accumulation});
  }
  std::vector<std::vector<double>> lists(2 * cells.size());  // of each cell: seconds, and of those exposed ones
  for (int round = 0; round < options_.tune_rounds; ++round) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i == 0 || cells[i].bucket_cap_mb != cells[i - 1].bucket_cap_mb) {
        learner_.lay_out(cells[i].bucket_cap_mb);
        step(1, Exchange::usual);  // after which buckets stand in the order of arrival
      }
      double seconds = 0;
      double exposed = 0;
      for (int n = 0; n < options_.tune_steps; ++n) {
        seconds += step(cells[i].accumulation, Exchange::usual, &exposed);
      }
      if (signal_ != 0) return {};
      lists[2 * i].push_back(seconds);
      lists[2 * i + 1].push_back(exposed);
    }
  }
  lists = slowest(lists);
  std::vector<report::TunePoint> points;
  for (std::size_t i = 0; i < cells.size(); ++i) points.push_back(point(cells[i], lists[2 * i], lists[2 * i + 1]));
  return points;
}

}  // namespace rondo::trainer
