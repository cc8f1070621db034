// JPEG files to RGB pixels, by TurboJPEG.  One thread uses one decoder, which keeps its memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/trainer/data/dataset.h"

namespace rondo::data {

class JpegDecoder {
 public:
  JpegDecoder();

  /// Reads a file and its header; throws DataError that names the file, if it can't be read or isn't a JPEG.
  Shape open(const std::string& path);
  /// Decodes what was opened at 1, 1/2, 1/4 or 1/8 of its size, the least of these that is at least `least`.
  /// Throws DataError for a damaged or truncated file; what decoders only warn of (odd markers) passes.
  Image pixels(const Shape& least);

 private:
  [[noreturn]] void fail() const;

  std::unique_ptr<void, int (*)(void*)> handle_;
  std::string path_;
  std::vector<std::uint8_t> file_;
  std::vector<std::uint8_t> pixels_;
  std::vector<std::uint8_t> four_colours_;
  Shape full_;
  bool cmyk_ = false;
};

}  // namespace rondo::data
