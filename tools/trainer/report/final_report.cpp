// Tables of means over ranks; see final_report.h.
#include "tools/trainer/report/final_report.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tools/trainer/report/advice.h"
#include "tools/trainer/report/timeline.h"
#include "tools/trainer/report/words.h"

namespace rondo::report {
namespace {

using nlohmann::json;

constexpr std::size_t ranks_shown = 8;  // one line each; of more, the least and the largest

double largest(const Run& run, double Figures::*field) {
  double result = 0;
  for (const Figures& figures : run.ranks) result = std::max(result, figures.*field);
  return result;
}

double sum(const Run& run, double Figures::*field) {
  double result = 0;
  for (const Figures& figures : run.ranks) result += figures.*field;
  return result;
}

/// The ranks' hosts, numbered from 0 as they appear.
std::vector<std::size_t> host_indices(const Run& run) {
  std::map<double, std::size_t> seen;
  std::vector<std::size_t> indices;
  for (const Figures& figures : run.ranks) indices.push_back(seen.emplace(figures.host, seen.size()).first->second);
  return indices;
}

std::size_t hosts(const Run& run) {
  const std::vector<std::size_t> indices = host_indices(run);
  return *std::max_element(indices.begin(), indices.end()) + 1;
}

std::string counted(std::size_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

double mean_step(const Run& run) {
  return mean(run, [](const Figures& figures) { return figures.step(); });
}

std::string head(const Run& run) {
  std::string line = counted(run.ranks.size(), "rank") + " on " + counted(hosts(run), "host");
  for (const auto& [key, value] : run.settings) line += ", " + key + " " + value;
  line += ": " + counted(static_cast<std::size_t>(run.ranks[0].steps), "step") + " measured, " +
          counted(static_cast<std::size_t>(sum(run, &Figures::images)), "image") + " in " +
          three_digits(largest(run, &Figures::seconds)) + " s\n";
  return line;
}

std::string step_table(const Run& run) {
  const double step = mean_step(run);
  const auto row = [&](const std::string& name, double seconds) {
    return "  " + left_of(name, 24) + right_of(three_digits(seconds * 1e3), 9) +
           right_of(percent(step > 0 ? seconds / step : 0), 9) + "\n";
  };
  std::string text = left_of("A step (mean over ranks)", 26) + right_of("ms", 9) + right_of("%", 9) + "\n";
  for (std::size_t i = 0; i < phase_count; ++i) {
    text += row(name(static_cast<Phase>(i)), mean(run, [&](const Figures& figures) { return figures.phases[i]; }));
  }
  text += row("other", mean(run, [](const Figures& figures) { return figures.other; }));
  text += row("whole", step);
  const double median = mean(run, [](const Figures& figures) { return figures.step_median; });
  return text + "  median " + three_digits(median * 1e3) + " ms, slowest " +
         three_digits(largest(run, &Figures::step_largest) * 1e3) + " ms\n";
}

std::string bucket_table(const Run& run) {
  const std::vector<BucketMeans> buckets = mean_buckets(run);
  if (buckets.empty()) return "";
  const double backward = mean(run, [](const Figures& figures) { return figures.backward; });
  return "Buckets (ms since backward began; '.' ready and waiting, '=' all-reduce, '|' backward's end at " +
         three_digits(backward * 1e3) + ")\n" + timeline_text(buckets, backward);
}

/// The largest above the mean, as a share of the mean.
double imbalance(const Run& run, double Figures::*field) {
  const double usual = sum(run, field) / static_cast<double>(run.ranks.size());
  return usual > 0 ? largest(run, field) / usual - 1 : 0;
}

std::string memory_table(const Run& run) {
  const bool device = largest(run, &Figures::device_bytes) > 0;
  const auto row = [&](const std::string& name, const Figures& figures) {
    return "  " + left_of(name, 24) + right_of(size_text(figures.peak_bytes), 12) +
           right_of(size_text(figures.proportional_bytes), 12) + right_of(size_text(figures.private_bytes), 12) +
           (device ? right_of(size_text(figures.device_bytes), 12) : "") + "\n";
  };
  std::string text = left_of("Memory", 26) + right_of("peak RSS", 12) + right_of("PSS", 12) + right_of("private", 12) +
                     (device ? right_of("device peak", 12) : "") + "\n";
  if (run.ranks.size() <= ranks_shown) {
    for (const Figures& figures : run.ranks) text += row("rank " + std::to_string(int(figures.rank)), figures);
  } else {
    const auto by_peak = [](const Figures& a, const Figures& b) { return a.peak_bytes < b.peak_bytes; };
    const auto [least, most] = std::minmax_element(run.ranks.begin(), run.ranks.end(), by_peak);
    text += row("least: rank " + std::to_string(int(least->rank)), *least);
    text += row("largest: rank " + std::to_string(int(most->rank)), *most);
  }
  text += "  all ranks: " + size_text(sum(run, &Figures::proportional_bytes)) +
          " PSS (shared pages count once); largest peak " +
          percent(imbalance(run, device ? &Figures::device_bytes : &Figures::peak_bytes)) + " % above the mean\n";
  return text;
}

/// This run and the others, each number of ranks once, in ascending order; this run's figure stands.
std::vector<ScalingPoint> points(const Run& run) {
  std::map<int, double> speeds;
  for (const ScalingPoint& point : run.others) speeds[point.ranks] = point.images_per_second;
  speeds[static_cast<int>(run.ranks.size())] = images_per_second(run);
  std::vector<ScalingPoint> result;
  for (const auto& [ranks, speed] : speeds) result.push_back({ranks, speed});
  return result;
}

std::string scaling_table(const Run& run) {
  const std::vector<ScalingPoint> all = points(run);
  const double fraction = parallel_fraction(all);
  if (std::isnan(fraction)) return "";
  std::string text = "Scaling        images/s   times 1 rank   efficiency\n";
  for (const ScalingPoint& point : all) {
    const double times = point.images_per_second / all.front().images_per_second;
    text += "  " + left_of(counted(static_cast<std::size_t>(point.ranks), "rank"), 10) +
            right_of(three_digits(point.images_per_second), 11) + right_of(three_digits(times), 15) +
            right_of(percent(times / point.ranks), 11) + " %\n";
  }
  text += "  Amdahl's formula fits a parallel fraction of " + three_digits(fraction);
  if (fraction < 1) {
    text += ": at most " + three_digits(1 / (1 - fraction)) + " times 1 rank; it gives " +
            three_digits(speed_up(fraction, 8)) + " times on 8 ranks";
  }
  return text + "\n";
}

json bucket_json(const BucketMeans& bucket) {
  return {{"bytes", bucket.bytes}, {"ready_s", bucket.ready}, {"start_s", bucket.start}, {"end_s", bucket.end}};
}

json rank_json(const Figures& figures, std::size_t host) {
  json phases;
  for (std::size_t i = 0; i < phase_count; ++i) phases[name(static_cast<Phase>(i))] = figures.phases[i];
  phases["other"] = figures.other;
  json buckets = json::array();
  for (const BucketMeans& bucket : figures.buckets) buckets.push_back(bucket_json(bucket));
  return {{"rank", int(figures.rank)},
          {"host", host},
          {"steps", figures.steps},
          {"images", figures.images},
          {"seconds", figures.seconds},
          {"step_s", figures.step()},
          {"step_median_s", figures.step_median},
          {"step_largest_s", figures.step_largest},
          {"phases_s", std::move(phases)},
          {"backward_s", figures.backward},
          {"buckets", std::move(buckets)},
          {"memory",
           {{"peak_rss_bytes", figures.peak_bytes},
            {"pss_bytes", figures.proportional_bytes},
            {"private_bytes", figures.private_bytes},
            {"device_peak_bytes", figures.device_bytes}}}};
}

}  // namespace

double images_per_second(const Run& run) {
  const double seconds = largest(run, &Figures::seconds);
  return seconds > 0 ? sum(run, &Figures::images) / seconds : 0;
}

std::string text(const Run& run) {
  std::string report = head(run) + "\n" + step_table(run);
  for (const std::string& part : {bucket_table(run), text(run.exchange), memory_table(run), scaling_table(run)}) {
    if (!part.empty()) report += "\n" + part;
  }
  for (bool first = true; const std::string& sentence : advice(run)) {
    report += (first ? "\nAdvice\n  " : "  ") + sentence + "\n";
    first = false;
  }
  return report + "\n" + three_digits(images_per_second(run)) + " images/s\n";
}

json to_json(const Run& run) {
  json settings = json::object();
  for (const auto& [key, value] : run.settings) settings[key] = value;
  json ranks = json::array();
  const std::vector<std::size_t> indices = host_indices(run);
  for (std::size_t i = 0; i < run.ranks.size(); ++i) ranks.push_back(rank_json(run.ranks[i], indices[i]));
  const std::vector<ScalingPoint> all = points(run);
  json scaling{{"points", json::array()}};
  for (const ScalingPoint& point : all) {
    scaling["points"].push_back({{"ranks", point.ranks}, {"images_per_second", point.images_per_second}});
  }
  const double fraction = parallel_fraction(all);
  scaling["parallel_fraction"] = std::isnan(fraction) ? json() : json(fraction);
  return {
      {"settings", std::move(settings)},
      {"world_size", run.ranks.size()},
      {"hosts", hosts(run)},
      {"images_per_second", images_per_second(run)},
      {"step_s", mean_step(run)},
      {"exposed_share",
       mean_step(run) > 0 ? mean(run, [](const Figures& f) { return f.phase(Phase::exposed); }) / mean_step(run) : 0},
      {"pss_bytes", sum(run, &Figures::proportional_bytes)},
      {"peak_imbalance", imbalance(run, &Figures::peak_bytes)},
      {"gradient_bytes", run.gradient_bytes},
      {"bucket_bytes", run.bucket_bytes},
      {"accumulation", run.accumulation},
      {"exchange", to_json(run.exchange)},
      {"ranks", std::move(ranks)},
      {"scaling", std::move(scaling)},
      {"advice", advice(run)}};
}

ScalingPoint scaling_point_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  try {
    const json report = json::parse(file);
    return {report.at("world_size"), report.at("images_per_second")};
  } catch (const json::exception&) {
    throw std::runtime_error(path + " is not the JSON report of a run");
  }
}

}  // namespace rondo::report
