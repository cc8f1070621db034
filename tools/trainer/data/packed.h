// A set in one file that is mapped into memory: nothing is decoded or copied, and the ranks of a host share the pages.
//
// The format (numbers little-endian, "float" IEEE binary32):
//   offset  bytes  what
//        0      8  "RONDOPAK"
//        8      4  version: 1
//       12     16  height, width, channels (at most 4), classes
//       28      4  checksum of labels and image checksums, as they stand
//       32      8  number of images n
//       40      8  where the labels begin: n words of 4 bytes
//       48      8  where the images' checksums begin: n words of 4 bytes
//       56      8  bytes of the whole file
//       64     32  mean and deviation, four floats each (units of 1)
//       96    128  name, filled up with zeros
//      224      4  checksum of the 224 bytes before
//     4096         n images: rows of HWC bytes, without gaps
// Checksums are CRC-32 (zlib's).  Opening checks the file's length, its header and its labels; verify() checks pixels.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tools/trainer/data/dataset.h"

namespace rondo::data {

class PackedDataset : public ResidentDataset {
 public:
  /// Reads every pixel; throws DataError that names the first damaged image.
  virtual void verify() const = 0;
};

/// `path` is a file, or a folder with train.pack and test.pack.
std::unique_ptr<PackedDataset> open_packed(const std::string& path, Split split);

struct Packing {
  int image = 0;    // height and width to store; 0: as they are, if they have one shape
  int workers = 1;  // threads that decode
  /// Told how many images are done, now and then.
  std::function<void(std::size_t done)> progress;
};

/// Writes `dataset` to `path`, which appears whole or not at all.  With `image` given: each image's shorter side
/// resized to it, of that the middle.
void pack(const Dataset& dataset, const std::string& path, const Packing& packing);

}  // namespace rondo::data
