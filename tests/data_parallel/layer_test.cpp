// The data-parallel layer without a framework: what each kind of step leaves in the gradients.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "ranks.h"
#include "tools/trainer/data_parallel/replicas.h"

namespace {

const std::vector<std::string> none2(2);
const std::vector<std::string> none3(3);

/// Three vectors, of which each fills a bucket of its own with small buckets.
Model<float> three(float value) {
  Model<float> model;
  model.add("a", 1000, ncclFloat32, value);
  model.add("b", 3000, ncclFloat32, value);
  model.add("c", 10, ncclFloat32, value);
  return model;
}
dp::Options small() {
  dp::Options options;
  options.first_bucket_bytes = 64;
  options.bucket_cap_mb = 0.001;
  return options;
}
void give_all(dp::Layer& layer, float value, bool adding = false) {
  for (const std::size_t parameter : {2U, 1U, 0U}) give(layer, parameter, value, adding);
}
void expect_all(const dp::Layer& layer, float value, const std::string& what) {
  for (std::size_t i = 0; i < 3; ++i) expect(all_are(layer, i, value), what);
}

TEST_CASE("gradients become the mean, in buckets, and rank 0's values go to all") {
  for (const bool one_bucket : {true, false}) {
    CHECK(as_ranks(3, [&](int rank, ncclComm_t comm) {
            Model<float> model = three(static_cast<float>(rank + 5));
            Model<float> buffers;
            buffers.add("mean", 7, ncclFloat32, static_cast<float>(rank));
            dp::Layer layer(comm, model.parameters, buffers.parameters, one_bucket ? dp::Options() : small());
            for (const auto& values : model.values) expect((*values)[3] == 5, "rank 0's parameters");
            expect((*buffers.values[0])[6] == 0, "rank 0's buffers");
            for (int round = 0; round < 3; ++round) {
              layer.begin_step();
              give_all(layer, static_cast<float>(rank * 3 + round));
              const dp::Step step = layer.finish();
              expect_all(layer, static_cast<float>(3 + round), "the mean");
              expect(step.buckets.size() == (one_bucket ? 1U : 3U), "one bucket or three");
              for (const dp::BucketTime& time : step.buckets) {
                expect(time.ready <= time.start && time.start <= time.end && time.end <= step.finished, "an order");
              }
              (*buffers.values[0])[6] = static_cast<float>(round + rank);
              layer.after_update();
              expect((*buffers.values[0])[6] == static_cast<float>(round), "rank 0's buffers after a step");
            }
          }) == none3);
  }
}

TEST_CASE("buckets are laid out anew in rank 0's order and keep their contents") {
  CHECK(as_ranks(2, [](int rank, ncclComm_t comm) {
          Model<float> model = three(0);
          dp::Layer layer(comm, model.parameters, {}, small());
          for (int round = 0; round < 3; ++round) {
            layer.begin_step();
            const std::size_t first = rank == 0 ? 0 : 2;  // the ranks' orders differ; buckets keep one order
            give(layer, first, static_cast<float>(10 * first + 1));
            give(layer, 1, 11.0F);
            give(layer, 2 - first, static_cast<float>(10 * (2 - first) + 1));
            const float* before = gradient<float>(layer, 0);
            const dp::Step step = layer.finish();
            expect(step.rebuilt == (round == 0), "one change");
            expect((gradient<float>(layer, 0) != before) == step.rebuilt, "other memory");
            for (std::size_t i = 0; i < 3; ++i) expect(all_are(layer, i, static_cast<float>(10 * i + 1)), "the mean");
          }
        }) == none2);
}

TEST_CASE("gradients of several passes add up") {
  for (const bool quiet : {true, false}) {
    CHECK(as_ranks(2, [&](int rank, ncclComm_t comm) {
            Model<float> model = three(0);
            dp::Layer layer(comm, model.parameters, {}, small());
            for (int round = 0; round < 2; ++round) {
              layer.zero_gradients();
              if (quiet) {
                const auto pause = layer.no_sync();
                give_all(layer, static_cast<float>(rank), true);
                expect_all(layer, static_cast<float>(rank), "this rank's own gradient");
              } else {
                give_all(layer, static_cast<float>(rank), true);
                layer.finish();
                expect_all(layer, 0.5F, "the mean of the first pass");
              }
              give_all(layer, static_cast<float>(4 * rank), true);
              layer.finish();
              expect_all(layer, 2.5F, "the mean of the sum");
            }
          }) == none2);
  }
}

TEST_CASE("a sum adds, and refuses a pass after its end") {
  const auto errors = as_ranks(2, [](int rank, ncclComm_t comm) {
    Model<float> model = three(0);
    dp::Options options = small();
    options.reduction = dp::Reduction::sum;
    dp::Layer layer(comm, model.parameters, {}, options);
    layer.begin_step();
    give_all(layer, static_cast<float>(rank + 1));
    layer.finish();
    expect_all(layer, 3, "the sum");
    layer.ready(0);
  });
  for (const std::string& error : errors) CHECK_THAT(error, Catch::Contains("reduced already"));
}

TEST_CASE("unused parameters are named on every rank before the update") {
  for (const auto mode : {dp::Mode::all_reduce, dp::Mode::server}) {
    const auto errors = as_ranks(3, [&](int rank, ncclComm_t comm) {
      Model<float> model = three(0);
      dp::Options options = small();
      options.mode = mode;
      dp::Layer layer(comm, model.parameters, {}, options);
      layer.begin_step();
      give(layer, 0, 1.0F);
      if (rank != 1) give(layer, 1, 1.0F);
      give(layer, 2, 1.0F);
      try {
        layer.finish();
      } catch (const dp::Error& error) {
        layer.begin_step();  // the layer is whole
        give_all(layer, 2.0F);
        layer.finish();
        if (layer.updates()) expect_all(layer, 2, "the mean of the next step");
        throw;
      }
    });
    CHECK_THAT(errors[0], Catch::StartsWith("no gradient in this step for 'b' on another rank"));
    CHECK_THAT(errors[1], Catch::StartsWith("no gradient in this step for 'b' here"));
    CHECK_THAT(errors[2], Catch::StartsWith("no gradient in this step for 'b' on another rank"));
  }
}

TEST_CASE("a parameter that some rank used in some pass is reduced") {
  for (const auto mode : {dp::Mode::all_reduce, dp::Mode::server}) {
    CHECK(as_ranks(2, [&](int rank, ncclComm_t comm) {
            Model<float> model = three(0);
            dp::Options options = small();
            options.find_unused_parameters = true;
            options.mode = mode;
            dp::Layer layer(comm, model.parameters, {}, options);
            for (int round = 0; round < 3; ++round) {
              layer.begin_step();
              for (std::size_t i = 0; i < 3; ++i) {
                for (std::size_t j = 0; j < layer.gradient(i).size() / 4; ++j) gradient<float>(layer, i)[j] = -77;
              }
              {
                const auto pause = layer.no_sync();
                if (rank == 1) give(layer, 1, 8.0F);
              }
              layer.absent(2);
              give(layer, 0, 2.0F);
              layer.finish();
              expect(layer.used(0) && layer.used(1) && !layer.used(2), "a and b used");
              if (!layer.updates()) continue;
              expect(all_are(layer, 0, 2.0F), "a's mean");
              expect(all_are(layer, 1, 4.0F), "b's mean with nothing from rank 0");
              expect(all_are(layer, 2, 0.0F), "zeros for c");
            }
          }) == none2);
  }
}

TEST_CASE("a gradient that is ready twice is an error") {
  const auto errors = as_ranks(1, [](int, ncclComm_t comm) {
    Model<float> model = three(0);
    dp::Layer layer(comm, model.parameters, {}, small());
    layer.begin_step();
    layer.ready(1);
    layer.ready(1);
  });
  CHECK_THAT(errors[0], Catch::StartsWith("the gradient of 'b' became ready twice"));
}

TEST_CASE("ranks with unequal inputs weigh by their samples") {
  CHECK(as_ranks(3, [](int rank, ncclComm_t comm) {
          Model<float> model = three(0);
          Model<float> buffers;
          buffers.add("mean", 1, ncclFloat32, 0);
          dp::Layer layer(comm, model.parameters, buffers.parameters, small());
          // Batches: rank 0 has one of 4 samples, rank 1 three of 4, rank 2 two of 4 and one of 1.
          const std::vector<std::vector<double>> batches{{4, 0, 0}, {4, 4, 4}, {4, 4, 1}};
          const std::vector<double> sums{12, 8, 5};
          int steps = 0;
          for (;; ++steps) {
            const double mine =
                steps < 3 ? batches[static_cast<std::size_t>(rank)][static_cast<std::size_t>(steps)] : 0;
            const double sum = layer.join(mine);
            if (sum == 0) break;
            expect(sum == sums[static_cast<std::size_t>(steps)], "the samples of all");
            layer.begin_step();
            if (mine > 0) give_all(layer, static_cast<float>(rank * 10));
            layer.finish();
            const std::vector<float> means{10, 15, 12};  // (10+0+20)/3, (10+20)/2, (4*10+1*20)/5
            expect_all(layer, means[static_cast<std::size_t>(steps)], "the weighted mean");
            (*buffers.values[0])[0] = static_cast<float>(rank);
            layer.after_update();
            expect((*buffers.values[0])[0] == (steps == 0 ? 0.0F : 1.0F), "buffers of the first rank with input");
          }
          expect(steps == 3, "three steps");
        }) == none3);
}

TEST_CASE("the norm of gradients is clipped alike") {
  CHECK(as_ranks(2, [](int rank, ncclComm_t comm) {
          Model<float> model;
          model.add("a", 9, ncclFloat32, 0);
          model.add("b", 16, ncclFloat32, 0);
          dp::Layer layer(comm, model.parameters, {}, small());
          layer.begin_step();
          give(layer, 1, static_cast<float>(2 * rank));
          give(layer, 0, 1.0F);
          layer.finish();
          expect(layer.clip(std::numeric_limits<double>::infinity()) == 5, "a norm of 5");
          expect(layer.clip(10) == 5 && all_are(layer, 0, 1.0F), "gradients below the limit as they were");
          expect(layer.clip(2.5) == 5, "a norm of 5 before it is clipped");
          expect(all_are(layer, 0, 0.5F) && all_are(layer, 1, 0.5F), "half of it");
        }) == none2);
}

TEST_CASE("ranks that drift apart are named") {
  const auto errors = as_ranks(3, [](int rank, ncclComm_t comm) {
    Model<float> model = three(1);
    dp::Options options = small();
    options.check_every = 2;
    dp::Layer layer(comm, model.parameters, {}, options);
    layer.after_update();
    layer.after_update();
    if (rank == 2) (*model.values[1])[2999] = std::nextafter(1.0F, 2.0F);
    layer.after_update();  // not looked at
    expect(true, "to come here");
    layer.after_update();
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error,
               Catch::StartsWith("the ranks have drifted apart: 'b' float32[3000] differs from rank 0 on rank 2"));
  }
}

TEST_CASE("a server averages and sends the parameters") {
  CHECK(as_ranks(3, [](int rank, ncclComm_t comm) {
          Model<float> model = three(0);
          model.add("large", 100'000, ncclFloat32, 0);
          dp::Options options = small();
          options.mode = dp::Mode::server;
          dp::Layer layer(comm, model.parameters, {}, options);
          expect(layer.updates() == (rank == 0), "rank 0 to update");
          for (int round = 1; round <= 2; ++round) {
            layer.begin_step();
            give(layer, 3, static_cast<float>(3 * rank));
            give_all(layer, static_cast<float>(3 * rank));
            layer.finish();
            if (layer.updates()) {
              for (std::size_t i = 0; i < 4; ++i) {
                for (float& value : *model.values[i]) value += gradient<float>(layer, i)[0];
              }
            }
            layer.after_update();
            for (const auto& values : model.values)
              expect(values->back() == static_cast<float>(3 * round), "the update");
          }
          layer.check_agreement();
        }) == none3);
}

TEST_CASE("replicas: a batch is scattered, and a failure in the middle of a pass ends all with its words") {
  std::vector<char> wrong(3, 1);
  dp::run_replicas(3, [&](int rank, ncclComm_t comm) {
    const std::vector<int> whole{10, 11, 20, 21, 30, 31};
    std::vector<int> part(2);
    dp::scatter(comm, rank == 0 ? whole.data() : nullptr, part.data(), 2 * sizeof(int));
    wrong[static_cast<std::size_t>(rank)] = part == std::vector<int>{10 * rank + 10, 10 * rank + 11} ? 0 : 1;
  });
  CHECK(wrong == std::vector<char>(3, 0));
  CHECK_THROWS_WITH(dp::run_replicas(2,
                                     [](int rank, ncclComm_t comm) {
                                       Model<float> model = three(0);
                                       dp::Layer layer(comm, model.parameters, {}, small());
                                       layer.begin_step();
                                       give(layer, 2, 1.0F);
                                       if (rank == 1) throw std::runtime_error("a loss that is not a number");
                                       give(layer, 1, 1.0F);
                                       give(layer, 0, 1.0F);
                                       layer.finish();
                                     }),
                    "a loss that is not a number");
}

}  // namespace
