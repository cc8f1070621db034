// Models that differ between ranks, mixed types, gradients that travel in 16 bits, several layers, arithmetic.
#define CATCH_CONFIG_MAIN
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "ranks.h"
#include "tools/trainer/data_parallel/buckets.h"
#include "tools/trainer/data_parallel/numbers.h"

namespace {

const std::vector<std::string> none2(2);

dp::Parameter vector_of(const std::string& name, std::int64_t count, std::vector<float>& memory,
                        ncclDataType_t type = ncclFloat32) {
  memory.resize(static_cast<std::size_t>(count) * 2);
  return {name, type, {count}, {}, memory.data(), true};
}

/// What three ranks say of models of which rank 2's is changed by `change`.
std::vector<std::string> differing(const std::function<void(std::vector<dp::Parameter>&, dp::Options&)>& change) {
  return as_ranks(3, [&](int rank, ncclComm_t comm) {
    std::vector<float> first;
    std::vector<float> second;
    std::vector<dp::Parameter> parameters{vector_of("first", 4, first), vector_of("second", 5, second)};
    dp::Options options;
    if (rank == 2) change(parameters, options);
    const dp::Layer layer(comm, parameters, {}, options);
  });
}

void check_all(const std::vector<std::string>& errors, const std::string& sentence) {
  for (const std::string& error : errors) {
    CHECK(error == "the ranks do not train the same model: " + sentence);
  }
}

TEST_CASE("the first difference between models is named on every rank") {
  check_all(differing([](auto& parameters, auto&) { parameters[1].name = "zweiter"; }),
            "parameter 'second' float32[5] on rank 0 is parameter 'zweiter' float32[5] on rank 2");
  check_all(differing([](auto& parameters, auto&) {
              parameters[0].shape = {2, 2};
            }),
            "parameter 'first' float32[4] on rank 0 is parameter 'first' float32[2, 2] on rank 2");
  check_all(differing([](auto& parameters, auto&) { parameters[1].type = ncclFloat16; }),
            "parameter 'second' float32[5] on rank 0 is parameter 'second' float16[5] on rank 2");
  check_all(differing([](auto& parameters, auto&) { parameters.pop_back(); }),
            "parameter 'second' float32[5] on rank 0 is missing on rank 2");
  const auto errors = differing([](auto&, auto& options) { options.bucket_cap_mb = 5; });
  for (const std::string& error : errors) CHECK_THAT(error, Catch::Contains("bucket_cap_mb=5.0"));
}

TEST_CASE("buckets hold one type each and stand in the order in which they close") {
  std::vector<dp::Parameter> parameters;
  const auto add = [&](ncclDataType_t type, std::int64_t count) {
    parameters.push_back({"p", type, {count}, {}, nullptr, true});
  };
  add(ncclFloat32, 100);   // 400 -> 448 bytes
  add(ncclFloat64, 100);   // 800 -> 832
  add(ncclFloat32, 1000);  // 4000 -> 4032
  add(ncclBfloat16, 3);
  add(ncclFloat32, 1);
  dp::Options options;
  options.first_bucket_bytes = 400;
  options.bucket_cap_mb = 0.0041;  // 4299 bytes
  const std::vector<std::size_t> order{0, 1, 2, 3, 4};
  const dp::BucketPlan plan = plan_buckets(parameters, order, options);
  REQUIRE(plan.buckets.size() == 4);
  CHECK(plan.buckets[0].parameters == std::vector<std::size_t>{0});
  CHECK(plan.buckets[1].parameters == std::vector<std::size_t>{1});
  CHECK(plan.buckets[2].parameters == std::vector<std::size_t>{3});
  CHECK(plan.buckets[3].parameters == std::vector<std::size_t>{2, 4});
  CHECK(plan.buckets[1].type == ncclFloat64);
  CHECK(plan.places[4].offset_bytes == plan.places[2].offset_bytes + 4032);
  std::size_t end = 0;
  for (const dp::Bucket& bucket : plan.buckets) {
    CHECK(bucket.offset_bytes == end);
    end += bucket.elements * (bucket.type == ncclFloat64 ? 8 : bucket.type == ncclFloat32 ? 4 : 2);
  }
  CHECK(end == plan.bytes);
  CHECK(plan.bytes - plan.flags_offset_bytes == 64);  // 10 flags of 4 bytes
}

TEST_CASE("types mix, and layers share a communicator") {
  CHECK(as_ranks(2, [](int rank, ncclComm_t comm) {
          Model<double> doubles;
          doubles.add("wide", 50, ncclFloat64, 1);
          Model<std::uint16_t> halves;
          halves.add("narrow", 60, ncclBfloat16, 0x3f80);
          std::vector<dp::Parameter> both{doubles.parameters[0], halves.parameters[0]};
          Model<float> other;
          other.add("other", 70, ncclFloat32, 1);
          dp::Layer mixed(comm, both, {}, {});
          dp::Layer second(comm, other.parameters, {}, {});
          for (int round = 0; round < 2; ++round) {
            mixed.begin_step();
            second.begin_step();
            give(mixed, 0, 1.0 + 1e-9 * rank);
            give<std::uint16_t>(mixed, 1, rank == 0 ? 0x3f80 : 0x4040);  // 1 and 3
            mixed.finish();
            give(second, 0, static_cast<float>(rank));
            second.finish();
            expect(std::abs(gradient<double>(mixed, 0)[49] - (1 + 5e-10)) < 1e-15, "the mean in float64");
            expect(all_are<std::uint16_t>(mixed, 1, 0x4000), "2 in bfloat16");
            expect(all_are(second, 0, 0.5F), "the other model's mean");
          }
        }) == none2);
}

TEST_CASE("gradients travel in 16 bits and arrive with the same bits everywhere") {
  for (const auto mode : {dp::Mode::all_reduce, dp::Mode::server}) {
    for (const auto wire : {dp::WireType::fp16, dp::WireType::bf16}) {
      std::vector<std::vector<float>> results(3);
      CHECK(as_ranks(3, [&](int rank, ncclComm_t comm) {
              Model<float> model;
              model.add("a", 5000, ncclFloat32, 0);
              dp::Options options;
              options.wire_type = wire;
              options.mode = mode;
              dp::Layer layer(comm, model.parameters, {}, options);
              layer.begin_step();
              for (int i = 0; i < 5000; ++i) gradient<float>(layer, 0)[i] = std::sin(static_cast<float>(i + rank));
              layer.ready(0);
              const dp::Step step = layer.finish();
              expect(step.buckets[0].bytes < 2 * 5100, "half the bytes");
              if (layer.updates()) {
                results[static_cast<std::size_t>(rank)].assign(gradient<float>(layer, 0),
                                                               gradient<float>(layer, 0) + 5000);
              }
            }) == std::vector<std::string>(3));
      if (mode == dp::Mode::all_reduce) {
        CHECK(results[1] == results[0]);
        CHECK(results[2] == results[0]);
      }
      const float tolerance = wire == dp::WireType::fp16 ? 2e-3F : 1.6e-2F;  // 2 roundings of 2^-11, 2^-8
      float worst = 0;
      for (int i = 0; i < 5000; ++i) {
        const auto at = [&](int rank) { return std::sin(static_cast<float>(i + rank)); };
        worst = std::max(worst, std::abs(results[0][static_cast<std::size_t>(i)] - (at(0) + at(1) + at(2)) / 3));
      }
      CHECK(worst < tolerance);
      CHECK(worst > 1e-5F);  // it did travel narrow
    }
  }
}

TEST_CASE("copies past the caches copy, and nothing besides") {
  const std::size_t large = 300 << 10;
  std::vector<unsigned char> source(large + 200);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<unsigned char>(i * 7 + i / 251);
  std::vector<unsigned char> memory(large + 400);
  const std::size_t aligned = 64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{100}, large, large + 1, large + 63}) {
    for (const std::size_t from : {0, 5}) {
      for (const std::size_t to : {aligned, aligned + 3}) {
        std::fill(memory.begin(), memory.end(), 0xee);
        dp::copy_past_caches(memory.data() + to, source.data() + from, bytes);
        CHECK(std::memcmp(memory.data() + to, source.data() + from, bytes) == 0);
        CHECK(memory[to - 1] == 0xee);
        CHECK(memory[to + bytes] == 0xee);
      }
    }
  }
}

