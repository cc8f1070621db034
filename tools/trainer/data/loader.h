// Batches made in the background: threads read, augment and lay out images ahead of the one that trains.  What comes is
// the same, bit for bit, for any number of threads; only `batches_ahead` batches are ever in memory.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>

#include "tools/trainer/data/augmentation.h"
#include "tools/trainer/data/dataset.h"
#include "tools/trainer/data/sampler.h"

namespace rondo::data {

/// A place in a rank's sequence of images: what a checkpoint keeps, and where a loader begins.
struct Place {
  std::uint64_t epoch = 0;
  std::size_t position = 0;  // among the rank's images of the epoch
  bool operator==(const Place&) const = default;
};

struct Batch {
  const std::uint8_t* pixels = nullptr;    // count images in `shape`, contiguous, in the layout asked for
  const std::int64_t* labels = nullptr;    // count
  const std::uint32_t* indices = nullptr;  // count; which images of the set
  std::size_t count = 0;
  Shape shape;        // of one image
  Place place;        // of its first image
  bool last = false;  // of its epoch
};

/// Memory for pixels, with the function that gives it back: pinned memory, where a device reads it.
using Memory = std::unique_ptr<std::uint8_t[], std::function<void(std::uint8_t*)>>;

struct Loading {
  std::size_t batch = 32;      // images
  int workers = 1;             // threads; 0: the one that calls next()
  int batches_ahead = 3;       // in memory at once, the one in the caller's hands included: at least 2
  bool whole_batches = false;  // leave out the images at an epoch's end that don't fill a batch
  Augmentation augmentation;
  Layout layout = Layout::nhwc;
  std::uint64_t seed = 0;
  std::uint64_t epochs_end = std::numeric_limits<std::uint64_t>::max();  // the first epoch that isn't wanted
  std::function<Memory(std::size_t bytes)> allocate;                     // default: plain memory
};

class Loader {
 public:
  /// `dataset` must outlive the loader.  Allocates all batches and starts the threads, which block all signals.
  Loader(const Dataset& dataset, const Sampler& sampler, const Loading& loading, Place start = {});
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next batch, which is the caller's until the next call; nullptr behind the last epoch (and at once if an epoch
  /// has no batch).  Epochs follow one another without a pause.  Throws what went wrong in making this batch.  One
  /// thread at a time.
  const Batch* next();

  /// Behind the last batch that next() returned: a loader that starts here goes on as this one does.
  Place place() const;

  /// How many batches an epoch has, begun at its start.
  std::size_t batches() const;

  /// How long all calls of next() took until now: the time that computation waited for data.
  double waited_seconds() const;

 private:
  class Pipeline;
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace rondo::data
