// Which set of images a command line names, and how its images are augmented by custom.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/trainer/data/augmentation.h"
#include "tools/trainer/data/dataset.h"

namespace rondo::data {

struct Source {
  std::string kind;  // one of kinds()
  std::string path;  // file or folder; empty: where Debian's package has it (Fashion-MNIST), or none is needed
  Split split = Split::training;
  /// For `synthetic` only.
  std::size_t synthetic_size = 1'281'167;
  int synthetic_classes = 1000;
  int image = 224;  // height and width
  std::uint64_t seed = 0;
};

/// "fashion-mnist", "cifar10", "folder", "packed", "synthetic": what --data may be.
std::vector<std::string> kinds();

/// Throws DataError if it can't be opened, or is of no known kind.
std::unique_ptr<Dataset> open_dataset(const Source& source);

/// The custom for a set whose images have `shape` (0 x 0: they differ), for results of image x image pixels.  Training:
/// small images (below 64 pixels) padded by an eighth, cropped and mirrored; others random_resized and mirrored.
/// Test: small ones whole; others centre, the shorter side 8 / 7 of the crop.  Synthetic data: as it is.
Augmentation usual_augmentation(const Dataset& dataset, Split split, int image);

}  // namespace rondo::data
