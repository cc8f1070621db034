// Sums, products and averages of integers, and the copy of one source, a vector at a time, for each instruction set.
#include "kernels/vector_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vector_integers.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/table.h"
#include "kernels/vector_loops.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::kernels::HWY_NAMESPACE {

// glibc's copies are slower up to the size of a slice, most of all across processors' caches; beyond, they know better.
void copy(const Source* source, std::byte* const* targets, int target_count, std::size_t bytes) noexcept {
  using Lane = std::uint8_t;
  using Bytes = Kernel<Plain<Lane>, AddLanes>;
  constexpr std::size_t slice_bytes_max = 64 * 1024;
  const hn::ScalableTag<Lane> d;
  if (target_count == 1 && targets[0] == source->data) return;
  if (bytes < 16) return reduce_partial(Bytes(), source, 1, targets, target_count, bytes);
  if (bytes < hn::Lanes(d)) return reduce_short(Bytes(), source, 1, targets, target_count, bytes);
  if (bytes > slice_bytes_max) {
    for (int k = 0; k < target_count; ++k) std::memmove(targets[k], source->data, bytes);
  } else if (target_count == 1 && sweeps_pages && bytes >= streams_bytes_min) {
    sweep_streams(d, Bytes(), Inputs<Lane, 1>(source, 1), Outputs<Lane, 1>(targets, 1), bytes);
  } else if (target_count == 1) {
    sweep<2>(d, Bytes(), Inputs<Lane, 1>(source, 1), Outputs<Lane, 1>(targets, 1), bytes);
  } else {
    sweep<1>(d, Bytes(), Inputs<Lane, 1>(source, 1), Outputs<Lane, 0>(targets, target_count), bytes);
  }
}

// Division of lanes by the number of ranks, toward zero.  Processors divide floats only: a quotient of 8-bit integers
// is exact enough in float32, one of 32-bit integers in float64 (an inexact quotient is further from the next integer
// than rounding moves it).  64-bit integers go lane by lane.
template <class D, class V>
HWY_INLINE V divide_8(D d, V values, int ranks) {
  using T = hn::TFromD<D>;
  using Wide = std::conditional_t<std::is_signed_v<T>, std::int16_t, std::uint16_t>;
  const hn::Half<D> dh;
  const hn::Half<decltype(dh)> dq;
  const hn::Repartition<Wide, D> d16;
  const hn::Half<decltype(d16)> d16h;
  const hn::Repartition<std::int32_t, D> d32;
  const hn::Repartition<float, D> df;
  const auto divisor = hn::Set(df, static_cast<float>(ranks));
  const auto quarter = [&](auto half16) HWY_ATTR {
    const auto quotient = hn::Div(hn::ConvertTo(df, hn::PromoteTo(d32, half16)), divisor);
    return hn::TruncateTo(hn::Rebind<std::uint8_t, decltype(dq)>(),
                          hn::BitCast(hn::RebindToUnsigned<decltype(d32)>(), hn::ConvertTo(d32, quotient)));
  };
  const auto half = [&](auto half8) HWY_ATTR {
    const auto wide = hn::PromoteTo(d16, half8);
    return hn::Combine(hn::Rebind<std::uint8_t, decltype(dh)>(), quarter(hn::UpperHalf(d16h, wide)),
                       quarter(hn::LowerHalf(d16h, wide)));
  };
  return hn::BitCast(
      d, hn::Combine(hn::Rebind<std::uint8_t, D>(), half(hn::UpperHalf(dh, values)), half(hn::LowerHalf(dh, values))));
}

template <class D, class V>
HWY_INLINE V divide_32(D d, V values, int ranks) {
  using T = hn::TFromD<D>;
  const hn::RebindToSigned<D> ds;
  const hn::Half<decltype(ds)> dh;
  const hn::Repartition<double, D> df;
  // Only signed integers convert: unsigned ones are moved by 2^31 and back.
  const auto top = hn::Set(ds, std::is_signed_v<T> ? 0 : std::numeric_limits<std::int32_t>::min());
  const auto offset = hn::Set(df, std::is_signed_v<T> ? 0.0 : 2147483648.0);
  const auto divisor = hn::Set(df, static_cast<double>(ranks));
  const auto half = [&](auto half32) HWY_ATTR {
    const auto quotient = hn::Div(hn::Add(hn::PromoteTo(df, half32), offset), divisor);
    return hn::DemoteTo(dh, hn::Sub(hn::Trunc(quotient), offset));
  };
  const auto bits = hn::Xor(hn::BitCast(ds, values), top);
  const auto quotients = hn::Combine(ds, half(hn::UpperHalf(dh, bits)), half(hn::LowerHalf(dh, bits)));
  return hn::BitCast(d, hn::Xor(quotients, top));
}

template <class D, class V>
HWY_INLINE V divide_64(D d, V values, int ranks) {
  HWY_ALIGN hn::TFromD<D> lanes[HWY_MAX_BYTES / 8];
  hn::Store(values, d, lanes);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] /= static_cast<hn::TFromD<D>>(ranks);
  return hn::Load(d, lanes);
}

/// Sums of integers divided by the number of ranks.
template <class T>
struct Average : Kernel<Plain<T>, AddLanes> {
  static constexpr int vectors = 1;
  int ranks;

  explicit Average(int divisor) : ranks(divisor) {}
  template <class D, class V>
  HWY_INLINE V after(D d, V values) const {
    if constexpr (sizeof(T) == 1) return divide_8(d, values, ranks);
    if constexpr (sizeof(T) == 4) return divide_32(d, values, ranks);
    if constexpr (sizeof(T) == 8) return divide_64(d, values, ranks);
  }

  static void reduce(const Reduction& reduction, const Source* sources, int source_count, std::byte* const* targets,
                     int target_count, std::size_t elements, bool finish) noexcept {
    if (!finish) {
      return Fold<Plain<std::make_unsigned_t<T>>, AddLanes>::reduce(reduction, sources, source_count, targets,
                                                                    target_count, elements, finish);
    }
    reduce_slice(Average(reduction.ranks), sources, source_count, targets, target_count, elements);
  }
};

template <class T>
void add_integer(Table& table, DataType type) {
  using Bits = Plain<std::make_unsigned_t<T>>;  // wrapping does not know signs
  table.set(type, Operator::sum, Fold<Bits, AddLanes>::reduce);
  table.set(type, Operator::prod, Fold<Bits, MulLanes>::reduce);
  table.set(type, Operator::avg, Average<T>::reduce);
  table.set(type, Operator::premul_sum, ScaledSum<Bits, Operator::premul_sum>::reduce);
}

void add_integers(Table& table) {
  add_integer<std::int8_t>(table, DataType::int8);
  add_integer<std::uint8_t>(table, DataType::uint8);
  add_integer<std::int32_t>(table, DataType::int32);
  add_integer<std::uint32_t>(table, DataType::uint32);
  add_integer<std::int64_t>(table, DataType::int64);
  add_integer<std::uint64_t>(table, DataType::uint64);
}

}  // namespace rondo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::kernels {

void add_vector_integers(InstructionSet set, Table& table) {
  set == InstructionSet::avx512 ? N_AVX3::add_integers(table) : N_AVX2::add_integers(table);
}

}  // namespace rondo::kernels
#endif
