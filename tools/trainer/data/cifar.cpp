// An image is a byte for its class and three planes of 1024 bytes (red, green, blue); see cifar.h.
#include "tools/trainer/data/cifar.h"

#include <filesystem>

#include "tools/trainer/data/files.h"
#include "tools/trainer/data/memory_dataset.h"

namespace rondo::data {
namespace {

constexpr Shape shape{32, 32, 3};
constexpr std::size_t plane = 32 * 32;
constexpr std::size_t stored_bytes = 1 + 3 * plane;
constexpr int classes = 10;

/// Appends the images of one file, their channels beside each other.
void append(const std::string& path, std::vector<std::uint8_t>& file, Contents& contents) {
  read_file(path, file);
  if (file.empty() || file.size() % stored_bytes != 0) {
    throw DataError(path + " has " + std::to_string(file.size()) + " bytes, which isn't a multiple of " +
                    std::to_string(stored_bytes) + ": it is truncated, or not of CIFAR-10's binary form");
  }
  for (std::size_t at = 0; at < file.size(); at += stored_bytes) {
    if (file[at] >= classes) {
      throw DataError(path + " has the label " + std::to_string(file[at]) + " where there are " +
                      std::to_string(classes) + " classes");
    }
    contents.labels.push_back(file[at]);
    const std::size_t first = contents.storage.size();
    contents.storage.resize(first + shape.bytes());
    for (std::size_t i = 0; i < plane; ++i) {
      for (std::size_t c = 0; c < 3; ++c) contents.storage[first + 3 * i + c] = file[at + 1 + c * plane + i];
    }
  }
}

}  // namespace

std::unique_ptr<ResidentDataset> open_cifar10(const std::string& folder, Split split) {
  std::filesystem::path where = folder;
  if (std::filesystem::exists(where / "cifar-10-batches-bin")) where /= "cifar-10-batches-bin";
  Contents contents;
  contents.name = split == Split::training ? "CIFAR-10, training" : "CIFAR-10, test";
  contents.shape = shape;
  contents.classes = classes;
  contents.normalisation = {{0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}};  // of the training images
  contents.stride = shape.bytes();
  std::vector<std::uint8_t> file;
  if (split == Split::test) {
    append((where / "test_batch.bin").string(), file, contents);
  } else {
    for (int i = 1; i <= 5; ++i)
      append((where / ("data_batch_" + std::to_string(i) + ".bin")).string(), file, contents);
  }
  return std::make_unique<MemoryDataset>(std::move(contents));
}

}  // namespace rondo::data
