// How gradients are laid out in buckets.
#include "buckets.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "types.h"

namespace rondo::data_parallel {
namespace {

constexpr std::size_t alignment_bytes = 64;

std::size_t aligned(std::size_t bytes) { return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes; }

/// bucket_cap_mb in bytes.
std::size_t cap_bytes(const Options& options) {
  const double bytes = options.bucket_cap_mb * 1024 * 1024;
  const auto largest = static_cast<double>(std::numeric_limits<std::int64_t>::max());
  return bytes < largest ? static_cast<std::size_t>(bytes) : std::numeric_limits<std::size_t>::max();
}

struct Open {
  std::vector<std::size_t> parameters;
  std::size_t bytes = 0;
  std::size_t limit_bytes = 0;
};

/// Which gradients share a bucket, in the order in which buckets close.
std::vector<std::vector<std::size_t>> split(std::span<const Parameter> parameters, std::span<const std::size_t> order,
                                            const Options& options) {
  struct Closed {
    std::size_t position;  // in `order`, of the bucket's last gradient
    std::vector<std::size_t> parameters;
  };
  std::map<ncclDataType_t, Open> open;
  std::map<ncclDataType_t, std::size_t> last;
  std::vector<Closed> closed;
  for (std::size_t position = 0; position < order.size(); ++position) {
    const std::size_t index = order[position];
    const Parameter& parameter = parameters[index];
    const auto [found, first] = open.try_emplace(parameter.type);
    Open& bucket = found->second;
    if (first) bucket.limit_bytes = options.first_bucket_bytes;
    bucket.parameters.push_back(index);
    bucket.bytes += aligned(bytes_of(parameter));
    last[parameter.type] = position;
    if (bucket.bytes >= bucket.limit_bytes) {
      closed.push_back({position, std::move(bucket.parameters)});
      bucket = {{}, 0, cap_bytes(options)};
    }
  }
  for (auto& [type, bucket] : open) {
    if (!bucket.parameters.empty()) closed.push_back({last[type], std::move(bucket.parameters)});
  }
  std::sort(closed.begin(), closed.end(), [](const Closed& a, const Closed& b) { return a.position < b.position; });
  std::vector<std::vector<std::size_t>> result;
  for (Closed& bucket : closed) result.push_back(std::move(bucket.parameters));
  return result;
}

}  // namespace

BucketPlan plan_buckets(std::span<const Parameter> parameters, std::span<const std::size_t> order,
                        const Options& options) {
  BucketPlan plan;
  plan.places.resize(parameters.size());
  const auto groups = split(parameters, order, options);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    Bucket bucket;
    bucket.type = parameters[groups[i].front()].type;
    bucket.offset_bytes = plan.bytes;
    bucket.parameters = groups[i];
    for (const std::size_t index : bucket.parameters) {
      plan.places[index] = {i, plan.bytes, bytes_of(parameters[index])};
      plan.bytes += aligned(plan.places[index].bytes);
    }
    const std::size_t element_bytes = type_bytes(bucket.type);
    if (i + 1 == groups.size()) {
      plan.flags_offset_bytes = plan.bytes;
      plan.bytes += aligned(2 * parameters.size() * element_bytes);
    }
    bucket.elements = (plan.bytes - bucket.offset_bytes) / element_bytes;
    plan.buckets.push_back(std::move(bucket));
  }
  return plan;
}

}  // namespace rondo::data_parallel
