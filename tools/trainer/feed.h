// Where a rank's batches come from: a loader of its own, or rank 0, which loads for all (--parallel dp).
#pragma once

#include <memory>

#include "tools/trainer/data/loader.h"
#include "tools/trainer/team.h"

namespace rondo::trainer {

class Feed {
 public:
  virtual ~Feed() = default;
  /// As data::Loader::next().
  virtual const data::Batch* next() = 0;
};

std::unique_ptr<Feed> own_feed(std::unique_ptr<data::Loader> loader);

/// Each rank gets its part of rank 0's batches, `batch` images of `shape`; `whole` is rank 0's loader, of as many times
/// `batch` images as there are ranks, and has no end.
std::unique_ptr<Feed> scattered_feed(std::unique_ptr<data::Loader> whole, Team& team, std::size_t batch,
                                     const data::Shape& shape);

}  // namespace rondo::trainer
