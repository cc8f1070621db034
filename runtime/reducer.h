// The interface of reduction kernels: one pass over one slice, 1..n sources in a defined order, 1..n targets.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace rondo {

/// What one run reduces.  Fixed for the run, the same on every rank except `scalar`.
struct Reduction {
  DataType type = DataType::float32;
  Operator op = Operator::sum;
  int ranks = 1;             // avg: floats multiply each raw operand by 1/ranks, integers divide the finished sum
  std::uint64_t scalar = 0;  // premul_sum: the bits of this rank's scalar, in `type`, low bytes first; products round
                             // to `type`, as where they travel
};

/// One operand.  `raw` data are elements of some rank's `in`: the pre-operator (avg on floats, premul_sum) applies.
struct Source {
  const std::byte* data = nullptr;
  bool raw = false;
};

/// Reduces `elements` elements of each source, left to right, and stores the result to every target; `finish` applies
/// the post-operator (avg on integers).  One source means copy (with pre- and post-operator).  Any alignment; a target
/// may be exactly a source, and must not overlap one otherwise; never reads or writes a byte outside.  Integers wrap;
/// for min and max NaN propagates and -0 < +0; 16- and 8-bit floats accumulate in float32 in the call, and round once.
using ReduceFunction = void (*)(const Reduction& reduction, const Source* sources, int source_count,
                                std::byte* const* targets, int target_count, std::size_t elements,
                                bool finish) noexcept;

/// A set of kernels.
class Reducer {
 public:
  virtual ~Reducer() = default;
  /// The kernel for a type and operator; never null.  Resolve once per call, not once per slice.
  virtual ReduceFunction find(DataType type, Operator op) const noexcept = 0;
};

}  // namespace rondo
