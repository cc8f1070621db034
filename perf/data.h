// The data of a measurement: inputs whose result is exactly representable in every element type, for every operator and
// in any order of reduction, so that a right result equals the expected one bit for bit.
//
// How: sums are of integers so small that no partial sum needs more digits than the type has (with many ranks and a
// narrow type, only a few ranks hold a one at any place); products are of ones and at most four twos.  The one
// exception is the average of floating types over a number of ranks that is no power of two: 1/n is rounded, one rank
// holds a value, and two units in the last place are allowed.  Values repeat with a period that is prime and no power
// of two away from a multiple of itself, so that displaced blocks show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/nccl.h"

namespace rondo::perf {

struct Type {
  std::string_view name;  // nccl-tests'
  ncclDataType_t value;
  std::size_t bytes;
};
std::span<const Type> types();

enum class Op { sum, prod, min, max, avg, mulsum, none };  // none: data move unchanged

struct NamedOp {
  std::string_view name;  // nccl-tests'
  Op op;
};
std::span<const NamedOp> ops();
std::string_view name(Op op);

/// What mulsum multiplies the data of `rank` with.
int scalar_of(int rank);
/// Writes `value`, rounded to the nearest of the type's values; it must be within the type's range.
void encode(const Type& type, double value, std::byte* at);

inline constexpr std::size_t period = 8191;  // elements; prime, and 2^k is never 0 modulo it

/// One period of elements, and how far a result may be from it (in units in the last place).
struct Pattern {
  std::vector<std::byte> elements;
  std::size_t element_bytes = 1;
  int tolerance = 0;
};
Pattern input_of(const Type& type, Op op, int rank, int ranks);
/// The reduction of all ranks' inputs.
Pattern result_of(const Type& type, Op op, int ranks);

/// Writes elements [first, first + count) of the endless repetition of the pattern.
void fill(const Pattern& pattern, std::size_t first, std::byte* target, std::size_t count);
/// How many of the `count` elements at `data` are not elements [first, first + count) of the pattern.
std::uint64_t count_wrong(const Pattern& pattern, std::size_t first, const std::byte* data, std::size_t count);
/// A digest of bytes: equal bytes give equal digests, different ones almost surely different digests.
std::uint64_t digest(const std::byte* data, std::size_t bytes);

}  // namespace rondo::perf
