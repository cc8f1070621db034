// Sets of labelled images, as the trainer sees them: how many, of which shape and classes, and how a thread reads one.
// A Dataset is immutable once opened and shared by threads; each thread reads through a Reader of its own.  Whatever is
// missing, truncated or of the wrong kind throws DataError, whose text names the file and says what to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace rondo::data {

/// Data that can't be used; `what()` is a sentence for the user.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Shape {
  int height = 0;
  int width = 0;
  int channels = 0;
  std::size_t bytes() const { return std::size_t(height) * std::size_t(width) * std::size_t(channels); }
  bool operator==(const Shape&) const = default;
};

/// Rows from the top, pixels from the left, channels beside each other (HWC), without gaps.
struct Image {
  Shape shape;
  std::span<const std::uint8_t> pixels;
};

/// What the device subtracts and divides by, one value a channel, in units of 1 (not 255): (pixel / 255 - mean) /
/// deviation.
struct Normalisation {
  std::vector<float> mean;
  std::vector<float> deviation;
};

/// One thread's way to read a set.  What it returns stays valid until its next call, and as long as the set lives.
class Reader {
 public:
  virtual ~Reader() = default;
  /// Chooses an image (index < size) and tells its full shape.
  virtual Shape open(std::size_t index) = 0;
  /// The pixels of the chosen image, at its full shape or at a smaller one whose height and width are at least those
  /// of `least` (and of the same aspect up to rounding): decoders may leave out what nobody will see.
  virtual Image pixels(const Shape& least) = 0;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::size_t size() const = 0;
  virtual int classes() const = 0;
  /// Of every image; height and width are 0 where images differ.
  virtual Shape shape() const = 0;
  virtual std::int64_t label(std::size_t index) const = 0;  // 0 <= label < classes()
  virtual Normalisation normalisation() const = 0;
  /// For sentences and reports: "Fashion-MNIST, training".
  virtual std::string name() const = 0;
  virtual std::unique_ptr<Reader> reader() const = 0;
};

/// Sets whose images have one shape and lie in memory.
class ResidentDataset : public Dataset {
 public:
  virtual std::span<const std::uint8_t> pixels(std::size_t index) const = 0;
  std::unique_ptr<Reader> reader() const final;
};

enum class Split { training, test };

}  // namespace rondo::data
