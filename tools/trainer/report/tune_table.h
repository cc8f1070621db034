// What a sweep over bucket sizes and accumulation found, as a table.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace rondo::report {

struct TunePoint {
  double bucket_bytes = 0;
  int accumulation = 1;
  double images_per_second = 0;
  double exposed_share = 0;  // of a step, 0 to 1
};

/// A row a bucket size, a column an accumulation: images/s and, in brackets, the exposed communication in percent; the
/// fastest marked '*', what was not measured '-'.  Below: the fastest beside `usual`, which need not be a point.
std::string tune_table(std::span<const TunePoint> points, const TunePoint& usual);

/// What to set, as flags: the fastest of all, and the fastest with as many backwards as usual, where that is another
/// (the global batch then stays as it is).  `usual` is one of the points.
std::vector<std::string> tune_advice(std::span<const TunePoint> points, const TunePoint& usual);

/// The same, for programs: {"points": [...], "fastest": {...}, "usual": {...}, "advice": [...]}.
nlohmann::json tune_json(std::span<const TunePoint> points, const TunePoint& usual);

}  // namespace rondo::report
