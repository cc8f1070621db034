// Buckets against backward: as text, as SVG, and, step by step, as a Chrome trace.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "tools/trainer/report/measures.h"

namespace rondo::report {

/// A line a bucket: size, ready, start, end in ms since backward began, and a bar: '.' while it waits for its turn, '='
/// while it is reduced; '|' is where backward ends.  No buckets: an empty string.
std::string timeline_text(std::span<const BucketMeans> buckets, double backward);

/// The same drawn, one row a bucket, backward above them.
std::string timeline_svg(std::span<const BucketMeans> buckets, double backward, const std::string& title);

/// Steps of all ranks (steps[rank]) for chrome://tracing or Perfetto: a process a rank; its phases in one track, its
/// all-reduces in another, with bytes, and the time between ready and start.  The earliest time becomes 0.
nlohmann::json chrome_trace(std::span<const std::vector<Step>> steps);

}  // namespace rondo::report
