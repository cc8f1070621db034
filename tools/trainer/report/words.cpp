// Figures as text by snprintf, and sums over ranks; see words.h.
#include "tools/trainer/report/words.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace rondo::report {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return (values[values.size() / 2] + values[(values.size() - 1) / 2]) / 2;
}

std::vector<BucketMeans> mean_buckets(const Run& run) {
  std::vector<BucketMeans> sums;
  double ranks = 0;
  for (const Figures& figures : run.ranks) {
    if (sums.empty()) sums.resize(figures.buckets.size());
    if (figures.buckets.size() != sums.size()) continue;
    ++ranks;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i].bytes += figures.buckets[i].bytes;
      sums[i].ready += figures.buckets[i].ready;
      sums[i].start += figures.buckets[i].start;
      sums[i].end += figures.buckets[i].end;
    }
  }
  for (BucketMeans& bucket : sums) {
    for (double* const field : {&bucket.bytes, &bucket.ready, &bucket.start, &bucket.end}) *field /= ranks;
  }
  return sums;
}

std::string three_digits(double value) {
  const double size = std::abs(value);
  const int decimals = size < 0.9995 ? 3 : size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string percent(double share) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f", 100 * share);
  return text;
}

std::string size_text(double bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < units.size(); ++unit) bytes /= 1024;
  return (unit == 0 ? std::to_string(std::lround(bytes)) : three_digits(bytes)) + " " + units[unit];
}

std::string left_of(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string right_of(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

}  // namespace rondo::report
