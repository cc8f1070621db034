// Rows and columns are whatever sizes and accumulations the points have, in ascending order; see tune_table.h.
#include "tools/trainer/report/tune_table.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/trainer/report/words.h"

namespace rondo::report {
namespace {

constexpr std::size_t label_width = 12;
constexpr std::size_t cell_width = 18;

const TunePoint* find(std::span<const TunePoint> points, double bucket_bytes, int accumulation) {
  const auto found = std::find_if(points.begin(), points.end(), [&](const TunePoint& point) {
    return point.bucket_bytes == bucket_bytes && point.accumulation == accumulation;
  });
  return found == points.end() ? nullptr : &*found;
}

const TunePoint& fastest(std::span<const TunePoint> points) {
  return *std::max_element(points.begin(), points.end(),
                           [](const auto& a, const auto& b) { return a.images_per_second < b.images_per_second; });
}

std::string cell(const TunePoint* point, const TunePoint* best) {
  if (point == nullptr) return right_of("- ", cell_width);
  return right_of(three_digits(point->images_per_second) + " (" + percent(point->exposed_share) + " %)" +
                      (point == best ? "*" : " "),
                  cell_width);
}

nlohmann::json point_json(const TunePoint& point) {
  return {{"bucket_bytes", point.bucket_bytes},
          {"accumulation", point.accumulation},
          {"images_per_second", point.images_per_second},
          {"exposed_share", point.exposed_share}};
}

}  // namespace

std::string tune_table(std::span<const TunePoint> points, const TunePoint& usual) {
  if (points.empty()) return "";
  std::set<double> sizes;
  std::set<int> accumulations;
  for (const TunePoint& point : points) {
    sizes.insert(point.bucket_bytes);
    accumulations.insert(point.accumulation);
  }
  const TunePoint* const best = &fastest(points);
  std::string text =
      "images/s (exposed communication), by bucket size and backwards a step\n" + left_of("", label_width);
  for (const int accumulation : accumulations) text += right_of(std::to_string(accumulation) + " ", cell_width);
  text += "\n";
  for (const double size : sizes) {
    text += right_of(size_text(size), label_width);
    for (const int accumulation : accumulations) text += cell(find(points, size, accumulation), best);
    text += "\n";
  }
  text += "fastest: buckets of " + size_text(best->bucket_bytes) + ", " + std::to_string(best->accumulation) +
          (best->accumulation == 1 ? " backward" : " backwards") + " a step: " + three_digits(best->images_per_second) +
          " images/s";
  if (usual.images_per_second > 0) {
    const double times = best->images_per_second / usual.images_per_second;
    text += ", " + three_digits(times) + " times those of " + size_text(usual.bucket_bytes) + " and " +
            std::to_string(usual.accumulation) + " (" + three_digits(usual.images_per_second) + ")";
  }
  return text + "\n";
}

std::vector<std::string> tune_advice(std::span<const TunePoint> points, const TunePoint& usual) {
  if (points.empty()) return {};
  const auto sentence = [&](const TunePoint& point, const std::string& why) {
    constexpr double mebibyte = 1 << 20;
    char size[32];
    std::snprintf(size, sizeof size, "%g", point.bucket_bytes / mebibyte);
    return std::string("--bucket-cap-mb ") + size + " --grad-accum-steps " + std::to_string(point.accumulation) + ": " +
           why + ", " + three_digits(point.images_per_second / usual.images_per_second) + " times the usual speed";
  };
  const TunePoint& best = fastest(points);
  std::vector<std::string> sentences;
  if (best.accumulation == usual.accumulation) {
    sentences.push_back(sentence(best, "the fastest"));
    return sentences;
  }
  const double times = double(best.accumulation) / usual.accumulation;
  sentences.push_back(sentence(best, "the fastest, with a global batch " + three_digits(times) + " times as large"));
  std::vector<TunePoint> same_batch;
  std::copy_if(points.begin(), points.end(), std::back_inserter(same_batch),
               [&](const TunePoint& point) { return point.accumulation == usual.accumulation; });
  if (!same_batch.empty()) sentences.push_back(sentence(fastest(same_batch), "the fastest with the same batch"));
  return sentences;
}

nlohmann::json tune_json(std::span<const TunePoint> points, const TunePoint& usual) {
  nlohmann::json rows = nlohmann::json::array();
  for (const TunePoint& point : points) rows.push_back(point_json(point));
  return {{"points", std::move(rows)},
          {"fastest", points.empty() ? nlohmann::json() : point_json(fastest(points))},
          {"usual", point_json(usual)},
          {"advice", tune_advice(points, usual)}};
}

}  // namespace rondo::report
