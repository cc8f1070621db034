// Which images a rank sees, in which order.  Every rank computes the same order of the whole set from (seed, epoch):
// Fisher and Yates's shuffle with random.h's generator.  Of it, rank r of n takes places r, r + n, r + 2n, ...: so the
// images of a step over all ranks are the same however many ranks share that global batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rondo::data {

/// What to do where the ranks can't all have equally many.
enum class Uneven {
  pad,    // begin the order again, so that all have as many as the largest share (some images twice)
  drop,   // leave the last ones of the order out (others in each epoch)
  exact,  // every image once, and lower ranks one more: for evaluation
};

struct Sampling {
  std::size_t size = 0;  // of the set
  int rank = 0;
  int ranks = 1;
  bool shuffle = true;
  Uneven uneven = Uneven::pad;
  std::uint64_t seed = 0;
};

class Sampler {
 public:
  /// Throws DataError if the set is empty, or smaller than the number of ranks (but for `exact`, where a rank may have
  /// nothing).
  explicit Sampler(const Sampling& sampling);
  /// How many images this rank sees in an epoch.
  std::size_t count() const { return count_; }
  /// The indices this rank sees in `epoch`, in order: count() many.  To go on at (epoch, position), skip `position`.
  std::vector<std::uint32_t> indices(std::uint64_t epoch) const;
  const Sampling& sampling() const { return sampling_; }

 private:
  Sampling sampling_;
  std::size_t count_ = 0;
};

}  // namespace rondo::data
