// Means over ranks, and figures as text: what the parts of the report share.
#pragma once

#include <string>
#include <vector>

#include "tools/trainer/report/final_report.h"

namespace rondo::report {

/// The mean of `value(figures)` over the ranks.
template <typename Value>
double mean(const Run& run, Value&& value) {
  double sum = 0;
  for (const Figures& figures : run.ranks) sum += value(figures);
  return run.ranks.empty() ? 0 : sum / static_cast<double>(run.ranks.size());
}

/// 0 of none.
double median(std::vector<double> values);

/// Each bucket's mean over those ranks that have as many buckets as the first rank.
std::vector<BucketMeans> mean_buckets(const Run& run);

/// Three digits at least: "0.123", "1.23", "12.3", "123", "1230".
std::string three_digits(double value);

/// Of a share (0.123), "12.3".
std::string percent(double share);

/// "12.3 MiB".
std::string size_text(double bytes);

/// `text` filled up with blanks to `width` columns, on its left or right.
std::string left_of(std::string text, std::size_t width);
std::string right_of(const std::string& text, std::size_t width);

}  // namespace rondo::report
