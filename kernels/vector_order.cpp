// Minima and maxima, a vector at a time, for each instruction set: integers as they are, floats in the order of their
// bits (Ordered of formats.h), which gives -0 < +0 and NaN above all for nothing.
#include "kernels/vector_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vector_order.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/table.h"
#include "kernels/vector_loops.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::kernels::HWY_NAMESPACE {

template <class T>
void order_integer(Table& table, DataType type) {
  table.set(type, Operator::max, Fold<Plain<T>, MaxLanes>::reduce);
  table.set(type, Operator::min, Fold<Plain<T>, MinLanes>::reduce);
}

template <template <Operator> class Format>
void order_float(Table& table, DataType type) {
  table.set(type, Operator::max, Fold<Format<Operator::max>, MaxLanes>::reduce);
  table.set(type, Operator::min, Fold<Format<Operator::min>, MinLanes>::reduce);
}

void add_order(Table& table) {
  order_integer<std::int8_t>(table, DataType::int8);
  order_integer<std::uint8_t>(table, DataType::uint8);
  order_integer<std::int32_t>(table, DataType::int32);
  order_integer<std::uint32_t>(table, DataType::uint32);
  order_integer<std::int64_t>(table, DataType::int64);
  order_integer<std::uint64_t>(table, DataType::uint64);
  order_float<OrderedFloat16>(table, DataType::float16);
  order_float<OrderedFloat32>(table, DataType::float32);
  order_float<OrderedFloat64>(table, DataType::float64);
  order_float<OrderedBfloat16>(table, DataType::bfloat16);
  order_float<OrderedE4m3>(table, DataType::float8_e4m3);
  order_float<OrderedE5m2>(table, DataType::float8_e5m2);
}

}  // namespace rondo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::kernels {

void add_vector_order(InstructionSet set, Table& table) {
  set == InstructionSet::avx512 ? N_AVX3::add_order(table) : N_AVX2::add_order(table);
}

}  // namespace rondo::kernels
#endif
