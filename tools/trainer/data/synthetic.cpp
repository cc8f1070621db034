// An image is (pattern + noise) / 2, byte by byte; its pattern is a grid of 4 x 4 cells.
#include "tools/trainer/data/synthetic.h"

#include <algorithm>
#include <cstring>

#include "tools/trainer/data/random.h"

namespace rondo::data {
namespace {

constexpr int cells = 4;

class SyntheticDataset final : public Dataset {
 public:
  explicit SyntheticDataset(const Synthetic& synthetic) : made_(synthetic) {
    const std::size_t bytes = Shape{cells, cells, made_.shape.channels}.bytes();
    patterns_.resize(bytes * static_cast<std::size_t>(made_.classes));
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      patterns_[i] = static_cast<std::uint8_t>(random_for(Use::synthetic_class, made_.seed, i).below(128));
    }
  }
  std::size_t size() const override { return made_.size; }
  int classes() const override { return made_.classes; }
  Shape shape() const override { return made_.shape; }
  std::int64_t label(std::size_t index) const override {
    Random random = random_for(Use::synthetic_label, made_.seed, split(), index);
    return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(made_.classes)));
  }
  Normalisation normalisation() const override {
    const auto channels = static_cast<std::size_t>(made_.shape.channels);
    return {std::vector<float>(channels, 0.5F), std::vector<float>(channels, 0.204F)};  // of two uniform halves
  }
  std::string name() const override { return "synthetic"; }
  std::unique_ptr<Reader> reader() const override;

  std::uint64_t split() const { return made_.split == Split::training ? 0 : 1; }
  std::uint64_t seed() const { return made_.seed; }
  const std::uint8_t* pattern(std::int64_t label) const {
    return patterns_.data() + static_cast<std::size_t>(label) * Shape{cells, cells, made_.shape.channels}.bytes();
  }

 private:
  Synthetic made_;
  std::vector<std::uint8_t> patterns_;
};

class SyntheticReader final : public Reader {
 public:
  explicit SyntheticReader(const SyntheticDataset& dataset) : dataset_(dataset) {}
  Shape open(std::size_t index) override {
    index_ = index;
    return dataset_.shape();
  }
  Image pixels(const Shape&) override {
    const Shape shape = dataset_.shape();
    pixels_.resize(shape.bytes());
    Random random = random_for(Use::noise, dataset_.seed(), dataset_.split(), index_);
    for (std::size_t i = 0; i < pixels_.size(); i += 8) {
      const std::uint64_t noise = random.next() & 0x7f7f7f7f7f7f7f7f;
      std::memcpy(pixels_.data() + i, &noise, std::min<std::size_t>(8, pixels_.size() - i));
    }
    const std::uint8_t* const pattern = dataset_.pattern(dataset_.label(index_));
    std::uint8_t* pixel = pixels_.data();
    for (int y = 0; y < shape.height; ++y) {
      for (int x = 0; x < shape.width; ++x) {
        const int cell = y * cells / shape.height * cells + x * cells / shape.width;
        for (int c = 0; c < shape.channels; ++c, ++pixel) {
          *pixel = static_cast<std::uint8_t>(*pixel + pattern[cell * shape.channels + c]);
        }
      }
    }
    return {shape, pixels_};
  }

 private:
  const SyntheticDataset& dataset_;
  std::size_t index_ = 0;
  std::vector<std::uint8_t> pixels_;
};

std::unique_ptr<Reader> SyntheticDataset::reader() const { return std::make_unique<SyntheticReader>(*this); }

}  // namespace

std::unique_ptr<Dataset> make_synthetic(const Synthetic& synthetic) {
  if (synthetic.size == 0 || synthetic.shape.bytes() == 0 || synthetic.classes < 1) {
    throw DataError("synthetic data must have at least one image, one pixel and one class");
  }
  return std::make_unique<SyntheticDataset>(synthetic);
}

}  // namespace rondo::data
