// A set that was read whole: pixels and labels in vectors, one shape.  How most small sets end up.
#pragma once

#include <utility>

#include "tools/trainer/data/dataset.h"

namespace rondo::data {

struct Contents {
  std::string name;
  Shape shape;
  int classes = 0;
  Normalisation normalisation;
  std::vector<std::uint8_t> storage;
  std::size_t first = 0;   // where in `storage` the first image begins
  std::size_t stride = 0;  // from one image to the next
  std::vector<std::uint8_t> labels;
};

class MemoryDataset final : public ResidentDataset {
 public:
  explicit MemoryDataset(Contents contents) : contents_(std::move(contents)) {}
  std::size_t size() const override { return contents_.labels.size(); }
  int classes() const override { return contents_.classes; }
  Shape shape() const override { return contents_.shape; }
  std::int64_t label(std::size_t index) const override { return contents_.labels[index]; }
  Normalisation normalisation() const override { return contents_.normalisation; }
  std::string name() const override { return contents_.name; }
  std::span<const std::uint8_t> pixels(std::size_t index) const override {
    return {contents_.storage.data() + contents_.first + index * contents_.stride, contents_.shape.bytes()};
  }

 private:
  Contents contents_;
};

}  // namespace rondo::data
