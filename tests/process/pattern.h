// Inputs whose results are exact in any order and in every element type, and the results they must give.
//
// Element i of rank r depends on a hash of i with 20 values, so that a block in the wrong place shows, and on r, so
// that a missing or doubled contribution shows.  All partial results are small integers, or such divided by a power
// of two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nccl.h"

namespace rondo::test {

inline constexpr ncclDataType_t types[] = {ncclInt8,    ncclUint8,    ncclInt32,      ncclUint32,
                                           ncclInt64,   ncclUint64,   ncclFloat16,    ncclFloat32,
                                           ncclFloat64, ncclBfloat16, ncclFloat8e4m3, ncclFloat8e5m2};
std::size_t bytes_of(ncclDataType_t type);
bool is_float(ncclDataType_t type);
/// The bits of a number that the type represents exactly, low bytes first.
std::uint64_t encode(ncclDataType_t type, double number);

/// What a rank contributes, and what must come out.  premul_sum: the rank's scalar is 1 + rank % 2.
enum class Kind : std::uint8_t { sum, prod, max, min, avg, premul_sum, move };

class Pattern {
 public:
  /// avg of floats needs a power of two ranks.
  Pattern(Kind kind, ncclDataType_t type, int ranks);
  /// Writes elements [first, first + count) of what `rank` contributes.
  void fill(void* data, int rank, std::size_t first, std::size_t count) const;
  /// Whether these are elements [first, ...) of the reduction, or of `rank`'s contribution; "" or what is wrong.
  std::string check_reduced(const void* data, std::size_t first, std::size_t count) const;
  std::string check_filled(const void* data, int rank, std::size_t first, std::size_t count) const;

 private:
  static constexpr int hashes = 20;
  using Row = std::vector<std::uint64_t>;  // bits by hash
  std::string check(const Row& row, const void* data, std::size_t first, std::size_t count) const;
  ncclDataType_t type_;
  std::vector<Row> given_;  // by rank
  Row reduced_;
};

}  // namespace rondo::test
