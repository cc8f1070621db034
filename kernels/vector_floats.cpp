// Sums and products of floats, a vector at a time, for each instruction set.
#include "kernels/vector_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vector_floats.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/table.h"
#include "kernels/vector_loops.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::kernels::HWY_NAMESPACE {

template <class Format>
void add_float(Table& table, DataType type) {
  table.set(type, Operator::sum, Fold<Format, AddLanes>::reduce);
  table.set(type, Operator::prod, Fold<Format, MulLanes>::reduce);
  table.set(type, Operator::avg, ScaledSum<Format, Operator::avg>::reduce);
  table.set(type, Operator::premul_sum, ScaledSum<Format, Operator::premul_sum>::reduce);
}

void add_floats(Table& table) {
  add_float<Plain<float>>(table, DataType::float32);
  add_float<Plain<double>>(table, DataType::float64);
  add_float<Float16>(table, DataType::float16);
  add_float<Bfloat16>(table, DataType::bfloat16);
  add_float<Float8E4m3>(table, DataType::float8_e4m3);
  add_float<Float8E5m2>(table, DataType::float8_e5m2);
}

}  // namespace rondo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::kernels {

void add_vector_floats(InstructionSet set, Table& table) {
  set == InstructionSet::avx512 ? N_AVX3::add_floats(table) : N_AVX2::add_floats(table);
}

}  // namespace rondo::kernels
#endif
