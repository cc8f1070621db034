// The Chrome trace of steps: complete events ("ph": "X") in microseconds, a process a rank; see timeline.h.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "tools/trainer/report/timeline.h"

namespace rondo::report {
namespace {

using nlohmann::json;

constexpr int phases_track = 1;
constexpr int buckets_track = 2;

json event(const std::string& name, std::size_t rank, int track, double begin, double end, json arguments) {
  return {{"name", name},
          {"ph", "X"},
          {"pid", rank},
          {"tid", track},
          {"ts", begin * 1e6},
          {"dur", (end - begin) * 1e6},
          {"args", std::move(arguments)}};
}

json label(const char* kind, std::size_t rank, int track, const std::string& name) {
  return {{"name", kind}, {"ph", "M"}, {"pid", rank}, {"tid", track}, {"args", {{"name", name}}}};
}

}  // namespace

json chrome_trace(std::span<const std::vector<Step>> steps) {
  double zero = std::numeric_limits<double>::infinity();
  for (const std::vector<Step>& of_rank : steps) {
    for (const Step& step : of_rank) zero = std::min(zero, step.spans.front().begin);
  }
  json events = json::array();
  for (std::size_t rank = 0; rank < steps.size(); ++rank) {
    events.push_back(label("process_name", rank, 0, "rank " + std::to_string(rank)));
    events.push_back(label("thread_name", rank, phases_track, "steps"));
    events.push_back(label("thread_name", rank, buckets_track, "all-reduces"));
    for (const Step& step : steps[rank]) {
      for (const Span& span : step.spans) {
        events.push_back(
            event(name(span.phase), rank, phases_track, span.begin - zero, span.end - zero, {{"step", step.number}}));
      }
      for (std::size_t i = 0; i < step.buckets.size(); ++i) {
        const BucketSpan& bucket = step.buckets[i];
        events.push_back(event("bucket " + std::to_string(i), rank, buckets_track, bucket.start - zero,
                               bucket.end - zero,
                               {{"step", step.number},
                                {"bytes", bucket.bytes},
                                {"ready_us", (bucket.ready - zero) * 1e6},
                                {"waited_us", (bucket.start - bucket.ready) * 1e6}}));
      }
    }
  }
  return {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
}

}  // namespace rondo::report
