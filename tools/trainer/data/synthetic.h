// Images made from a seed: nothing is read, and any size is free.  Each class has a coarse pattern, and each image is
// its class's pattern with as much noise: a model learns them, so that losses mean something.
#pragma once

#include <memory>

#include "tools/trainer/data/dataset.h"

namespace rondo::data {

struct Synthetic {
  std::size_t size = 1'281'167;  // as many as ImageNet has to train with
  Shape shape{224, 224, 3};
  int classes = 1000;
  std::uint64_t seed = 0;
  /// Training and test images share their classes' patterns, and no image.
  Split split = Split::training;
};

std::unique_ptr<Dataset> make_synthetic(const Synthetic& synthetic);

}  // namespace rondo::data
