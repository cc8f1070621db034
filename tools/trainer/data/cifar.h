// CIFAR-10 in its binary form: data_batch_1.bin to data_batch_5.bin (50,000 images to train with) and test_batch.bin
// (10,000), of 32 x 32 colour pixels in 10 classes.
#pragma once

#include <memory>
#include <string>

#include "tools/trainer/data/dataset.h"

namespace rondo::data {

/// The files lie in `folder`, or in its cifar-10-batches-bin as the archive unpacks.  Files may hold fewer images.
std::unique_ptr<ResidentDataset> open_cifar10(const std::string& folder, Split split);

}  // namespace rondo::data
