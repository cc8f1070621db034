// IDX: a big-endian word 0x0000TTDD (type 08: bytes; number of dimensions), one word a dimension, then the data.
#include "tools/trainer/data/fashion_mnist.h"

#include <algorithm>
#include <filesystem>

#include "tools/trainer/data/files.h"
#include "tools/trainer/data/memory_dataset.h"

namespace rondo::data {
namespace {

constexpr std::size_t file_bytes_max = std::size_t(1) << 30;
constexpr int classes = 10;

std::uint32_t word(const std::vector<std::uint8_t>& bytes, std::size_t at) {
  return std::uint32_t(bytes[at]) << 24 | std::uint32_t(bytes[at + 1]) << 16 | std::uint32_t(bytes[at + 2]) << 8 |
         bytes[at + 3];
}

struct Idx {
  std::string path;
  std::vector<std::size_t> sizes;
  std::size_t header = 0;
  std::vector<std::uint8_t> bytes;
};

/// A file of `dimensions` dimensions, as it is or with .gz behind its name.
Idx read_idx(const std::filesystem::path& plain, int dimensions) {
  Idx idx;
  idx.path = plain.string() + ".gz";
  if (!std::filesystem::exists(idx.path) && std::filesystem::exists(plain)) idx.path = plain.string();
  if (!std::filesystem::exists(idx.path)) {
    throw DataError("there is no " + idx.path +
                    ": install Debian's package dataset-fashion-mnist, or name the folder " +
                    "that holds the four IDX files");
  }
  idx.bytes = read_gzip(idx.path, file_bytes_max);
  idx.header = 4 + 4 * static_cast<std::size_t>(dimensions);
  const std::uint32_t magic = 0x0800 + static_cast<std::uint32_t>(dimensions);
  if (idx.bytes.size() < 4 || word(idx.bytes, 0) != magic) {
    throw DataError(idx.path + " is not an IDX file of bytes with " + std::to_string(dimensions) +
                    " dimensions: its first word is wrong");
  }
  if (idx.bytes.size() < idx.header) throw DataError(idx.path + " ends inside its header");
  std::size_t expected = 1;
  for (int i = 0; i < dimensions; ++i) {
    idx.sizes.push_back(word(idx.bytes, 4 + 4 * static_cast<std::size_t>(i)));
    if (idx.sizes.back() > file_bytes_max / expected) throw DataError(idx.path + " claims an absurd size");
    expected = std::max<std::size_t>(expected * idx.sizes.back(), 1);
  }
  if (idx.sizes[0] == 0) throw DataError(idx.path + " holds nothing");
  if (idx.bytes.size() != idx.header + expected) {
    throw DataError(idx.path + " has " + std::to_string(idx.bytes.size()) + " bytes where its header says " +
                    std::to_string(idx.header + expected) + ": it is truncated or damaged");
  }
  return idx;
}

}  // namespace

std::unique_ptr<ResidentDataset> open_fashion_mnist(const std::string& folder, Split split) {
  const std::filesystem::path stem = std::filesystem::path(folder) / (split == Split::training ? "train" : "t10k");
  Idx images = read_idx(stem.string() + "-images-idx3-ubyte", 3);
  const Idx labels = read_idx(stem.string() + "-labels-idx1-ubyte", 1);
  if (images.sizes[0] != labels.sizes[0]) {
    throw DataError(images.path + " has " + std::to_string(images.sizes[0]) + " images, but " + labels.path + " has " +
                    std::to_string(labels.sizes[0]) + " labels");
  }
  Contents contents;
  contents.name = split == Split::training ? "Fashion-MNIST, training" : "Fashion-MNIST, test";
  contents.shape = {static_cast<int>(images.sizes[1]), static_cast<int>(images.sizes[2]), 1};
  if (contents.shape.bytes() == 0) throw DataError(images.path + " holds images without pixels");
  contents.classes = classes;
  contents.normalisation = {{0.2860F}, {0.3530F}};  // of the training images; a test compares
  contents.stride = contents.shape.bytes();
  contents.first = images.header;
  contents.storage = std::move(images.bytes);
  contents.labels.assign(labels.bytes.begin() + static_cast<std::ptrdiff_t>(labels.header), labels.bytes.end());
  if (const auto bad = std::max_element(contents.labels.begin(), contents.labels.end()); *bad >= classes) {
    throw DataError(labels.path + " has the label " + std::to_string(*bad) + " where there are " +
                    std::to_string(classes) + " classes");
  }
  return std::make_unique<MemoryDataset>(std::move(contents));
}

}  // namespace rondo::data
