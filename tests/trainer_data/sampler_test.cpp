// Samplers: every image once an epoch, shares of ranks as promised, orders that all ranks and all numbers of ranks
// agree on.
#include "tools/trainer/data/sampler.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "tests/folder.h"
#include "tools/trainer/data/random.h"

using namespace rondo::data;
using rondo::test::sentence;

namespace {

/// How often each image is seen by all ranks in an epoch.
std::map<std::uint32_t, int> seen(Sampling sampling, std::uint64_t epoch) {
  std::map<std::uint32_t, int> counts;
  for (sampling.rank = 0; sampling.rank < sampling.ranks; ++sampling.rank) {
    const Sampler sampler(sampling);
    const auto indices = sampler.indices(epoch);
    CHECK(indices.size() == sampler.count());
    for (const std::uint32_t index : indices) ++counts[index];
  }
  return counts;
}

}  // namespace

TEST_CASE("Each image is seen as often as its way with uneven shares says") {
  for (const std::size_t size : {7, 12, 13, 100}) {
    for (const int ranks : {1, 2, 4, 7}) {
      for (const bool shuffle : {false, true}) {
        CAPTURE(size, ranks, shuffle);
        Sampling sampling{.size = size, .ranks = ranks, .shuffle = shuffle, .uneven = Uneven::exact, .seed = 3};
        const auto exact = seen(sampling, 5);
        CHECK(exact.size() == size);
        CHECK(std::all_of(exact.begin(), exact.end(), [](const auto& pair) { return pair.second == 1; }));

        sampling.uneven = Uneven::pad;
        std::size_t all = 0;
        const auto padded = seen(sampling, 5);
        CHECK(padded.size() == size);
        for (const auto& [index, times] : padded) all += static_cast<std::size_t>(times);
        CHECK(all == (size + ranks - 1) / ranks * ranks);

        sampling.uneven = Uneven::drop;
        const auto dropped = seen(sampling, 5);
        CHECK(dropped.size() == size / ranks * ranks);
        CHECK(std::all_of(dropped.begin(), dropped.end(), [](const auto& pair) { return pair.second == 1; }));
      }
    }
  }
}

TEST_CASE("A global batch holds the same images for any number of ranks") {
  constexpr std::size_t global = 32;
  const auto step_images = [](int ranks, std::size_t step) {
    std::multiset<std::uint32_t> images;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto indices = Sampler({.size = 1000, .rank = rank, .ranks = ranks, .seed = 1}).indices(2);
      const std::size_t batch = global / static_cast<std::size_t>(ranks);
      images.insert(indices.begin() + std::ptrdiff_t(step * batch),
                    indices.begin() + std::ptrdiff_t((step + 1) * batch));
    }
    return images;
  };
  for (const std::size_t step : {0, 7, 20}) {
    CHECK(step_images(1, step) == step_images(2, step));
    CHECK(step_images(1, step) == step_images(4, step));
  }
}

TEST_CASE("Orders differ by epoch and seed, repeat, and are even") {
  const auto order = [](std::uint64_t seed, std::uint64_t epoch) {
    return Sampler({.size = 50, .seed = seed}).indices(epoch);
  };
  CHECK(order(1, 1) == order(1, 1));
  CHECK(order(1, 1) != order(1, 2));
  CHECK(order(1, 2) != order(2, 1));
  CHECK(std::is_sorted(order(1, 1).begin(), order(1, 1).end()) == false);
  const auto plain = Sampler({.size = 50, .shuffle = false}).indices(9);
  CHECK(std::is_sorted(plain.begin(), plain.end()));

  // Where image 0 of 5 lies: each place in 2000 +- 200 of 10,000 epochs (5 standard deviations).
  int places[5] = {};
  const Sampler five({.size = 5, .seed = 4});
  for (std::uint64_t epoch = 0; epoch < 10'000; ++epoch) {
    const auto indices = five.indices(epoch);
    ++places[std::find(indices.begin(), indices.end(), 0U) - indices.begin()];
  }
  for (const int count : places) CHECK(std::abs(count - 2000) < 200);
}

TEST_CASE("The order never changes between versions") {
  // Computed by another program.  A checkpoint names (epoch, position): another generator would silently train on
  // other images.
  CHECK(Sampler({.size = 8, .seed = 1}).indices(0) == std::vector<std::uint32_t>{4, 3, 7, 1, 6, 0, 5, 2});
}

TEST_CASE("Too few images are refused") {
  CHECK_THAT(sentence([] { Sampler({.size = 3, .ranks = 4}); }),
             Catch::Contains("3 images") && Catch::Contains("4 ranks"));
  CHECK_THAT(sentence([] { Sampler({.size = 0}); }), Catch::Contains("no images"));
  CHECK(Sampler({.size = 3, .rank = 3, .ranks = 4, .uneven = Uneven::exact}).count() == 0);
}

TEST_CASE("Numbers drawn for one purpose tell nothing of another's") {
  std::set<std::uint64_t> firsts;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (std::uint64_t first = 0; first < 10; ++first) {
      for (std::uint64_t second = 0; second < 10; ++second) {
        firsts.insert(random_for(Use::noise, seed, first, second).next());
        firsts.insert(random_for(Use::order, seed, first, second).next());
      }
    }
  }
  CHECK(firsts.size() == 2000);
  Random random = random_for(Use::noise, 1);
  int counts[6] = {}, heads = 0;
  double sum = 0;
  for (int i = 0; i < 60'000; ++i) {
    ++counts[random.below(6)];
    heads += random.coin() ? 1 : 0;
    const double value = random.between(-1, 3);
    REQUIRE((value >= -1 && value < 3));
    sum += value;
  }
  for (const int count : counts) CHECK(std::abs(count - 10'000) < 500);
  CHECK(std::abs(heads - 30'000) < 700);
  CHECK(sum / 60'000 == Approx(1).margin(0.03));
}
