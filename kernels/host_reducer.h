// The reduction kernels for host memory: every type and operator of base/types.h under the contract of reducer.h.
//
// The bits of a result do not depend on the instruction set, nor on where an element lies in its slice (but for which
// NaN a sum of several NaNs gives).  Rounding is to nearest even.  A 16- or 8-bit float is widened to float32, reduced
// there, and rounded once when it is stored; avg multiplies by 1/ranks rounded to the element type, as NCCL does.
// Rounding to 8 bits is NVIDIA's saturating conversion: what is too large, infinity included, becomes the largest
// finite value (448 for e4m3, 57344 for e5m2).  min and max compare bits, so they return an operand exactly, infinities
// included, and their NaN is one quiet NaN per type.
#pragma once

#include <span>
#include <string_view>

#include "reducer.h"

namespace rondo {

/// The kernels for the best instruction set of this processor.  Lives forever; any thread.
const Reducer& host_reducer();

/// The kernels for one instruction set.
struct HostReducer {
  std::string_view instruction_set;  // "avx512_fp16", "avx512", "avx2", "portable"
  const Reducer* reducer = nullptr;
};

/// All kernels that this processor can run, best first; the last is "portable".  For tests and measurements.
std::span<const HostReducer> host_reducers();

}  // namespace rondo
