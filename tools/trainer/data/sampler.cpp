// The order of an epoch is made whole (4 bytes an image) and thinned out; see sampler.h.
#include "tools/trainer/data/sampler.h"

#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "tools/trainer/data/dataset.h"
#include "tools/trainer/data/random.h"

namespace rondo::data {

Sampler::Sampler(const Sampling& sampling) : sampling_(sampling) {
  const std::size_t size = sampling.size;
  const auto ranks = static_cast<std::size_t>(sampling.ranks);
  const auto rank = static_cast<std::size_t>(sampling.rank);
  if (size == 0) throw DataError("there are no images to train with");
  if (size > std::numeric_limits<std::uint32_t>::max()) throw DataError("there are more than 2^32 images");
  if (size < ranks && sampling.uneven != Uneven::exact) {
    throw DataError("there are " + std::to_string(size) + " images for " + std::to_string(ranks) +
                    " ranks: start fewer ranks, or take more data");
  }
  switch (sampling.uneven) {
    case Uneven::pad: count_ = (size + ranks - 1) / ranks; break;
    case Uneven::drop: count_ = size / ranks; break;
    case Uneven::exact: count_ = (size + ranks - 1 - rank) / ranks; break;
  }
}

std::vector<std::uint32_t> Sampler::indices(std::uint64_t epoch) const {
  std::vector<std::uint32_t> order(sampling_.size);
  std::iota(order.begin(), order.end(), 0U);
  if (sampling_.shuffle) {
    Random random = random_for(Use::order, sampling_.seed, epoch);
    for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  }
  std::vector<std::uint32_t> mine(count_);
  const auto rank = static_cast<std::size_t>(sampling_.rank);
  const auto ranks = static_cast<std::size_t>(sampling_.ranks);
  for (std::size_t i = 0; i < count_; ++i) mine[i] = order[(i * ranks + rank) % order.size()];
  return mine;
}

}  // namespace rondo::data
