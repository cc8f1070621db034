// Arithmetic on ranges of elements of float16, bfloat16, float32 and float64.  The same bits on every processor: 16-bit
// conversions round to nearest even, sums have a fixed order.
#pragma once

#include <cstddef>

#include "nccl.h"

namespace rondo::data_parallel {

/// target = factor * source, in the target's type.  float32 or float64 to float16 or bfloat16, or back.
void convert(const void* source, ncclDataType_t source_type, void* target, ncclDataType_t target_type,
             std::size_t count, double factor);
/// target = source.  Large ranges go past the caches, which computation has better use for: 7.6 ms in place of 8.9 to
/// 10.9 for 99 MB.  They may not overlap.
void copy_past_caches(void* target, const void* source, std::size_t bytes);
/// data *= factor.
void scale(void* data, ncclDataType_t type, std::size_t count, double factor);
/// target += source.
void add(void* target, const void* source, ncclDataType_t type, std::size_t count);
/// The sum of squares, in float64.
double sum_of_squares(const void* data, ncclDataType_t type, std::size_t count);
/// Stores 1.
void store_one(void* element, ncclDataType_t type);
/// Whether an element is other than 0.
bool is_nonzero(const void* element, ncclDataType_t type);

}  // namespace rondo::data_parallel
