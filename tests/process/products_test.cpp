// Every collective, algorithm, type and operator, with few and many ranks, elements and kinds of memory: exact results,
// nothing written outside the buffers, inputs kept.  Cases are drawn by a seed that every rank shares.
//
// PRODUCTS_SEEDS: how many seeds (1).  PRODUCTS_RANKS_MAX: of the processes (9).  PRODUCTS_HOSTS: over how many hosts,
// by NCCL_HOSTID and in turns, the processes are spread (1); more than one: without the cases of one process.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "buffer.h"
#include "pattern.h"
#include "ranks.h"

namespace rondo::test {
namespace {

constexpr int repeats = 3;  // the first lend of a region is declined, the next ones are not

enum class Collective : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  gather,
  scatter,
  all_to_all,
};

/// One call, the same on every rank.
struct Case {
  Collective collective{};
  Kind kind = Kind::sum;
  ncclDataType_t type = ncclFloat32;
  std::size_t count = 0;
  int root = 0;
  bool in_place = false;
  unsigned memory = 0;  // bits 2r and 2r+1: whether in and out of rank r are ncclMemAlloc's

  std::string text() const {
    static constexpr const char* names[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                            "reduce",     "gather",         "scatter",    "all_to_all"};
    static constexpr const char* kinds[] = {"sum", "prod", "max", "min", "avg", "premul_sum", "move"};
    return std::string(names[static_cast<int>(collective)]) + " " + kinds[static_cast<int>(kind)] + " type " +
           std::to_string(type) + " count " + std::to_string(count) + " root " + std::to_string(root) +
           (in_place ? " in place" : "") + " memory " + std::to_string(memory);
  }
};

bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
         collective == Collective::reduce;
}

Case draw(std::mt19937& random, int ranks, bool large) {
  const auto pick = [&](unsigned below) { return random() % below; };
  Case c;
  const unsigned which = pick(10);  // most algorithms are all_reduce's
  c.collective = which < 8 ? static_cast<Collective>(which) : Collective::all_reduce;
  c.type = types[pick(12)];
  c.kind = reduces(c.collective) ? static_cast<Kind>(pick(6)) : Kind::move;
  const bool power_of_two = (ranks & (ranks - 1)) == 0;
  if (c.kind == Kind::avg && is_float(c.type) && !power_of_two) c.kind = Kind::sum;
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t counts[] = {0, 1, n - 1, n, n + 1, 7919};
  c.count = large ? 1'000'003 / (c.collective == Collective::all_reduce ? 1 : n) : counts[pick(6)];
  c.root = static_cast<int>(pick(static_cast<unsigned>(ranks)));
  c.in_place = pick(2) != 0 && c.collective != Collective::all_to_all;
  // All plain, all mapped, or mixed between ranks, and between in and out of a rank.
  const unsigned mode = pick(3);
  c.memory = mode == 0 ? 0 : mode == 1 ? ~0u : static_cast<unsigned>(random());
  return c;
}

/// Where a case's input and output lie in its buffers, in elements.
struct Placement {
  std::size_t in_count;
  std::size_t out_count;
  std::size_t place = 0;  // in place: of the smaller one in the larger one
};

Placement placement(const Case& c, int rank, int ranks) {
  const std::size_t all = static_cast<std::size_t>(ranks) * c.count;
  const std::size_t place = static_cast<std::size_t>(rank) * c.count;
  const bool root = rank == c.root;
  switch (c.collective) {
    case Collective::reduce_scatter: return {all, c.count, place};
    case Collective::all_gather: return {c.count, all, place};
    case Collective::reduce: return {c.count, root ? c.count : 0};
    case Collective::gather: return {c.count, root ? all : 0, root ? place : 0};
    case Collective::scatter: return {root ? all : 0, c.count, root ? place : 0};
    case Collective::all_to_all: return {all, all};
    default: return {c.count, c.count};
  }
}

