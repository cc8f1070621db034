// CIFAR-10 and folders of JPEG files: files made here read right, at reduced sizes too, and damaged ones are refused by
// sentences that name them.
#include <turbojpeg.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "tests/folder.h"
#include "tools/trainer/data/cifar.h"
#include "tools/trainer/data/image_folder.h"
#include "tools/trainer/data/loader.h"
#include "tools/trainer/data/open.h"

using namespace rondo::data;
using Catch::Contains;
using rondo::test::Folder;
using rondo::test::sentence;
using Bytes = std::vector<std::uint8_t>;

namespace {

/// A JPEG whose left half has the colour `left` and whose right half has `right`, of `format`'s channels.
Bytes jpeg(int width, int height, const Bytes& left, const Bytes& right, int format = TJPF_RGB,
           int sampling = TJSAMP_444) {
  Bytes pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const Bytes& colour = x < width / 2 ? left : right;
      pixels.insert(pixels.end(), colour.begin(), colour.end());
    }
  }
  unsigned char* file = nullptr;
  unsigned long bytes = 0;
  const tjhandle handle = tjInitCompress();
  REQUIRE(tjCompress2(handle, pixels.data(), width, 0, height, format, &file, &bytes, sampling, 95, 0) == 0);
  Bytes result(file, file + bytes);
  tjFree(file);
  tjDestroy(handle);
  return result;
}

/// The pixel at a share of the height and width.
Bytes pixel(const Image& image, double down, double right) {
  const auto y = static_cast<std::size_t>(down * image.shape.height);
  const auto x = static_cast<std::size_t>(right * image.shape.width);
  const std::size_t at = (y * static_cast<std::size_t>(image.shape.width) + x) * 3;
  return {image.pixels.begin() + std::ptrdiff_t(at), image.pixels.begin() + std::ptrdiff_t(at + 3)};
}

bool near(const Bytes& a, const Bytes& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::abs(a[i] - b[i]) > 6) return false;
  }
  return a.size() == b.size();
}

const Bytes red{200, 30, 20};
const Bytes blue{10, 60, 220};

}  // namespace

TEST_CASE("CIFAR-10 reads planes, over five files, wherever the archive was unpacked") {
  const Folder folder;
  const auto image = [](std::uint8_t label) {
    Bytes bytes{label};
    for (int channel = 0; channel < 3; ++channel) {
      for (int i = 0; i < 1024; ++i) bytes.push_back(static_cast<std::uint8_t>(label + 50 * channel + i % 32));
    }
    return bytes;
  };
  for (std::uint8_t i = 1; i <= 5; ++i) {
    folder.write("cifar-10-batches-bin/data_batch_" + std::to_string(i) + ".bin", image(i));
  }
  Bytes two = image(3);
  const Bytes second = image(9);
  two.insert(two.end(), second.begin(), second.end());
  folder.write("cifar-10-batches-bin/test_batch.bin", two);
  for (const std::string& path : {folder.path(), folder.path("cifar-10-batches-bin")}) {
    const auto training = open_cifar10(path, Split::training);
    CHECK(training->size() == 5);
    CHECK(training->label(4) == 5);
    const auto test = open_dataset({.kind = "cifar10", .path = path, .split = Split::test});
    CHECK(test->size() == 2);
    CHECK(test->shape() == Shape{32, 32, 3});
    const auto reader = test->reader();
    reader->open(1);
    const Image read = reader->pixels({1, 1, 3});
    CHECK(Bytes(read.pixels.begin(), read.pixels.begin() + 6) == Bytes{9, 59, 109, 10, 60, 110});
  }
  const std::string path = folder.path("cifar-10-batches-bin/test_batch.bin");
  two.pop_back();
  folder.write("cifar-10-batches-bin/test_batch.bin", two);
  CHECK_THAT(sentence([&] { open_cifar10(folder.path(), Split::test); }), Contains(path + " has 6145 bytes"));
  folder.write("cifar-10-batches-bin/test_batch.bin", image(10));
  CHECK_THAT(sentence([&] { open_cifar10(folder.path(), Split::test); }), Contains(path + " has the label 10"));
  CHECK_THAT(sentence([&] { open_cifar10("/no/such", Split::training); }), Contains("/no/such/data_batch_1.bin"));
  CHECK_THAT(sentence([&] { open_dataset({.kind = "cifar10"}); }), Contains("--data-dir"));
}

