// Sums that round: all ranks hold the same bits, every time; and with RONDO_DETERMINISTIC=1 whatever the algorithm.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "pattern.h"
#include "ranks.h"

namespace rondo::test {
namespace {

constexpr int ranks = 5;
constexpr ncclDataType_t rounding[] = {ncclFloat16, ncclFloat32, ncclFloat64, ncclBfloat16, ncclFloat8e4m3};
constexpr ncclRedOp_t premul = ncclNumOps;  // stands for an operator of the run's own
constexpr ncclRedOp_t ops[] = {ncclSum, ncclProd, ncclAvg, premul};
constexpr std::size_t counts[] = {1, 333, 60'000};
constexpr std::size_t results = std::size(rounding) * std::size(ops) * std::size(counts);

struct Hashes {
  std::uint64_t of[ranks][results] = {};
};

std::uint64_t hash(const std::vector<unsigned char>& data) {
  std::uint64_t value = 14695981039346656037ull;
  for (const unsigned char byte : data) value = (value ^ byte) * 1099511628211ull;
  return value;
}

/// Random numbers near 1, of which every sum rounds: random bits in the mantissa.
std::vector<unsigned char> draw(ncclDataType_t type, std::size_t count, unsigned seed) {
  const std::size_t element = bytes_of(type);
  std::mt19937_64 random(seed);
  std::vector<unsigned char> data(count * element);
  const std::uint64_t one = encode(type, 1.0);
  const std::uint64_t mantissa = encode(type, 2.0) - one - 1;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = one | (random() & mantissa);
    std::memcpy(&data[i * element], &bits, element);
  }
  return data;
}

/// The hashes of all results with these algorithms; fails unless all ranks have the same.
std::vector<std::uint64_t> run(const char* algorithm, Ranks how) {
  ::setenv("NCCL_ALGO", algorithm, 1);
  const Shared<Meeting> meeting;
  const Shared<Hashes> hashes;
  const std::string trouble = run_ranks(how, ranks, [&](int rank) {
    const ncclComm_t comm = meeting->join(0, rank, ranks);
    std::size_t number = 0;
    for (const ncclDataType_t type : rounding) {
      for (const ncclRedOp_t op : ops) {
        for (const std::size_t count : counts) {
          std::vector<unsigned char> data = draw(type, count, static_cast<unsigned>(rank));
          ncclRedOp_t used = op;
          if (op == premul) {
            std::uint64_t scalar = encode(type, 1.0 + 0.25 * rank);
            const ncclResult_t made = ncclRedOpCreatePreMulSum(&used, &scalar, type, ncclScalarHostImmediate, comm);
            expect_success(made, "ncclRedOpCreatePreMulSum");
          }
          expect_success(ncclAllReduce(data.data(), data.data(), count, type, used, comm, nullptr), "a call");
          if (op == premul) expect_success(ncclRedOpDestroy(used, comm), "ncclRedOpDestroy");
          hashes->of[rank][number++] = hash(data);
        }
      }
    }
    expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
  });
  ::unsetenv("NCCL_ALGO");
  INFO("NCCL_ALGO=" << algorithm);
  REQUIRE(trouble == "");
  const std::vector<std::uint64_t> first(std::begin(hashes->of[0]), std::end(hashes->of[0]));
  for (std::size_t i = 0; i < results; ++i) {
    for (int rank = 1; rank < ranks; ++rank) {
      INFO("rank " << rank << ", type " << rounding[i / 12] << ", op " << ops[i / 3 % 4]);
      INFO("count " << counts[i % 3]);
      CHECK(hashes->of[rank][i] == first[i]);
    }
  }
  return first;
}

TEST_CASE("all ranks hold the same bits, run after run") {
  for (const char* algorithm : {"ring", "star", "one_shot", "two_shot", ""}) {
    const auto first = run(algorithm, Ranks::processes);
    REQUIRE(run(algorithm, Ranks::processes) == first);
    REQUIRE(run(algorithm, Ranks::threads) == first);
  }
}

TEST_CASE("with RONDO_DETERMINISTIC=1 every algorithm gives the same bits") {
  ::setenv("RONDO_DETERMINISTIC", "1", 1);
  std::set<std::vector<std::uint64_t>> distinct;
  for (const char* algorithm : {"star", "one_shot", "two_shot", ""}) distinct.insert(run(algorithm, Ranks::processes));
  ::unsetenv("RONDO_DETERMINISTIC");
  REQUIRE(distinct.size() == 1);
  // The inputs do round, else all this says nothing: a ring reduces in another order.
  REQUIRE(distinct.count(run("ring", Ranks::processes)) == 0);
}

TEST_CASE("the check of exact results can fail") {
  const Pattern pattern(Kind::sum, ncclFloat32, 4);
  std::vector<float> data(1000);
  for (std::size_t i = 0; i < data.size(); ++i) {
    for (int rank = 0; rank < 4; ++rank) {
      float one = 0;
      pattern.fill(&one, rank, i, 1);
      data[i] += one;
    }
  }
  REQUIRE(pattern.check_reduced(data.data(), 0, data.size()) == "");
  REQUIRE(pattern.check_reduced(data.data(), 64, data.size()) != "");
  data[999] += 1;
  REQUIRE(pattern.check_reduced(data.data(), 0, data.size()) != "");
  std::vector<float> missing(1000);
  pattern.fill(missing.data(), 1, 0, 1000);
  REQUIRE(pattern.check_reduced(missing.data(), 0, 1000) != "");
}

}  // namespace
}  // namespace rondo::test