ncclResult_t call(const Case& c, const void* in, void* out, ncclRedOp_t op, ncclComm_t comm, cudaStream_t queue) {
  switch (c.collective) {
    case Collective::all_reduce: return ncclAllReduce(in, out, c.count, c.type, op, comm, queue);
    case Collective::reduce_scatter: return ncclReduceScatter(in, out, c.count, c.type, op, comm, queue);
    case Collective::all_gather: return ncclAllGather(in, out, c.count, c.type, comm, queue);
    case Collective::reduce: return ncclReduce(in, out, c.count, c.type, op, c.root, comm, queue);
    case Collective::gather: return ncclGather(in, out, c.count, c.type, c.root, comm, queue);
    case Collective::scatter: return ncclScatter(in, out, c.count, c.type, c.root, comm, queue);
    case Collective::all_to_all: return ncclAlltoAll(in, out, c.count, c.type, comm, queue);
    default: return ncclBroadcast(in, out, c.count, c.type, c.root, comm, queue);
  }
}

/// The operator of a case; made for it where it is a premultiplied sum.
class Op {
 public:
  Op(const Case& c, int rank, ncclComm_t comm) : comm_(c.kind == Kind::premul_sum ? comm : nullptr) {
    static constexpr ncclRedOp_t builtin[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg, ncclSum, ncclSum};
    op_ = builtin[static_cast<int>(c.kind)];
    if (comm_ == nullptr) return;
    std::uint64_t scalar = encode(c.type, 1 + rank % 2);
    expect_success(ncclRedOpCreatePreMulSum(&op_, &scalar, c.type, ncclScalarHostImmediate, comm), "premul_sum");
  }
  ~Op() {
    if (comm_ != nullptr) ncclRedOpDestroy(op_, comm_);
  }
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;
  ncclRedOp_t get() const { return op_; }

 private:
  ncclComm_t comm_;
  ncclRedOp_t op_;
};

std::string check_result(const Case& c, const Pattern& pattern, const std::byte* out, int rank, int ranks) {
  const std::size_t own = static_cast<std::size_t>(rank) * c.count;
  switch (c.collective) {
    case Collective::reduce:
    case Collective::all_reduce: return pattern.check_reduced(out, 0, c.count);
    case Collective::reduce_scatter: return pattern.check_reduced(out, own, c.count);
    case Collective::broadcast: return pattern.check_filled(out, c.root, 0, c.count);
    case Collective::scatter: return pattern.check_filled(out, c.root, own, c.count);
    default:
      const std::size_t first = c.collective == Collective::all_to_all ? own : 0;
      for (int from = 0; from < ranks; ++from) {
        const auto* const block = out + static_cast<std::size_t>(from) * c.count * bytes_of(c.type);
        if (std::string wrong = pattern.check_filled(block, from, first, c.count); !wrong.empty()) {
          return "block of rank " + std::to_string(from) + ": " + wrong;
        }
      }
      return {};
  }
}

/// One case on one rank: its buffers, prepared for each call and looked at after it.
class CaseOnRank {
 public:
  CaseOnRank(const Case& c, int rank, int ranks, ncclComm_t comm)
      : case_(c),
        rank_(rank),
        ranks_(ranks),
        comm_(comm),
        placement_(placement(c, rank, ranks)),
        pattern_(c.kind, c.type, ranks),
        op_(c, rank, comm) {
    const std::size_t element = bytes_of(c.type);
    const bool in_mapped = (c.memory >> (2 * rank) & 1) != 0;
    const bool out_mapped = (c.memory >> (2 * rank + 1) & 1) != 0;
    if (c.in_place) {
      out_ = std::make_unique<Buffer>(std::max(placement_.in_count, placement_.out_count) * element, out_mapped);
      in_at_ = out_at_ = out_->data();
      (placement_.in_count > placement_.out_count ? out_at_ : in_at_) += placement_.place * element;
    } else {
      in_ = std::make_unique<Buffer>(placement_.in_count * element, in_mapped);
      out_ = std::make_unique<Buffer>(placement_.out_count * element, out_mapped);
      in_at_ = in_->data();
      out_at_ = out_->data();
    }
  }

