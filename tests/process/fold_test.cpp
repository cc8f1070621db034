// With RONDO_DETERMINISTIC=1 every reduction is the left fold over ranks 0 to n-1, to the bit: whatever the collective,
// root, size, memory, transport, hosts, lanes and threads.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "buffer.h"
#include "ranks.h"

namespace rondo::test {
namespace {

constexpr std::size_t count_max = 150'001;

/// What a rank gives: numbers whose sums round.
std::vector<float> given(int rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank));
  std::vector<float> values(count);
  for (float& value : values)
    value = std::ldexp(static_cast<float>(random() % 8191) - 4095.0f, int(random() % 24) - 12);
  return values;
}

std::vector<float> folded(int ranks, ncclRedOp_t op, std::size_t count) {
  std::vector<float> result;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<float> next = given(rank, count);
    for (std::size_t i = 0; i < count; ++i) {
      if (op == ncclAvg) next[i] *= 1.0f / static_cast<float>(ranks);
      if (rank > 0) next[i] += result[i];
    }
    result = std::move(next);
  }
  return result;
}

enum class Kind : std::uint8_t { all_reduce, reduce_scatter, reduce_to_first, reduce_to_middle, reduce_to_last };
constexpr Kind kinds[] = {Kind::all_reduce, Kind::reduce_scatter, Kind::reduce_to_first, Kind::reduce_to_middle,
                          Kind::reduce_to_last};

/// Elements of the whole that this rank gets: where they begin, and how many.
std::pair<std::size_t, std::size_t> share(Kind kind, int rank, int ranks, std::size_t count) {
  const int root = kind == Kind::reduce_to_first ? 0 : kind == Kind::reduce_to_middle ? ranks / 2 : ranks - 1;
  if (kind == Kind::all_reduce) return {0, count};
  if (kind == Kind::reduce_scatter) return {count / ranks * rank, count / ranks};
  return {0, rank == root ? count : 0};
}

ncclResult_t call(Kind kind, const void* in, void* out, std::size_t count, ncclRedOp_t op, ncclComm_t comm, int ranks) {
  switch (kind) {
    case Kind::all_reduce: return ncclAllReduce(in, out, count, ncclFloat, op, comm, nullptr);
    case Kind::reduce_scatter:
      return ncclReduceScatter(in, out, count / static_cast<std::size_t>(ranks), ncclFloat, op, comm, nullptr);
    case Kind::reduce_to_first: return ncclReduce(in, out, count, ncclFloat, op, 0, comm, nullptr);
    case Kind::reduce_to_middle: return ncclReduce(in, out, count, ncclFloat, op, ranks / 2, comm, nullptr);
    default: return ncclReduce(in, out, count, ncclFloat, op, ranks - 1, comm, nullptr);
  }
}

void check_all(int rank, int ranks, ncclComm_t comm) {
  for (const ncclRedOp_t op : {ncclSum, ncclAvg}) {
    const std::vector<float> mine = given(rank, count_max);
    const std::vector<float> whole = folded(ranks, op, count_max);
    for (const Kind kind : kinds) {
      for (std::size_t count : {std::size_t{1}, std::size_t{333}, std::size_t{9'000}, std::size_t{60'000}, count_max}) {
        if (kind == Kind::reduce_scatter) count += static_cast<std::size_t>(ranks) - count % ranks;
        if (count > count_max) count -= static_cast<std::size_t>(ranks);
        const bool mapped = (count + static_cast<std::size_t>(op)) % 2 != 0;
        const Buffer in(count * sizeof(float), mapped), out(count * sizeof(float), mapped);
        for (int repeat = 0; repeat < 2; ++repeat) {
          std::memcpy(in.data(), mine.data(), count * sizeof(float));
          expect_success(call(kind, in.data(), out.data(), count, op, comm, ranks), "a call");
          const auto [first, own] = share(kind, rank, ranks, count);
          if (std::memcmp(out.data(), whole.data() + first, own * sizeof(float)) != 0)
            throw std::runtime_error("kind " + std::to_string(int(kind)) + ", op " + std::to_string(op) + ", count " +
                                     std::to_string(count) + (mapped ? ", mapped" : "") + ": not the left fold");
        }
      }
    }
  }
}

/// Every rank's words of what is wrong, with these variables.
std::string run(int ranks, int hosts, const std::vector<std::pair<const char*, const char*>>& variables) {
  const Setting deterministic("RONDO_DETERMINISTIC", "1");
  std::vector<std::unique_ptr<Setting>> settings;
  for (const auto& [name, value] : variables) settings.push_back(std::make_unique<Setting>(name, value));
  const Shared<Meeting> meeting;
  return run_ranks(Ranks::processes, ranks, [&](int rank) {
    if (hosts > 1) ::setenv("NCCL_HOSTID", ("host-" + std::to_string(rank % hosts)).c_str(), 1);
    const ncclComm_t comm = meeting->join(0, rank, ranks);
    check_all(rank, ranks, comm);
    expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
  });
}

TEST_CASE("a deterministic reduction is the left fold, whatever carries it") {
  for (const int ranks : {2, 3, 5}) {
    INFO(ranks << " ranks");
    CHECK(run(ranks, 1, {}) == "");
    CHECK(run(ranks, 1, {{"RONDO_TRANSPORT", "tcp"}}) == "");
    CHECK(run(ranks, 2, {}) == "");
    CHECK(run(ranks, 1, {{"NCCL_MIN_NCHANNELS", "3"}, {"RONDO_LANE_BYTES", "1"}, {"RONDO_NTHREADS", "2"}}) == "");
  }
}

TEST_CASE("and a ring is not, so that the comparison can fail") {
  const Setting algorithm("NCCL_ALGO", "ring");
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 3, [&](int rank) {
    const ncclComm_t comm = meeting->join(0, rank, 3);
    check_all(rank, 3, comm);
    expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
  });
  CHECK_THAT(trouble, Catch::Contains("not the left fold"));
}

}  // namespace
}  // namespace rondo::test
