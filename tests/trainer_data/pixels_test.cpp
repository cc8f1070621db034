// What augmentation does to pixels: identity, halving, doubling, mirroring, padding, boxes, layouts; and synthetic
// data.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>

#include "tests/folder.h"
#include "tools/trainer/data/augmentation.h"
#include "tools/trainer/data/memory_dataset.h"
#include "tools/trainer/data/open.h"
#include "tools/trainer/data/synthetic.h"

using namespace rondo::data;
using Bytes = std::vector<std::uint8_t>;

namespace {

MemoryDataset one_image(const Shape& shape, Bytes pixels) {
  Contents contents{.name = "one", .shape = shape, .classes = 1};
  contents.storage = std::move(pixels);
  contents.stride = shape.bytes();
  contents.labels.assign(contents.storage.size() / shape.bytes(), 0);
  return MemoryDataset(std::move(contents));
}

Bytes ramp(std::size_t count) {
  Bytes bytes(count);
  std::iota(bytes.begin(), bytes.end(), 1);
  return bytes;
}

Bytes resampled(const Shape& shape, const Bytes& pixels, const Box& box, bool mirror, int height, int width) {
  Bytes target(Shape{height, width, shape.channels}.bytes());
  Resampler().resample({shape, pixels}, box, mirror, {height, width, shape.channels}, target.data());
  return target;
}

Bytes applied(const Dataset& set, const Augmentation& wanted, Layout layout, std::uint64_t epoch,
              std::size_t index = 0) {
  Bytes target(Shape{wanted.height, wanted.width, set.shape().channels}.bytes());
  const auto reader = set.reader();
  Transform(wanted, layout, 5).apply(*reader, index, epoch, target.data());
  return target;
}

}  // namespace

TEST_CASE("Resampling: what can be said by hand") {
  const Shape four{1, 4, 1};
  const Box whole{0, 0, 1, 4};
  const Bytes source{10, 20, 30, 200};
  CHECK(resampled(four, source, whole, false, 1, 4) == source);
  CHECK(resampled(four, source, whole, true, 1, 4) == Bytes{200, 30, 20, 10});
  CHECK(resampled(four, source, {0, 1, 1, 2}, false, 1, 2) == Bytes{20, 30});
  // Twice as wide: a quarter of the way to the neighbour on each side, the edge as it is.
  CHECK(resampled(four, source, whole, false, 1, 8) == Bytes{10, 13, 18, 23, 28, 73, 158, 200});
  // Half as wide: weights 1/8 3/8 3/8 1/8, and where one of them lies outside, the other three of 7.
  CHECK(resampled(four, source, whole, false, 1, 2) == Bytes{17, 101});
  // Channels keep to themselves, rows too.
  const Shape colour{2, 2, 3};
  const Bytes flag{255, 0, 0, 255, 0, 0, 0, 0, 9, 0, 0, 9};
  CHECK(resampled(colour, flag, {0, 0, 2, 2}, false, 1, 1) == Bytes{128, 0, 5});
  CHECK(resampled(colour, flag, {1, 0, 1, 2}, false, 1, 1) == Bytes{0, 0, 9});
}

TEST_CASE("Resampling an even image gives an even image") {
  const Shape shape{37, 53, 3};
  const Bytes grey(shape.bytes(), 77);
  for (const int size : {1, 5, 36, 64, 200}) {
    const Bytes result = resampled(shape, grey, {3.3, 4.4, 30.1, 40.2}, true, size, size);
    CHECK(std::all_of(result.begin(), result.end(), [](std::uint8_t pixel) { return pixel == 77; }));
  }
}

TEST_CASE("Layouts hold the same pixels") {
  const MemoryDataset set = one_image({2, 2, 3}, ramp(12));
  const Augmentation wanted{.height = 2, .width = 2};
  CHECK(applied(set, wanted, Layout::nhwc, 0) == ramp(12));
  CHECK(applied(set, wanted, Layout::nchw, 0) == Bytes{1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12});
}

