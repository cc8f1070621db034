// Loaders: the same batches for any number of threads, places to go on from, ends, troubles, and early farewells.
#include "tools/trainer/data/loader.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <map>

#include "tests/folder.h"
#include "tools/trainer/data/synthetic.h"

using namespace rondo::data;
using rondo::test::sentence;

namespace {

struct Copy {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int64_t> labels;
  std::vector<std::uint32_t> indices;
  Place place;
  bool last = false;
  bool operator==(const Copy&) const = default;
};

Copy copied(const Batch& batch) {
  return {{batch.pixels, batch.pixels + batch.count * batch.shape.bytes()},
          {batch.labels, batch.labels + batch.count},
          {batch.indices, batch.indices + batch.count},
          batch.place,
          batch.last};
}

Loading usual(int workers) {
  Loading loading{.batch = 10, .workers = workers, .seed = 9, .epochs_end = 2};
  loading.augmentation = {.height = 6, .width = 7, .crop = Crop::random_resized, .flip = true};
  return loading;
}

std::vector<Copy> all(Loader& loader) {
  std::vector<Copy> batches;
  while (const Batch* batch = loader.next()) batches.push_back(copied(*batch));
  return batches;
}

std::unique_ptr<Dataset> images(std::size_t count) {
  return make_synthetic({.size = count, .shape = {8, 8, 3}, .classes = 4});
}

/// A set of which some images can't be read.
class Broken final : public Dataset {
 public:
  explicit Broken(std::size_t first_bad) : first_bad_(first_bad) {}
  std::size_t size() const override { return 100; }
  int classes() const override { return 1; }
  Shape shape() const override { return {2, 2, 1}; }
  std::int64_t label(std::size_t) const override { return 0; }
  Normalisation normalisation() const override { return {}; }
  std::string name() const override { return "broken"; }
  std::unique_ptr<Reader> reader() const override {
    class BrokenReader final : public Reader {
     public:
      explicit BrokenReader(std::size_t first_bad) : first_bad_(first_bad) {}
      Shape open(std::size_t index) override {
        if (index >= first_bad_) throw DataError("image " + std::to_string(index) + " is bad");
        return {2, 2, 1};
      }
      Image pixels(const Shape&) override { return {{2, 2, 1}, pixels_}; }

     private:
      std::size_t first_bad_;
      std::vector<std::uint8_t> pixels_ = {1, 2, 3, 4};
    };
    return std::make_unique<BrokenReader>(first_bad_);
  }

 private:
  std::size_t first_bad_;
};

}  // namespace

TEST_CASE("The batches don't depend on the number of threads") {
  const auto set = images(57);
  const Sampler sampler({.size = 57, .rank = 1, .ranks = 2, .seed = 2});
  Loader plain(*set, sampler, usual(0));
  const std::vector<Copy> expected = all(plain);
  REQUIRE(expected.size() == 6);
  CHECK(plain.batches() == 3);
  CHECK(expected[2].labels.size() == 9);
  CHECK(expected[2].last);
  CHECK(expected[3].place == Place{1, 0});
  CHECK(expected[0].indices != expected[3].indices);
  for (std::size_t i = 0; i < 10; ++i) CHECK(expected[0].labels[i] == set->label(expected[0].indices[i]));
  for (const int workers : {1, 2, 5}) {
    Loader loader(*set, sampler, usual(workers));
    CHECK(all(loader) == expected);
  }
}

TEST_CASE("An image is augmented alike on whichever rank it lands") {
  const auto set = images(40);
  std::map<std::uint32_t, std::vector<std::uint8_t>> seen;
  for (const int ranks : {1, 4}) {
    for (int rank = 0; rank < ranks; ++rank) {
      Loading loading = usual(1);
      loading.epochs_end = 1;
      Loader loader(*set, Sampler({.size = 40, .rank = rank, .ranks = ranks}), loading);
      while (const Batch* batch = loader.next()) {
        for (std::size_t i = 0; i < batch->count; ++i) {
          const std::uint8_t* const pixels = batch->pixels + i * batch->shape.bytes();
          const std::vector<std::uint8_t> image(pixels, pixels + batch->shape.bytes());
          const auto [place, first] = seen.emplace(batch->indices[i], image);
          if (!first) CHECK(place->second == image);
        }
      }
    }
  }
  CHECK(seen.size() == 40);
}

