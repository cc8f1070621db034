// Two passes, first along the rows, then along the columns, each with a table of weights (14-bit fractions); see
// augmentation.h.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tools/trainer/data/augmentation.h"

namespace rondo::data {
namespace {

constexpr int weight_bits = 14;
constexpr std::int32_t one = 1 << weight_bits;
constexpr std::int32_t half = one / 2;

std::uint8_t rounded(std::int32_t sum) { return static_cast<std::uint8_t>((sum + half) >> weight_bits); }

/// The weighted sum of `count` neighbouring pixels, each channel for itself.
template <int channels>
void blend(const std::uint8_t* source, const std::int32_t* weights, int count, std::uint8_t* target) {
  std::int32_t sums[channels] = {};
  for (int i = 0; i < count; ++i, source += channels) {
    for (int c = 0; c < channels; ++c) sums[c] += weights[i] * source[c];
  }
  for (int c = 0; c < channels; ++c) target[c] = rounded(sums[c]);
}

}  // namespace

/// Target pixel i covers the source from start + i * scale to start + (i + 1) * scale; a triangle around its middle,
/// one target pixel (but at least one source pixel) to each side, weighs the source's pixels.
void Resampler::fill(Table& table, int source_size, double start, double length, int target_size) {
  table.taps.clear();
  table.weights.clear();
  const double scale = length / target_size;
  const double reach = std::max(1.0, scale);
  std::vector<double> exact;
  for (int i = 0; i < target_size; ++i) {
    const double middle = start + (i + 0.5) * scale;
    const int first = std::clamp(static_cast<int>(std::floor(middle - reach + 0.5)), 0, source_size - 1);
    const int end = std::clamp(static_cast<int>(std::floor(middle + reach + 0.5)), first + 1, source_size);
    exact.clear();
    double sum = 0;
    for (int at = first; at < end; ++at) {
      exact.push_back(std::max(0.0, 1 - std::abs(at + 0.5 - middle) / reach));
      sum += exact.back();
    }
    if (sum <= 0) sum = exact[0] = 1;  // a box outside of the image sees its edge
    table.taps.push_back({first, end - first, table.weights.size()});
    std::int32_t left = one;
    std::size_t largest = table.weights.size();
    for (const double weight : exact) {
      table.weights.push_back(static_cast<std::int32_t>(std::lround(weight / sum * one)));
      left -= table.weights.back();
      if (table.weights.back() > table.weights[largest]) largest = table.weights.size() - 1;
    }
    table.weights[largest] += left;
  }
}

void Resampler::horizontal(const Image& image, int row_first, int row_count, bool mirror, const Shape& target_shape) {
  const int channels = image.shape.channels;
  const int width = target_shape.width;
  const std::size_t row_bytes = static_cast<std::size_t>(image.shape.width) * static_cast<std::size_t>(channels);
  narrowed_.resize(static_cast<std::size_t>(row_count) * static_cast<std::size_t>(width * channels));
  std::uint8_t* target = narrowed_.data();
  for (int y = row_first; y < row_first + row_count; ++y) {
    const std::uint8_t* const row = image.pixels.data() + static_cast<std::size_t>(y) * row_bytes;
    for (int x = 0; x < width; ++x, target += channels) {
      const Taps& taps = columns_.taps[static_cast<std::size_t>(mirror ? width - 1 - x : x)];
      const std::int32_t* const weights = columns_.weights.data() + taps.weights;
      const std::uint8_t* const source = row + static_cast<std::size_t>(taps.first * channels);
      if (channels == 3) {
        blend<3>(source, weights, taps.count, target);
      } else {
        for (int c = 0; c < channels; ++c) {
          std::int32_t sum = 0;
          for (int i = 0; i < taps.count; ++i) sum += weights[i] * source[i * channels + c];
          target[c] = rounded(sum);
        }
      }
    }
  }
}

void Resampler::resample(const Image& image, const Box& box, bool mirror, const Shape& target_shape,
                         std::uint8_t* target) {
  const Shape& shape = image.shape;
  if (!mirror && box.top == 0 && box.left == 0 && shape == target_shape && box.height == shape.height &&
      box.width == shape.width) {
    std::memcpy(target, image.pixels.data(), shape.bytes());
    return;
  }
  fill(rows_, shape.height, box.top, box.height, target_shape.height);
  fill(columns_, shape.width, box.left, box.width, target_shape.width);
  const int row_first = rows_.taps.front().first;
  const int row_end = rows_.taps.back().first + rows_.taps.back().count;
  horizontal(image, row_first, row_end - row_first, mirror, target_shape);

  const auto row_bytes = static_cast<std::size_t>(target_shape.width * shape.channels);
  sums_.resize(row_bytes);
  for (const Taps& taps : rows_.taps) {
    std::fill(sums_.begin(), sums_.end(), 0);
    for (int i = 0; i < taps.count; ++i) {
      const std::int32_t weight = rows_.weights[taps.weights + static_cast<std::size_t>(i)];
      const std::uint8_t* const row =
          narrowed_.data() + static_cast<std::size_t>(taps.first - row_first + i) * row_bytes;
      for (std::size_t x = 0; x < row_bytes; ++x) sums_[x] += weight * row[x];
    }
    for (std::size_t x = 0; x < row_bytes; ++x) target[x] = rounded(sums_[x]);
    target += row_bytes;
  }
}

}  // namespace rondo::data