  void prepare() {
    out_->scribble();
    pattern_.fill(in_at_, rank_, 0, placement_.in_count);
  }
  ncclResult_t run(cudaStream_t queue) { return call(case_, in_at_, out_at_, op_.get(), comm_, queue); }
  void check() {
    if (case_.count == 0) return;
    if (placement_.out_count > 0) fail_if(check_result(case_, pattern_, out_at_, rank_, ranks_));
    if (in_ != nullptr) {
      fail_if(pattern_.check_filled(in_at_, rank_, 0, placement_.in_count));
      in_->scribble();  // a blocking call that has returned leaves its buffers to the caller
    }
    out_->scribble();
    if (!out_->untouched_outside() || (in_ != nullptr && !in_->untouched_outside())) fail_if("bytes outside");
  }

 private:
  void fail_if(const std::string& wrong) const {
    if (!wrong.empty()) throw std::runtime_error(case_.text() + ": " + wrong);
  }
  const Case case_;
  int rank_;
  int ranks_;
  ncclComm_t comm_;
  Placement placement_;
  Pattern pattern_;
  Op op_;
  std::unique_ptr<Buffer> in_;
  std::unique_ptr<Buffer> out_;
  std::byte* in_at_ = nullptr;
  std::byte* out_at_ = nullptr;
};

void run_cases(unsigned seed, int cases, int rank, int ranks, ncclComm_t comm) {
  std::mt19937 random(seed);
  cudaStream_t queue = nullptr;
  expect_success(rondoStreamCreate(&queue), "rondoStreamCreate");
  for (int i = 0; i < cases; ++i) {
    const Case c = draw(random, ranks, i == 0);
    CaseOnRank here(c, rank, ranks, comm);
    const bool queued = i % 4 == 3;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      here.prepare();
      expect_success(here.run(queued ? queue : nullptr), c.text());
      if (queued) expect_success(rondoStreamSynchronize(queue), c.text());
      here.check();
    }
  }
  expect_success(rondoStreamDestroy(queue), "rondoStreamDestroy");
}

/// Every algorithm of every collective occurs.
constexpr const char* algorithms[] = {
    "",
    "ring",
    "allreduce:star;reducescatter:pat;allgather:halving_doubling;broadcast:binomial;reduce:binomial",
    "allreduce:tree;reducescatter:halving_doubling;allgather:pat;reduce:chain",
    "allreduce:one_shot;allgather:direct;gather:binomial;scatter:binomial;alltoall:bruck",
    "allreduce:two_shot;reducescatter:direct",
    "one_shot_pull",
    "two_shot_pull",
    "chain",
    "allreduce:recursive_doubling",
    "allreduce:halving_doubling",
    "hierarchical",
};

// How much a run covers; more in nightly, less where a sanitizer slows it.
int seeds() { return environment_number("PRODUCTS_SEEDS", 1); }
int cases() { return environment_number("PRODUCTS_CASES", 40); }
int hosts() { return environment_number("PRODUCTS_HOSTS", 1); }
int ranks_max() { return environment_number("PRODUCTS_RANKS_MAX", 9); }

void run_products(Ranks how, int ranks, unsigned seed, int cases) {
  for (const char* algorithm : algorithms) {
    ::setenv("NCCL_ALGO", algorithm, 1);  // for the children
    const Shared<Meeting> meeting;
    const std::string trouble = run_ranks(how, ranks, [&](int rank) {
      if (hosts() > 1) ::setenv("NCCL_HOSTID", ("host-" + std::to_string(rank % hosts())).c_str(), 1);
      const ncclComm_t comm = meeting->join(0, rank, ranks);
      run_cases(seed, cases, rank, ranks, comm);
      expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
    });
    ::unsetenv("NCCL_ALGO");
    INFO("NCCL_ALGO=" << algorithm << ", " << ranks << " ranks, seed " << seed);
    REQUIRE(trouble == "");
  }
}

