// Images as files, in the layout of ImageNet: FOLDER/train/CLASS/*.JPEG to train with, FOLDER/val/CLASS/*.JPEG (or
// test) to test with.  Classes are numbered in the order of their names.  JPEG only (.jpg, .jpeg, any case); other
// files are passed over.
#pragma once

#include <memory>
#include <string>

#include "tools/trainer/data/dataset.h"

namespace rondo::data {

/// Lists the files, and reads none of them.  Readers decode at the full size, or at a half, a quarter or an eighth of
/// it where that is enough; grey and CMYK images become RGB.
std::unique_ptr<Dataset> open_image_folder(const std::string& folder, Split split);

}  // namespace rondo::data
