// Fashion-MNIST: files made here read right, damaged ones are refused by a sentence that names them; and where Debian's
// package is installed, the real ones have the mean and deviation that the source says.
#include "tools/trainer/data/fashion_mnist.h"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/folder.h"

using namespace rondo::data;
using rondo::test::Folder;
using rondo::test::sentence;
using Bytes = std::vector<std::uint8_t>;

namespace {

Bytes idx(const std::vector<std::uint8_t>& sizes, const Bytes& contents) {
  Bytes bytes{0, 0, 8, static_cast<std::uint8_t>(sizes.size())};
  for (const std::uint8_t size : sizes) bytes.insert(bytes.end(), {0, 0, 0, size});
  bytes.insert(bytes.end(), contents.begin(), contents.end());
  return bytes;
}

Bytes packed(const Bytes& bytes) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  Bytes result(bytes.size() + 100);
  stream.next_in = const_cast<std::uint8_t*>(bytes.data());
  stream.avail_in = static_cast<unsigned>(bytes.size());
  stream.next_out = result.data();
  stream.avail_out = static_cast<unsigned>(result.size());
  deflate(&stream, Z_FINISH);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

/// Two images of 2 x 3 pixels.
const Bytes pixels{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

std::string refused(const Folder& folder) {
  return sentence([&] { open_fashion_mnist(folder.path(), Split::test); });
}

}  // namespace

TEST_CASE("IDX files, packed or not, become a set") {
  const Folder folder;
  folder.write("t10k-images-idx3-ubyte.gz", packed(idx({2, 2, 3}, pixels)));
  folder.write("t10k-labels-idx1-ubyte", idx({2}, {9, 4}));
  const auto set = open_fashion_mnist(folder.path(), Split::test);
  CHECK(set->size() == 2);
  CHECK(set->shape() == Shape{2, 3, 1});
  CHECK(set->label(0) == 9);
  CHECK(set->label(1) == 4);
  CHECK(set->name() == "Fashion-MNIST, test");
  const auto reader = set->reader();
  CHECK(reader->open(1) == Shape{2, 3, 1});
  const Image image = reader->pixels({1, 1, 1});
  CHECK(Bytes(image.pixels.begin(), image.pixels.end()) == Bytes{6, 7, 8, 9, 10, 11});
}

TEST_CASE("Missing, truncated and foreign files are refused by name") {
  const Folder folder;
  CHECK_THAT(refused(folder), Catch::Contains("there is no " + folder.path("t10k-images-idx3-ubyte.gz")) &&
                                  Catch::Contains("dataset-fashion-mnist"));
  const std::string images = folder.write("t10k-images-idx3-ubyte.gz", packed(idx({2, 2, 3}, pixels)));
  const std::string labels = folder.path("t10k-labels-idx1-ubyte.gz");
  CHECK_THAT(refused(folder), Catch::Contains("there is no " + labels));

  const auto with_labels = [&](const Bytes& bytes) {
    folder.write("t10k-labels-idx1-ubyte.gz", packed(bytes));
    return refused(folder);
  };
  CHECK_THAT(with_labels(idx({3}, {1, 2, 3})), Catch::Contains("2 images") && Catch::Contains("3 labels"));
  CHECK_THAT(with_labels(idx({2}, {1, 10})), Catch::Contains(labels + " has the label 10"));
  CHECK_THAT(with_labels(idx({2}, {1})), Catch::Contains("truncated"));
  CHECK_THAT(with_labels(idx({1, 2}, {1, 2})), Catch::Contains(labels + " is not an IDX file"));
  CHECK_THAT(with_labels({0, 0, 8}), Catch::Contains("is not an IDX file"));
  CHECK_THAT(with_labels({0, 0, 8, 1, 0}), Catch::Contains("ends inside its header"));
  CHECK_THAT(with_labels({0, 0, 8, 1, 255, 255, 255, 255}), Catch::Contains("absurd"));
  CHECK_THAT(with_labels(idx({0}, {})), Catch::Contains("holds nothing"));

  Bytes half = packed(idx({2, 2, 3}, pixels));
  half.resize(half.size() - 12);
  folder.write("t10k-images-idx3-ubyte.gz", half);
  CHECK_THAT(refused(folder), Catch::Contains("cannot unpack " + images) && Catch::Contains("unexpected end of file"));
  half[20] ^= 0xff;
  folder.write("t10k-images-idx3-ubyte.gz", half);
  CHECK_THAT(refused(folder), Catch::Contains("cannot unpack " + images));
}

TEST_CASE("The real set is as its source says") {
  if (!std::filesystem::exists(fashion_mnist_folder)) {
    WARN("skipped: Debian's package dataset-fashion-mnist is not installed");
    return;
  }
  const auto test_set = open_fashion_mnist(fashion_mnist_folder, Split::test);
  CHECK(test_set->size() == 10'000);
  const auto set = open_fashion_mnist(fashion_mnist_folder, Split::training);
  REQUIRE(set->size() == 60'000);
  CHECK(set->shape() == Shape{28, 28, 1});
  std::uint64_t values[256] = {};
  std::size_t per_class[10] = {};
  for (std::size_t i = 0; i < set->size(); ++i) {
    ++per_class[set->label(i)];
    const std::uint8_t* const pixels = set->pixels(i).data();
    for (int k = 0; k < 28 * 28; ++k) ++values[pixels[k]];  // plain: sanitizer builds don't optimize
  }
  double count = 0, sum = 0, squares = 0;
  for (int i = 0; i < 256; ++i) {
    count += double(values[i]);
    sum += double(values[i]) * i / 255;
    squares += double(values[i]) * i / 255 * i / 255;
  }
  for (const std::size_t size : per_class) CHECK(size == 6000);
  CHECK(set->normalisation().mean.at(0) == Approx(sum / count).margin(1e-4));
  CHECK(set->normalisation().deviation.at(0) ==
        Approx(std::sqrt(squares / count - sum / count * sum / count)).margin(1e-4));
}
