// A call of any collective, drawn at random, on one rank: its buffers, what goes in, and what must come out.
#pragma once

#include <cstdlib>
#include <memory>
#include <random>
#include <string>

#include "buffer.h"
#include "pattern.h"
#include "ranks.h"

namespace rondo::test {

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

  std::string text() const;
};

/// Count 0, 1, about the number of ranks or a prime; or, if `large`, a million bytes or more.
Case draw(std::mt19937& random, int ranks, bool large);

/// Where a case's input and output lie in its buffers, in elements.
struct Placement {
  std::size_t in_count;
  std::size_t out_count;
  std::size_t place = 0;  // in place: of the smaller one in the larger one
};

/// The operator of a case; made for it where it is a premultiplied sum, of a scalar at once or, in every second case,
/// of one that is read when the call runs.
class Op {
 public:
  Op(const Case& c, int rank, ncclComm_t comm);
  ~Op();
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;
  ncclRedOp_t get() const { return op_; }

 private:
  ncclComm_t comm_;
  ncclRedOp_t op_;
  std::uint64_t scalar_ = 0;
};

/// One case on one rank: its buffers, prepared for each call and looked at after it.
class CaseOnRank {
 public:
  CaseOnRank(const Case& c, int rank, int ranks, ncclComm_t comm);

  void prepare();
  ncclResult_t run(cudaStream_t queue);
  /// After a call: throws if a result or an input is wrong, or a byte beside them.
  void check();

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

}  // namespace rondo::test