TEST_CASE("16-bit conversions round to nearest even and know all values") {
  for (const ncclDataType_t type : {ncclFloat16, ncclBfloat16}) {
    std::vector<std::uint16_t> every(65536);
    for (std::size_t i = 0; i < every.size(); ++i) every[i] = static_cast<std::uint16_t>(i);
    std::vector<float> wide(every.size());
    std::vector<std::uint16_t> back(every.size());
    dp::convert(every.data(), type, wide.data(), ncclFloat32, every.size(), 1);
    dp::convert(wide.data(), ncclFloat32, back.data(), type, wide.size(), 1);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < every.size(); ++i) {
      std::uint16_t one = 0;
      float alone = 0;
      dp::convert(&every[i], type, &alone, ncclFloat32, 1, 1);  // one element takes the portable way
      dp::convert(&alone, ncclFloat32, &one, type, 1, 1);
      if (std::isnan(wide[i])) {
        wrong += std::isnan(alone) ? 0 : 1;
      } else {
        wrong += back[i] != every[i] || one != every[i] ? 1 : 0;
        wrong += std::bit_cast<std::uint32_t>(wide[i]) != std::bit_cast<std::uint32_t>(alone) ? 1 : 0;
      }
    }
    CHECK(wrong == 0);
    // Between two neighbours: below, at and above the middle.
    std::uint32_t seed = 1;
    std::vector<float> random(100'000);
    for (float& value : random) {
      seed = seed * 1664525U + 1013904223U;
      value = std::bit_cast<float>((seed & 0x8fffffffU) + 0x30000000U);
    }
    std::vector<std::uint16_t> together(random.size());
    dp::convert(random.data(), ncclFloat32, together.data(), type, random.size(), 1);
    for (std::size_t i = 0; i < random.size(); ++i) {
      std::uint16_t one = 0;
      dp::convert(&random[i], ncclFloat32, &one, type, 1, 1);
      if (one == together[i]) continue;
      ++wrong;
    }
    CHECK(wrong == 0);
  }
}

}  // namespace
