// Fashion-MNIST (and MNIST, whose files look alike): four gzip files of the IDX format in one folder.  Debian's package
// `dataset-fashion-mnist` holds 60,000 training and 10,000 test images of 28 x 28 grey pixels in 10 classes.
#pragma once

#include <memory>
#include <string>

#include "tools/trainer/data/dataset.h"

namespace rondo::data {

/// Where Debian's package has it.
inline constexpr const char* fashion_mnist_folder = "/usr/share/datasets/fashion-mnist";

/// Reads {train,t10k}-images-idx3-ubyte[.gz] and -labels-idx1-ubyte[.gz] of `folder` whole.
std::unique_ptr<ResidentDataset> open_fashion_mnist(const std::string& folder, Split split);

}  // namespace rondo::data