TEST_CASE("collectives are exact between processes") {
  for (int seed = 1; seed <= seeds(); ++seed) {
    for (int ranks = 1; ranks <= ranks_max(); ++ranks) run_products(Ranks::processes, ranks, seed, cases() / 2);
  }
}

// From 2 KiB on (16 KiB between more than two ranks) up to 96 KiB a call has two programs, one of them for ranks whose
// memory is all mapped.
TEST_CASE("all-reduce is exact where ranks' memory suits different programs") {
  if (hosts() > 1) return;
  for (const int ranks : {2, 3, 5}) {
    const Shared<Meeting> meeting;
    const std::string trouble = run_ranks(Ranks::processes, ranks, [&](int rank) {
      const ncclComm_t comm = meeting->join(0, rank, ranks);
      std::mt19937 random(static_cast<unsigned>(ranks));
      const unsigned masks = 1u << (2 * ranks);
      for (unsigned i = 0; i < (ranks < 4 ? masks : 24); ++i) {
        Case c{Collective::all_reduce, i % 5 == 4 ? Kind::premul_sum : Kind::sum, ncclFloat32, 700, 0, i % 2 != 0, i};
        if (ranks > 2) c.count = 4500;
        c.count += random() % 1500;
        if (ranks > 3) c.memory = static_cast<unsigned>(random());
        CaseOnRank here(c, rank, ranks, comm);
        for (int repeat = 0; repeat < repeats; ++repeat) {
          here.prepare();
          expect_success(here.run(nullptr), c.text());
          here.check();
        }
      }
      expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
    });
    INFO(ranks << " ranks");
    REQUIRE(trouble == "");
  }
}

TEST_CASE("collectives are exact between threads") {
  if (hosts() > 1) return;
  for (int seed = 1; seed <= seeds(); ++seed) {
    for (const int ranks : {1, 2, 3, 5, 8}) {
      if (ranks <= ranks_max()) run_products(Ranks::threads, ranks, seed + 1000, cases() / 4);
    }
  }
}

TEST_CASE("collectives are exact between ranks of one thread, in groups") {
  if (hosts() > 1) return;
  for (int seed = 1; seed <= seeds(); ++seed) {
    for (const int ranks : {1, 2, 3, 4, 7}) {
      const std::string trouble = run_ranks(Ranks::processes, 1, [&](int) {
        std::vector<ncclComm_t> comms(static_cast<std::size_t>(ranks));
        expect_success(ncclCommInitAll(comms.data(), ranks, nullptr), "ncclCommInitAll");
        std::mt19937 random(static_cast<unsigned>(seed));
        for (int i = 0; i < cases(); ++i) {
          const Case c = draw(random, ranks, i == 0);
          std::vector<std::unique_ptr<CaseOnRank>> all;
          for (int rank = 0; rank < ranks; ++rank) {
            all.push_back(std::make_unique<CaseOnRank>(c, rank, ranks, comms[static_cast<std::size_t>(rank)]));
          }
          for (int repeat = 0; repeat < repeats; ++repeat) {
            for (auto& one : all) one->prepare();
            expect_success(ncclGroupStart(), "ncclGroupStart");
            for (auto& one : all) expect_success(one->run(nullptr), c.text());
            expect_success(ncclGroupEnd(), c.text());
            for (auto& one : all) one->check();
          }
        }
        for (const ncclComm_t comm : comms) expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
      });
      INFO(ranks << " ranks, seed " << seed);
      REQUIRE(trouble == "");
    }
  }
}

}  // namespace
}  // namespace rondo::test
