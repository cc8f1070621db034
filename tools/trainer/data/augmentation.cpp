// Choosing boxes, padding and layout; the arithmetic on pixels is in resampler.cpp.
#include "tools/trainer/data/augmentation.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace rondo::data {
namespace {

constexpr int box_tries = 10;

/// The largest box in the middle whose aspect (width / height) lies within `aspect_min` and `aspect_max`.
Box middle(const Shape& full, double aspect_min, double aspect_max) {
  Box box{0, 0, double(full.height), double(full.width)};
  const double aspect = box.width / box.height;
  if (aspect < aspect_min) box.height = box.width / aspect_min;
  if (aspect > aspect_max) box.width = box.height * aspect_max;
  box.top = (full.height - box.height) / 2;
  box.left = (full.width - box.width) / 2;
  return box;
}

/// `source` moved down and right by `down` and `right` (or up and left), with black where nothing was.
void shift(const std::uint8_t* source, const Shape& shape, int down, int right, std::uint8_t* target) {
  const std::size_t pixel = static_cast<std::size_t>(shape.channels);
  const std::size_t row = pixel * static_cast<std::size_t>(shape.width);
  std::memset(target, 0, shape.bytes());
  if (std::abs(right) >= shape.width) return;
  const std::size_t kept = pixel * static_cast<std::size_t>(shape.width - std::abs(right));
  for (int y = std::max(0, down); y < shape.height + std::min(0, down); ++y) {
    std::memcpy(
        target + static_cast<std::size_t>(y) * row + pixel * static_cast<std::size_t>(std::max(0, right)),
        source + static_cast<std::size_t>(y - down) * row + pixel * static_cast<std::size_t>(std::max(0, -right)),
        kept);
  }
}

void planes(const std::uint8_t* source, const Shape& shape, std::uint8_t* target) {
  const std::size_t plane = static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width);
  const auto channels = static_cast<std::size_t>(shape.channels);
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t i = 0; i < plane; ++i) target[c * plane + i] = source[i * channels + c];
  }
}

}  // namespace

Box Transform::box_of(const Shape& full, Random& random) const {
  const Augmentation& wanted = augmentation_;
  const Box whole{0, 0, double(full.height), double(full.width)};
  switch (wanted.crop) {
    case Crop::whole:
    case Crop::padded: return whole;
    case Crop::centre: {
      const double scale = std::min(whole.height, whole.width) / wanted.short_side;
      Box box{0, 0, wanted.height * scale, wanted.width * scale};
      box.top = (whole.height - box.height) / 2;
      box.left = (whole.width - box.width) / 2;
      return box;
    }
    case Crop::random_resized: break;
  }
  const double aspect_range = std::log(wanted.aspect_max);
  for (int i = 0; i < box_tries; ++i) {
    const double area = whole.height * whole.width * random.between(wanted.area_min, wanted.area_max);
    const double aspect = std::exp(random.between(-aspect_range, aspect_range));
    Box box{0, 0, std::round(std::sqrt(area / aspect)), std::round(std::sqrt(area * aspect))};
    if (box.height < 1 || box.width < 1 || box.height > whole.height || box.width > whole.width) continue;
    box.top = double(random.below(static_cast<std::uint64_t>(whole.height - box.height) + 1));
    box.left = double(random.below(static_cast<std::uint64_t>(whole.width - box.width) + 1));
    return box;
  }
  return middle(full, 1 / wanted.aspect_max, wanted.aspect_max);
}

void Transform::apply(Reader& reader, std::size_t index, std::uint64_t epoch, std::uint8_t* target) {
  const Augmentation& wanted = augmentation_;
  Random random = random_for(Use::augmentation, seed_, epoch, index);
  const Shape full = reader.open(index);
  const Box box = box_of(full, random);
  const bool mirror = wanted.flip && random.coin();
  const Shape shape{wanted.height, wanted.width, full.channels};
  const auto least = [](int size, int target_size, double box_size) {
    return std::min(size, static_cast<int>(std::ceil(size * std::min(1.0, target_size / box_size))));
  };
  const Image image = reader.pixels(
      {least(full.height, shape.height, box.height), least(full.width, shape.width, box.width), full.channels});
  const double rows = double(image.shape.height) / full.height;
  const double columns = double(image.shape.width) / full.width;
  const Box scaled{box.top * rows, box.left * columns, box.height * rows, box.width * columns};

  const bool padded = wanted.crop == Crop::padded && wanted.padding > 0;
  const bool direct = !padded && layout_ == Layout::nhwc;
  if (!direct) resized_.resize(shape.bytes() * 2);
  std::uint8_t* result = direct ? target : resized_.data();
  resampler_.resample(image, scaled, mirror, shape, result);
  if (padded) {
    const auto places = static_cast<std::uint64_t>(2 * wanted.padding + 1);
    const int down = static_cast<int>(random.below(places)) - wanted.padding;
    const int right = static_cast<int>(random.below(places)) - wanted.padding;
    std::uint8_t* const shifted = layout_ == Layout::nhwc ? target : resized_.data() + shape.bytes();
    shift(result, shape, down, right, shifted);
    result = shifted;
  }
  if (layout_ == Layout::nchw) planes(result, shape, target);
}

}  // namespace rondo::data
