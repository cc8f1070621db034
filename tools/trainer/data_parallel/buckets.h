// How gradients are laid out in buckets: pure arithmetic, the same on every rank.
//
// Gradients go into buckets in the given order, each type into its own, up to a size; a bucket is reduced when its last
// gradient is ready, so buckets stand in the order in which they close.  The last one ends with two flags for each
// parameter (see State in state.h), which travel with the gradients.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "layer.h"

namespace rondo::data_parallel {

struct Bucket {
  ncclDataType_t type = ncclFloat32;
  std::size_t offset_bytes = 0;  // in the memory of all buckets
  std::size_t elements = 0;      // with the padding between gradients, and the flags
  std::vector<std::size_t> parameters;
};

struct BucketPlan {
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  struct Place {
    std::size_t bucket = none;  // none: not trainable
    std::size_t offset_bytes = 0;
    std::size_t bytes = 0;
  };
  std::vector<Bucket> buckets;  // in the order of launch
  std::vector<Place> places;    // of each parameter
  std::size_t bytes = 0;
  std::size_t flags_offset_bytes = 0;
};

/// `order`: every trainable parameter once, in the order in which gradients are expected.
BucketPlan plan_buckets(std::span<const Parameter> parameters, std::span<const std::size_t> order,
                        const Options& options);

}  // namespace rondo::data_parallel