TEST_CASE("A loader that begins at a place goes on as the first would have") {
  const auto set = images(57);
  const Sampler sampler({.size = 57, .seed = 2});
  Loader whole(*set, sampler, usual(2));
  const std::vector<Copy> expected = all(whole);
  REQUIRE(expected.size() == 12);
  Loader first(*set, sampler, usual(2));
  for (std::size_t done = 0; done < expected.size(); ++done) {
    Loader second(*set, sampler, usual(1), first.place());
    CHECK(all(second) == std::vector<Copy>(expected.begin() + std::ptrdiff_t(done), expected.end()));
    REQUIRE(first.next() != nullptr);
  }
  CHECK(first.place() == Place{2, 0});
  CHECK(first.next() == nullptr);
  CHECK(first.next() == nullptr);
}

TEST_CASE("Whole batches leave the rest of an epoch out") {
  const auto set = images(57);
  Loading loading = usual(2);
  loading.whole_batches = true;
  Loader loader(*set, Sampler({.size = 57}), loading);
  CHECK(loader.batches() == 5);
  const std::vector<Copy> batches = all(loader);
  REQUIRE(batches.size() == 10);
  CHECK(batches[4].last);
  for (const Copy& batch : batches) CHECK(batch.labels.size() == 10);
  Loader late(*set, Sampler({.size = 57}), loading, {0, 48});  // 9 left: nothing of this epoch
  CHECK(all(late).front().place == Place{1, 0});
  loading.batch = 58;
  Loader none(*set, Sampler({.size = 57}), loading);
  CHECK(none.next() == nullptr);
}

TEST_CASE("A rank without images has no batch") {
  const auto set = images(3);
  Loader loader(*set, Sampler({.size = 3, .rank = 3, .ranks = 4, .uneven = Uneven::exact}), usual(2));
  CHECK(loader.next() == nullptr);
}

TEST_CASE("A trouble comes with its batch, the first image's, whatever the threads do") {
  const Broken set(25);
  const Sampler sampler({.size = 100, .shuffle = false});
  for (const int workers : {0, 1, 4}) {
    Loading loading{.batch = 10, .workers = workers};
    loading.augmentation = {.height = 2, .width = 2};
    Loader loader(set, sampler, loading);
    REQUIRE(loader.next() != nullptr);
    const Batch* const second = loader.next();
    REQUIRE(second != nullptr);
    CHECK(second->indices[9] == 19);
    CHECK(sentence([&] { loader.next(); }) == "image 25 is bad");
    CHECK(sentence([&] { loader.next(); }) == "image 25 is bad");
  }
}

TEST_CASE("Loaders stop whenever they are told to, and use the memory they are given") {
  const auto set = images(100);
  std::atomic<int> held = 0;
  for (const int taken : {0, 1, 3}) {
    Loading loading = usual(3);
    loading.epochs_end = 1000;
    loading.allocate = [&](std::size_t bytes) {
      ++held;
      return Memory(new std::uint8_t[bytes], [&](std::uint8_t* pixels) {
        --held;
        delete[] pixels;
      });
    };
    Loader loader(*set, Sampler({.size = 100}), loading);
    CHECK(held == 3);
    for (int i = 0; i < taken; ++i) CHECK(loader.next() != nullptr);
    CHECK(loader.waited_seconds() >= 0);
  }
  CHECK(held == 0);
  Loading nothing = usual(1);
  nothing.batch = 0;
  CHECK_THAT(sentence([&] { Loader(*set, Sampler({.size = 100}), nothing); }), Catch::Contains("at least one image"));
}
