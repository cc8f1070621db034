// From an image of any size to one of the size that the model wants: a box of the source, resampled bilinearly, perhaps
// mirrored.  Where the source is larger than the target, each target pixel averages what it covers (a triangle as wide
// as two target pixels).  Integer arithmetic: the same bits everywhere.  Random choices depend on (seed, epoch, index).
#pragma once

#include <cstdint>
#include <vector>

#include "tools/trainer/data/dataset.h"
#include "tools/trainer/data/random.h"

namespace rondo::data {

enum class Layout { nhwc, nchw };

enum class Crop {
  whole,           // the whole image, whatever its aspect
  centre,          // the shorter side resized to `short_side`, of that the middle (evaluation on ImageNet)
  padded,          // the whole image with `padding` black pixels around it, of that a random part (small images)
  random_resized,  // a random box, resized (training on ImageNet)
};

struct Augmentation {
  int height = 224;  // of the result
  int width = 224;
  Crop crop = Crop::whole;
  bool flip = false;     // mirror every second image (a coin)
  int padding = 4;       // for `padded`, in pixels of the result
  int short_side = 256;  // for `centre`; at least height and width
  // For `random_resized`: the box's share of the image's area (uniform), and its aspect (its logarithm uniform, between
  // 1 / aspect_max and aspect_max).  After ten boxes that don't fit, the largest one in the middle.
  double area_min = 0.08;
  double area_max = 1.0;
  double aspect_max = 4.0 / 3;
};

/// A part of an image, in pixels.
struct Box {
  double top = 0;
  double left = 0;
  double height = 0;
  double width = 0;
};

/// `box` of `image` resampled to target.height x target.width, as rows of HWC.  One thread uses one Resampler, which
/// keeps its tables' memory.
class Resampler {
 public:
  void resample(const Image& image, const Box& box, bool mirror, const Shape& target_shape, std::uint8_t* target);

 private:
  struct Taps {               // of one target row or column
    int first = 0;            // source pixel
    int count = 0;            // of source pixels
    std::size_t weights = 0;  // where its weights begin
  };
  struct Table {
    std::vector<Taps> taps;
    std::vector<std::int32_t> weights;  // their sum for one target is 1 << 14
  };
  static void fill(Table& table, int source_size, double start, double length, int target_size);
  void horizontal(const Image& image, int row_first, int row_count, bool mirror, const Shape& target_shape);

  Table rows_;
  Table columns_;
  std::vector<std::uint8_t> narrowed_;  // the rows of the box at the target's width
  std::vector<std::int32_t> sums_;      // of one target row
};

/// One thread's way from an index to the pixels of a batch.
class Transform {
 public:
  Transform(const Augmentation& augmentation, Layout layout, std::uint64_t seed)
      : augmentation_(augmentation), layout_(layout), seed_(seed) {}

  /// Reads image `index`, and writes height * width * channels bytes to `target`.  Throws what the reader throws.
  void apply(Reader& reader, std::size_t index, std::uint64_t epoch, std::uint8_t* target);

 private:
  Box box_of(const Shape& full, Random& random) const;

  Augmentation augmentation_;
  Layout layout_;
  std::uint64_t seed_;
  Resampler resampler_;
  std::vector<std::uint8_t> resized_;
};

}  // namespace rondo::data
