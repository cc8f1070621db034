// See jpeg.h.  Of TurboJPEG's scales only the powers of two: those it does with SIMD.
#include "tools/trainer/data/jpeg.h"

#include <turbojpeg.h>

#include <cstring>

#include "tools/trainer/data/files.h"

namespace rondo::data {
namespace {

constexpr long pixels_max = 1L << 28;

/// Adobe's programs store CMYK inverted (255: no ink), and files of others are hardly to be found.
std::uint8_t light(std::uint8_t colour, std::uint8_t black) {
  return static_cast<std::uint8_t>((colour * black + 127) / 255);
}

}  // namespace

JpegDecoder::JpegDecoder() : handle_(tjInitDecompress(), tjDestroy) {
  if (!handle_) throw DataError(std::string("cannot set TurboJPEG up: ") + tjGetErrorStr2(nullptr));
}

void JpegDecoder::fail() const { throw DataError("cannot decode " + path_ + ": " + tjGetErrorStr2(handle_.get())); }

Shape JpegDecoder::open(const std::string& path) {
  path_ = path;
  read_file(path, file_);
  int width = 0, height = 0, subsampling = 0, colours = 0;
  if (file_.empty()) throw DataError("cannot decode " + path_ + ": it is empty");
  if (tjDecompressHeader3(handle_.get(), file_.data(), file_.size(), &width, &height, &subsampling, &colours) != 0) {
    fail();
  }
  if (long(width) * height > pixels_max) {
    throw DataError("cannot decode " + path_ + ": it has " + std::to_string(width) + " x " + std::to_string(height) +
                    " pixels, more than " + std::to_string(pixels_max));
  }
  cmyk_ = colours == TJCS_CMYK || colours == TJCS_YCCK;
  full_ = {height, width, 3};
  return full_;
}

Image JpegDecoder::pixels(const Shape& least) {
  tjscalingfactor scale{1, 1};
  for (const int part : {2, 4, 8}) {
    const tjscalingfactor smaller{1, part};
    if (TJSCALED(full_.height, smaller) >= least.height && TJSCALED(full_.width, smaller) >= least.width) {
      scale = smaller;
    }
  }
  const Shape shape{TJSCALED(full_.height, scale), TJSCALED(full_.width, scale), 3};
  pixels_.resize(shape.bytes());
  if (cmyk_) four_colours_.resize(shape.bytes() / 3 * 4);
  std::uint8_t* const target = cmyk_ ? four_colours_.data() : pixels_.data();
  if (tjDecompress2(handle_.get(), file_.data(), file_.size(), target, shape.width, 0, shape.height,
                    cmyk_ ? TJPF_CMYK : TJPF_RGB, 0) != 0) {
    // A truncated file is only a warning to TurboJPEG, which fills the rest up with grey.
    const bool warning = tjGetErrorCode(handle_.get()) == TJERR_WARNING;
    if (!warning || std::strstr(tjGetErrorStr2(handle_.get()), "remature end") != nullptr) fail();
  }
  if (cmyk_) {
    for (std::size_t i = 0; i < four_colours_.size() / 4; ++i) {
      const std::uint8_t* const inks = four_colours_.data() + 4 * i;
      for (std::size_t c = 0; c < 3; ++c) pixels_[3 * i + c] = light(inks[c], inks[3]);
    }
  }
  return {shape, pixels_};
}

}  // namespace rondo::data
