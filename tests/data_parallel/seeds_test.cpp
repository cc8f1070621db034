// The data-parallel layer under seeds: models, buckets, orders of arrival, users of parameters and passes are drawn,
// and each gradient is compared with what plain arithmetic gives.  There are 1, 2 or 4 ranks, and values are small
// integers: all means are exact.  DATA_PARALLEL_SEEDS says how many seeds run; a failure names its seed.
#define CATCH_CONFIG_MAIN
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <numeric>
#include <random>

#include "ranks.h"

namespace {

using Random = std::mt19937;

int draw(Random& random, int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }

/// What all ranks know of a run.  Drawn alike on every rank.
struct Scene {
  int ranks = 2;
  std::vector<dp::Parameter> parameters;
  dp::Options options;
  int steps = 0;

  explicit Scene(unsigned seed) {
    Random random(seed);
    ranks = 1 << draw(random, 0, 2);
    const int count = draw(random, 1, 12);
    for (int i = 0; i < count; ++i) {
      dp::Parameter parameter;
      parameter.name = "p" + std::to_string(i);
      parameter.type = draw(random, 0, 3) == 0 ? ncclFloat64 : ncclFloat32;
      parameter.shape = {draw(random, 0, 9) == 0 ? 0 : draw(random, 1, 3000)};
      parameter.trainable = i == 0 || draw(random, 0, 6) != 0;
      parameters.push_back(parameter);
    }
    options.find_unused_parameters = true;
    options.first_bucket_bytes = static_cast<std::size_t>(draw(random, 1, 8000));
    options.bucket_cap_mb = draw(random, 1, 40) / 1024.0;
    options.rebuild = draw(random, 0, 3) != 0;
    if (draw(random, 0, 3) == 0) options.mode = dp::Mode::server;
    if (draw(random, 0, 3) == 0) options.reduction = dp::Reduction::sum;
    steps = draw(random, 2, 5);
  }
  bool may_finish_each() const {
    return options.mode == dp::Mode::all_reduce && options.reduction == dp::Reduction::mean;
  }
};

/// One rank's passes of one step: the value that each parameter gets, or 0 for a pass that does not use it.
using Passes = std::vector<std::vector<int>>;
Passes passes_of(const Scene& scene, unsigned seed, int step, int rank) {
  Random shape(seed * 1000 + static_cast<unsigned>(step));
  const int count = draw(shape, 1, 3);
  Random random(seed * 100'000 + static_cast<unsigned>(step * 100 + rank));
  Passes passes;
  for (int pass = 0; pass < count; ++pass) {
    passes.emplace_back();
    for (const dp::Parameter& parameter : scene.parameters) {
      const bool uses = parameter.trainable && draw(random, 0, 3) != 0;
      passes.back().push_back(uses ? scene.ranks * draw(random, 1, 50) : 0);
    }
  }
  return passes;
}

template <class Element>
void add(dp::Layer& layer, std::size_t parameter, int value, bool first) {
  const std::size_t count = layer.gradient(parameter).size() / sizeof(Element);
  Element* elements = gradient<Element>(layer, parameter);
  for (std::size_t i = 0; i < count; ++i) elements[i] = static_cast<Element>(value) + (first ? 0 : elements[i]);
  layer.ready(parameter);
}

/// Backward of one pass, in an order of this rank's own.
void run_pass(dp::Layer& layer, const Scene& scene, const std::vector<int>& values, std::vector<char>& seen,
              Random& random) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  for (const std::size_t i : order) {
    if (values[i] == 0) {
      if (scene.parameters[i].trainable && draw(random, 0, 1) == 0) layer.absent(i);
      continue;
    }
    if (scene.parameters[i].type == ncclFloat64) {
      add<double>(layer, i, values[i], seen[i] == 0);
    } else {
      add<float>(layer, i, values[i], seen[i] == 0);
    }
    seen[i] = 1;
  }
}

/// Compares a step's gradients; `error` is added to what is expected, for the canary.
void check_step(const dp::Layer& layer, const Scene& scene, unsigned seed, int step, int error) {
  for (std::size_t i = 0; i < scene.parameters.size(); ++i) {
    if (!scene.parameters[i].trainable) continue;
    int sum = 0;
    for (int rank = 0; rank < scene.ranks; ++rank) {
      for (const auto& pass : passes_of(scene, seed, step, rank)) sum += pass[i];
    }
    expect(layer.used(i) == (sum > 0), "users of " + scene.parameters[i].name);
    const int value = (scene.options.reduction == dp::Reduction::sum ? sum : sum / scene.ranks) + error;
    if (!layer.updates()) continue;
    const bool right = scene.parameters[i].type == ncclFloat64 ? all_are(layer, i, static_cast<double>(value))
                                                               : all_are(layer, i, static_cast<float>(value));
    expect(right, std::to_string(value) + " for " + scene.parameters[i].name + " in step " + std::to_string(step));
  }
}

std::vector<std::string> run_seed(unsigned seed, int error = 0) {
  const Scene scene(seed);
  return as_ranks(scene.ranks, [&](int rank, ncclComm_t comm) {
    std::vector<dp::Parameter> parameters = scene.parameters;
    std::vector<double> memory(3000);
    for (dp::Parameter& parameter : parameters) parameter.values = memory.data();
    dp::Layer layer(comm, parameters, {}, scene.options);
    Random random(seed + 77U * static_cast<unsigned>(rank));
    for (int step = 0; step < scene.steps; ++step) {
      layer.begin_step();
      const Passes passes = passes_of(scene, seed, step, rank);
      std::vector<char> seen(parameters.size(), 0);
      const bool each = scene.may_finish_each() && (seed + static_cast<unsigned>(step)) % 2 == 0;
      for (std::size_t pass = 0; pass + 1 < passes.size(); ++pass) {
        if (each) {
          run_pass(layer, scene, passes[pass], seen, random);
          layer.finish();
          for (std::size_t i = 0; i < seen.size(); ++i) seen[i] = layer.used(i) ? 1 : 0;
        } else {
          const auto pause = layer.no_sync();
          run_pass(layer, scene, passes[pass], seen, random);
        }
      }
      run_pass(layer, scene, passes.back(), seen, random);
      layer.finish();
      if (rank == 0 || error == 0) check_step(layer, scene, seed, step, error);
      layer.after_update();
    }
  });
}

TEST_CASE("seeds") {
  const char* wanted = std::getenv("DATA_PARALLEL_SEEDS");
  const unsigned seeds = wanted != nullptr ? static_cast<unsigned>(std::atoi(wanted)) : 30;
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    for (const std::string& error : run_seed(seed)) REQUIRE(error == "");
  }
}

TEST_CASE("the canary: a wrong mean is noticed") {
  unsigned seed = 1;
  while (Scene(seed).ranks != 1) ++seed;
  CHECK_THAT(run_seed(seed, 1)[0], Catch::StartsWith("expected "));
}

}  // namespace