TEST_CASE("Padding and cropping shows every shift, with black beyond the edge") {
  const MemoryDataset set = one_image({3, 4, 1}, ramp(12));
  const Augmentation wanted{.height = 3, .width = 4, .crop = Crop::padded, .flip = false, .padding = 2};
  std::map<std::string, int> seen;
  const auto key = [](const Bytes& bytes) { return std::string(bytes.begin(), bytes.end()); };
  for (std::uint64_t epoch = 0; epoch < 1000; ++epoch) ++seen[key(applied(set, wanted, Layout::nhwc, epoch))];
  CHECK(seen.size() == 25);
  for (int down = -2; down <= 2; ++down) {
    for (int right = -2; right <= 2; ++right) {
      Bytes expected(12, 0);
      for (int y = 0; y < 3; ++y) {
        for (int x = 0; x < 4; ++x) {
          const int from_y = y - down, from_x = x - right;
          if (from_y < 0 || from_y >= 3 || from_x < 0 || from_x >= 4) continue;
          expected[static_cast<std::size_t>(y * 4 + x)] = static_cast<std::uint8_t>(1 + from_y * 4 + from_x);
        }
      }
      CHECK(seen.count(key(expected)) == 1);
    }
  }
  CHECK(applied(set, wanted, Layout::nhwc, 7) == applied(set, wanted, Layout::nchw, 7));
}

TEST_CASE("A coin mirrors half of the images") {
  const MemoryDataset set = one_image({1, 2, 1}, {1, 2});
  const Augmentation wanted{.height = 1, .width = 2, .flip = true};
  int mirrored = 0;
  for (std::uint64_t epoch = 0; epoch < 1000; ++epoch) {
    const Bytes result = applied(set, wanted, Layout::nhwc, epoch);
    REQUIRE((result == Bytes{1, 2} || result == Bytes{2, 1}));
    mirrored += result == Bytes{2, 1} ? 1 : 0;
  }
  CHECK(std::abs(mirrored - 500) < 80);
}

TEST_CASE("The centre crop is the middle of the resized image") {
  // 8 x 16, its rows and columns as values: short side to 4, of that the middle 2 x 2.
  const Shape shape{8, 16, 2};
  Bytes pixels;
  for (int y = 0; y < 8; ++y) {
    for (int x = 0; x < 16; ++x) {
      pixels.push_back(static_cast<std::uint8_t>(10 * y));
      pixels.push_back(static_cast<std::uint8_t>(10 * x));
    }
  }
  const Augmentation wanted{.height = 2, .width = 2, .crop = Crop::centre, .short_side = 4};
  CHECK(applied(one_image(shape, pixels), wanted, Layout::nhwc, 0) == Bytes{25, 65, 25, 85, 45, 65, 45, 85});
}

TEST_CASE("Random boxes stay inside, and have the areas and aspects asked for") {
  // Each pixel tells its place: its row and its column.
  const Shape shape{200, 100, 2};
  Bytes pixels;
  for (int y = 0; y < shape.height; ++y) {
    for (int x = 0; x < shape.width; ++x) {
      pixels.push_back(static_cast<std::uint8_t>(y));
      pixels.push_back(static_cast<std::uint8_t>(x));
    }
  }
  const MemoryDataset set = one_image(shape, pixels);
  const Augmentation wanted{.height = 50, .width = 50, .crop = Crop::random_resized, .flip = false};
  double area_least = 1, area_most = 0, aspect_least = 10, aspect_most = 0;
  for (std::uint64_t epoch = 0; epoch < 300; ++epoch) {
    const Bytes result = applied(set, wanted, Layout::nhwc, epoch);
    const auto at = [&](int y, int x, int c) { return double(result[static_cast<std::size_t>((y * 50 + x) * 2 + c)]); };
    const double height = (at(44, 0, 0) - at(5, 0, 0)) / 39 * 50;
    const double width = (at(0, 44, 1) - at(0, 5, 1)) / 39 * 50;
    area_least = std::min(area_least, height * width / 20000);
    area_most = std::max(area_most, height * width / 20000);
    aspect_least = std::min(aspect_least, width / height);
    aspect_most = std::max(aspect_most, width / height);
  }
  CHECK(area_least > 0.06);
  CHECK(area_least < 0.15);
  CHECK(area_most > 0.5);  // a box of these aspects can't hold more than two thirds of this image
  CHECK(area_most < 0.70);
  CHECK(aspect_least > 0.68);
  CHECK(aspect_least < 0.80);
  CHECK(aspect_most > 1.25);
  CHECK(aspect_most < 1.45);
}