TEST_CASE("A folder of images has the classes of its training part, in the order of their names") {
  const Folder folder;
  folder.write("train/cat/2.JPEG", jpeg(40, 30, red, blue));
  folder.write("train/cat/1.jpg", jpeg(64, 48, blue, red));
  folder.write("train/ant/deep/er.jpeg", jpeg(8, 8, red, red));
  folder.write("train/ant/notes.txt", std::string_view("no image"));
  folder.write("val/cat/5.jpg", jpeg(16, 16, blue, blue));
  const auto set = open_image_folder(folder.path(), Split::training);
  REQUIRE(set->size() == 3);
  CHECK(set->classes() == 2);
  CHECK(set->label(0) == 0);
  CHECK(set->label(1) == 1);
  CHECK(set->shape() == Shape{0, 0, 3});
  const auto reader = set->reader();
  CHECK(reader->open(0) == Shape{8, 8, 3});
  CHECK(reader->open(1) == Shape{48, 64, 3});
  CHECK(near(pixel(reader->pixels({48, 64, 3}), 0.5, 0.25), blue));
  const auto test = open_image_folder(folder.path(), Split::test);
  REQUIRE(test->size() == 1);
  CHECK(test->label(0) == 1);  // cat, as in training

  folder.write("val/dog/5.jpg", jpeg(16, 16, blue, blue));
  CHECK_THAT(sentence([&] { open_image_folder(folder.path(), Split::test); }), Contains("a class 'dog'"));
  CHECK_THAT(sentence([&] { open_image_folder(folder.path("train"), Split::training); }),
             Contains("there is no folder"));
  folder.write("empty/train/cat/1.png", std::string_view("x"));
  CHECK_THAT(sentence([&] { open_image_folder(folder.path("empty"), Split::training); }), Contains("no JPEG files"));
}

TEST_CASE("Images are decoded as small as what is wanted allows, in all colours") {
  const Folder folder;
  folder.write("train/a/1.jpg", jpeg(100, 60, red, blue));
  folder.write("train/a/2.jpg", jpeg(32, 32, {90}, {200}, TJPF_GRAY, TJSAMP_GRAY));
  folder.write("train/a/3.jpg", jpeg(32, 32, {255, 128, 0, 255}, {255, 255, 255, 128}, TJPF_CMYK));
  const auto set = open_image_folder(folder.path(), Split::training);
  const auto reader = set->reader();
  const auto decoded = [&](const Shape& least) {
    reader->open(0);
    const Image image = reader->pixels(least);
    CHECK(near(pixel(image, 0.5, 0.2), red));
    CHECK(near(pixel(image, 0.5, 0.8), blue));
    return image.shape;
  };
  CHECK(decoded({60, 100, 3}) == Shape{60, 100, 3});
  CHECK(decoded({31, 40, 3}) == Shape{60, 100, 3});
  CHECK(decoded({30, 50, 3}) == Shape{30, 50, 3});
  CHECK(decoded({15, 20, 3}) == Shape{15, 25, 3});
  CHECK(decoded({1, 1, 3}) == Shape{8, 13, 3});
  reader->open(1);
  CHECK(near(pixel(reader->pixels({32, 32, 3}), 0.5, 0.8), {200, 200, 200}));
  reader->open(2);
  const Image cmyk = reader->pixels({32, 32, 3});
  CHECK(near(pixel(cmyk, 0.5, 0.2), {255, 128, 0}));
  CHECK(near(pixel(cmyk, 0.5, 0.8), {128, 128, 128}));

  // Reduced decoding and cropping still shows the same part: the left half is red, the right one blue.
  Loading loading{.batch = 1, .workers = 0};
  loading.augmentation = {.height = 8, .width = 8, .crop = Crop::centre, .short_side = 8};
  Loader loader(*set, Sampler({.size = 1, .shuffle = false}), loading);
  const Batch* const batch = loader.next();
  CHECK(near({batch->pixels + 3, batch->pixels + 6}, red));
  CHECK(near({batch->pixels + 18, batch->pixels + 21}, blue));
}

TEST_CASE("Damaged images are refused by name") {
  const Folder folder;
  Bytes file = jpeg(64, 64, red, blue);
  folder.write("train/a/1.jpg", Bytes(file.begin(), file.begin() + std::ptrdiff_t(file.size() * 3 / 4)));
  folder.write("train/a/2.jpg", std::string_view("\x89PNG\r\n"));
  folder.write("train/a/3.jpg", std::string_view(""));
  file.insert(file.end() - 2, 5, 0);  // odd bytes before the end: decoders warn, and show the image
  folder.write("train/a/4.jpg", file);
  const auto set = open_image_folder(folder.path(), Split::training);
  const auto reader = set->reader();
  const auto said = [&](std::size_t index) {
    return sentence([&] {
      reader->open(index);
      reader->pixels({64, 64, 3});
    });
  };
  CHECK_THAT(said(0), Contains("cannot decode " + folder.path("train/a/1.jpg")) && Contains("end"));
  CHECK_THAT(said(1), Contains("cannot decode " + folder.path("train/a/2.jpg")));
  CHECK_THAT(said(2), Contains("train/a/3.jpg: it is empty"));
  CHECK(said(3).empty());
  std::filesystem::remove(folder.path("train/a/4.jpg"));
  CHECK_THAT(said(3), Contains("cannot open " + folder.path("train/a/4.jpg") + ": No such file"));
}