TEST_CASE("Synthetic images are the same for the same seed, and like others of their class") {
  const auto make = [](std::uint64_t seed, Split split) {
    return make_synthetic({.size = 500, .shape = {16, 12, 3}, .classes = 5, .seed = seed, .split = split});
  };
  const auto pixels = [](const Dataset& set, std::size_t index) {
    const auto reader = set.reader();
    reader->open(index);
    const Image image = reader->pixels({1, 1, 3});
    return Bytes(image.pixels.begin(), image.pixels.end());
  };
  const auto set = make(1, Split::training);
  CHECK(set->size() == 500);
  CHECK(pixels(*set, 3).size() == 16 * 12 * 3);
  CHECK(pixels(*set, 3) == pixels(*make(1, Split::training), 3));
  CHECK(pixels(*set, 3) != pixels(*set, 4));
  CHECK(pixels(*set, 3) != pixels(*make(2, Split::training), 3));
  CHECK(pixels(*set, 3) != pixels(*make(1, Split::test), 3));

  const auto distance = [](const Bytes& a, const Bytes& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
    return sum;
  };
  const auto tests = make(1, Split::test);
  double same = 0, other = 0;
  int same_count = 0, other_count = 0, per_class[5] = {};
  for (std::size_t i = 0; i < 50; ++i) {
    const std::int64_t label = set->label(i);
    REQUIRE((label >= 0 && label < 5));
    ++per_class[label];
    const double there = distance(pixels(*set, i), pixels(*tests, i));
    (label == tests->label(i) ? same : other) += there;
    ++(label == tests->label(i) ? same_count : other_count);
  }
  CHECK(*std::min_element(per_class, per_class + 5) > 0);
  CHECK(same / same_count < 0.8 * other / other_count);

  double count = 0, sum = 0, squares = 0;
  const auto many = make_synthetic({.size = 400, .shape = {16, 12, 3}, .classes = 200, .seed = 1});
  for (std::size_t i = 0; i < 400; ++i) {
    for (const std::uint8_t pixel : pixels(*many, i)) {
      count += 1;
      sum += pixel / 255.0;
      squares += pixel / 255.0 * pixel / 255.0;
    }
  }
  CHECK(sum / count == Approx(many->normalisation().mean.at(0)).margin(0.02));
  CHECK(std::sqrt(squares / count - sum / count * sum / count) ==
        Approx(many->normalisation().deviation.at(0)).margin(0.02));
  CHECK_THAT(rondo::test::sentence([] { make_synthetic({.size = 0}); }), Catch::Contains("at least one image"));
}

TEST_CASE("Kinds of data have names") {
  CHECK_THAT(rondo::test::sentence([] { open_dataset({.kind = "mnist"}); }),
             Catch::Contains("no data set 'mnist'") && Catch::Contains("fashion-mnist, "));
  const auto set = open_dataset({.kind = "synthetic", .synthetic_size = 10, .synthetic_classes = 3, .image = 8});
  CHECK(set->shape() == Shape{8, 8, 3});
  CHECK(usual_augmentation(*set, Split::training, 8).crop == Crop::whole);
  const MemoryDataset small = one_image({28, 28, 1}, Bytes(28 * 28));
  CHECK(usual_augmentation(small, Split::training, 28).crop == Crop::padded);
  CHECK(usual_augmentation(small, Split::test, 28).crop == Crop::whole);
}
