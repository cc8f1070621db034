// The formats of formats.h, a vector at a time: unpack() widens stored bits into the vectors that arithmetic is done
// on, pack() rounds them back.  The bits are those of formats.h.  Included once for each instruction set (Highway's
// foreach_target.h), hence the guard that toggles.
//
// A wide value lies in a Pair of vectors (8-bit floats: a Pair of Pairs).  Which element lies where in it is the
// format's own affair: everything between unpack and pack is element by element.
#if defined(HWY_RONDO_VECTOR_FORMATS) == defined(HWY_TARGET_TOGGLE)
#ifdef HWY_RONDO_VECTOR_FORMATS
#undef HWY_RONDO_VECTOR_FORMATS
#else
#define HWY_RONDO_VECTOR_FORMATS
#endif

#include <hwy/highway.h>

#include "kernels/formats.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class V>
struct Pair {
  V first, second;
};

struct AddLanes {
  template <class V>
  static HWY_INLINE V of(V left, V right) {
    return hn::Add(left, right);
  }
};

struct MaxLanes {
  template <class V>
  static HWY_INLINE V of(V left, V right) {
    return hn::Max(left, right);
  }
};

struct MinLanes {
  template <class V>
  static HWY_INLINE V of(V left, V right) {
    return hn::Min(left, right);
  }
};

/// Products; of integers, their low halves, which Highway has for 16 and 32 bits only.
struct MulLanes {
  template <class V>
  static HWY_INLINE V of(V left, V right) {
    using T = hn::TFromV<V>;
    if constexpr (std::is_same_v<T, std::uint8_t>)
      return of_8(left, right);
    else if constexpr (std::is_same_v<T, std::uint64_t>)
      return of_64(left, right);
    else
      return hn::Mul(left, right);
  }

 private:
  template <class V>
  static HWY_INLINE V of_8(V left, V right) {
    const hn::DFromV<V> d;
    const hn::RepartitionToWide<decltype(d)> d16;
    const auto a = hn::BitCast(d16, left), b = hn::BitCast(d16, right);
    const auto low_byte = hn::Set(d16, std::uint16_t(0x00ff));
    const auto even = hn::And(hn::Mul(a, b), low_byte);
    const auto odd = hn::Mul(hn::ShiftRight<8>(a), hn::AndNot(low_byte, b));
    return hn::BitCast(d, hn::Or(even, odd));
  }
  template <class V>
  static HWY_INLINE V of_64(V left, V right) {
    const hn::DFromV<V> d;
    const hn::RepartitionToNarrow<decltype(d)> d32;
    const auto a = hn::BitCast(d32, left), b = hn::BitCast(d32, right);
    const auto crossed = hn::BitCast(d, hn::Mul(a, hn::Shuffle2301(b)));
    const auto high = hn::ShiftLeft<32>(hn::Add(crossed, hn::ShiftRight<32>(crossed)));
    return hn::Add(hn::MulEven(a, b), high);
  }
};

/// Op on vectors, or on each vector of pairs.
template <class Op, class V>
HWY_INLINE V each(V left, V right) {
  return Op::of(left, right);
}
template <class Op, class V>
HWY_INLINE Pair<V> each(Pair<V> left, Pair<V> right) {
  return {each<Op>(left.first, right.first), each<Op>(left.second, right.second)};
}

/// The same, with one vector on the right for all.
template <class Op, class V>
HWY_INLINE V each_by(V left, V right) {
  return Op::of(left, right);
}
template <class Op, class V, class R>
HWY_INLINE Pair<V> each_by(Pair<V> left, R right) {
  return {each_by<Op>(left.first, right), each_by<Op>(left.second, right)};
}

/// The vector form of a format: `D` is the tag of a vector of stored bits.
template <class Format>
struct Vectors;

/// The widest vectors worth while, in bytes: conversion of float16 is faster by 256 bits (docs/measured.md).
template <class Format>
inline constexpr std::size_t vector_bytes_max = 64;
template <>
inline constexpr std::size_t vector_bytes_max<Float16> = 32;

/// Loads and unpacks.
template <class Format, class D>
HWY_INLINE auto load_values(D d, const typename Format::Storage* source) {
  if constexpr (requires { Vectors<Format>::load(d, source); }) {
    return Vectors<Format>::load(d, source);
  } else {
    return Vectors<Format>::unpack(d, hn::LoadU(d, source));
  }
}

template <class T>
struct Vectors<Plain<T>> {
  template <class D>
  using ValueTag = D;
  template <class D, class V>
  static HWY_INLINE V unpack(D, V bits) {
    return bits;
  }
  template <class D, class V>
  static HWY_INLINE V pack(D, V values) {
    return values;
  }
};

template <>
struct Vectors<Bfloat16> {
  template <class D>
  using ValueTag = hn::Repartition<float, D>;

  // A float32 whose low half is zero: even elements are shifted up, odd ones stay.
  template <class D, class V>
  static HWY_INLINE auto unpack(D, V bits) {
    const ValueTag<D> df;
    const hn::Repartition<std::uint32_t, D> d32;
    const auto wide = hn::BitCast(d32, bits);
    const auto odd = hn::And(wide, hn::Set(d32, 0xffff0000u));
    return Pair{hn::BitCast(df, hn::ShiftLeft<16>(wide)), hn::BitCast(df, odd)};
  }
  // A NaN needs no care: arithmetic on widened bfloat16 makes quiet ones whose low half is zero, for it passes an
  // operand's on or makes the processor's own.
  template <class D, class V>
  static HWY_INLINE auto pack(D d, Pair<V> values) {
#if HWY_TARGET == HWY_AVX3
    if constexpr (hn::MaxLanes(D()) == 32) return pack_halves(d, values);
#endif
    const auto even = hn::ShiftRight<16>(round(values.first)), odd = round(values.second);
    return hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, even));
  }

 private:
  // The rounded value in the upper half.
  template <class V>
  static HWY_INLINE auto round(V value) {
    const hn::DFromV<V> df;
    const hn::RebindToUnsigned<decltype(df)> d;
    const auto wide = hn::BitCast(d, value);
    const auto odd = hn::And(hn::ShiftRight<16>(wide), hn::Set(d, 1u));
    return hn::Add(wide, hn::Add(odd, hn::Set(d, 0x7fffu)));
  }

#if HWY_TARGET == HWY_AVX3
  // Gathers the upper halves and the lower ones first, which rounds 32 elements at once in five instructions.  The
  // processor's own conversion (AVX512-BF16) takes subnormal numbers for 0, and is no faster (docs/measured.md).
  template <class D, class V>
  static HWY_INLINE hn::VFromD<D> pack_halves(D, Pair<V> values) {
    constexpr __mmask64 lower_halves = 0x3333333333333333, upper_halves = ~lower_halves;
    const __m512i even = _mm512_castps_si512(values.first.raw), odd = _mm512_castps_si512(values.second.raw);
    const __m512i swapped = _mm512_set4_epi32(0x0d0c0f0e, 0x09080b0a, 0x05040706, 0x01000302);
    const __m512i high = _mm512_mask_shuffle_epi8(odd, lower_halves, even, swapped);
    const __m512i low = _mm512_mask_shuffle_epi8(even, upper_halves, odd, swapped);
    const __m512i one = _mm512_set1_epi16(1), half = _mm512_set1_epi16(std::int16_t(0x8000));
    // Up from more than half, or from half if that makes it even: low | (high & 1) > half.
    const __mmask32 up = _mm512_cmpgt_epu16_mask(_mm512_ternarylogic_epi32(low, high, one, 0xf8), half);
    return hn::VFromD<D>{_mm512_mask_add_epi16(high, up, high, one)};
  }
#endif
};

template <>
struct Vectors<Float16> {
  template <class D>
  using ValueTag = hn::Repartition<float, D>;

  // Widening from memory spares the shuffles that unpack() needs.
  template <class D>
  static HWY_INLINE auto load(D, const std::uint16_t* source) {
    const ValueTag<D> df;
    const hn::Rebind<hwy::float16_t, ValueTag<D>> d16;
    const auto* halves = reinterpret_cast<const hwy::float16_t*>(source);
    return Pair{hn::PromoteTo(df, hn::LoadU(d16, halves)), hn::PromoteTo(df, hn::LoadU(d16, halves + hn::Lanes(d16)))};
  }
  template <class D, class V>
  static HWY_INLINE auto unpack(D, V bits) {
    const ValueTag<D> df;
    const hn::Half<D> dh;
    const hn::Rebind<hwy::float16_t, ValueTag<D>> d16;
    return Pair{hn::PromoteTo(df, hn::BitCast(d16, hn::LowerHalf(dh, bits))),
                hn::PromoteTo(df, hn::BitCast(d16, hn::UpperHalf(dh, bits)))};
  }
  template <class D, class V>
  static HWY_INLINE auto pack(D d, Pair<V> values) {
    const hn::Half<D> dh;
    const hn::Rebind<hwy::float16_t, ValueTag<D>> d16;
    return hn::Combine(d, hn::BitCast(dh, hn::DemoteTo(d16, values.second)),
                       hn::BitCast(dh, hn::DemoteTo(d16, values.first)));
  }
};

/// 8-bit floats pass through float16, which holds every one of them exactly (e4m3 scaled by 2^-8).
template <FloatLayout layout>
struct Vectors<Small<std::uint8_t, layout>> {
  template <class D>
  using ValueTag = hn::Repartition<float, D>;

  template <class D, class V>
  static HWY_INLINE auto unpack(D, V bits) {
    const hn::Half<D> dh;
    const hn::Repartition<std::uint16_t, D> d16;
    const auto low = widen(d16, hn::PromoteTo(d16, hn::LowerHalf(dh, bits)));
    return Pair{low, widen(d16, hn::PromoteTo(d16, hn::UpperHalf(dh, bits)))};
  }
  template <class D, class V>
  static HWY_INLINE auto pack(D d, Pair<Pair<V>> values) {
    const hn::Half<D> dh;
    return hn::Combine(d, narrow(dh, values.second), narrow(dh, values.first));
  }

 private:
  template <class D16, class V>
  static HWY_INLINE auto widen(D16 d, V bits) {
    if constexpr (layout.has_infinity)
      return Vectors<Float16>::unpack(d, hn::ShiftLeft<8>(bits));
    else {
      const auto magnitude = hn::And(bits, hn::Set(d, std::uint16_t(0x7f)));
      const auto sign = hn::ShiftLeft<8>(hn::AndNot(hn::Set(d, std::uint16_t(0x7f)), bits));
      const auto is_nan = hn::Eq(magnitude, hn::Set(d, std::uint16_t(layout.nan)));
      const auto half = hn::IfThenElse(is_nan, hn::Set(d, std::uint16_t(0x7e00)), hn::ShiftLeft<7>(magnitude));
      const auto values = Vectors<Float16>::unpack(d, hn::Or(half, sign));
      return each_by<MulLanes>(values, hn::Set(hn::Repartition<float, D16>(), 256.0f));
    }
  }
  template <class DH, class V>
  static HWY_INLINE auto narrow(DH dh, Pair<V> values) {
    const hn::Half<DH> dq;
    return hn::Combine(dh, hn::TruncateTo(dq, round(values.second)), hn::TruncateTo(dq, round(values.first)));
  }
  // encode_float() of formats.h, all its cases at once.
  template <class V>
  static HWY_INLINE auto round(V value) {
    constexpr int shift = 23 - layout.mantissa_bits;
    const hn::DFromV<V> df;
    const hn::RebindToUnsigned<decltype(df)> d;
    const hn::RebindToSigned<decltype(df)> di;
    const auto wide = hn::BitCast(d, value);
    const auto magnitude = hn::And(wide, hn::Set(d, float32_magnitude));
    const auto odd = hn::And(hn::ShiftRight<shift>(magnitude), hn::Set(d, 1u));
    const auto to_even = hn::Add(odd, hn::Set(d, (1u << (shift - 1)) - 1 - rebias(layout)));
    const auto normal = hn::Min(hn::ShiftRight<shift>(hn::Add(magnitude, to_even)), hn::Set(d, layout.overflow));
    const auto magic = hn::Set(d, subnormal_magic(layout));
    const auto sum = hn::Add(hn::BitCast(df, magnitude), hn::BitCast(df, magic));
    const auto subnormal = hn::Sub(hn::BitCast(d, sum), magic);
    constexpr auto subnormal_max = static_cast<std::int32_t>(power_of_two(1 - layout.bias) - 1);
    const auto is_normal = hn::RebindMask(d, hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, subnormal_max)));
    const auto finite = hn::IfThenElse(is_normal, normal, subnormal);
    const auto bits = hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(value)), hn::Set(d, layout.nan), finite);
    return hn::Or(bits, hn::And(hn::ShiftRight<24>(wide), hn::Set(d, 0x80u)));
  }
};

template <class Bits, Bits infinity, Operator op>
struct Vectors<Ordered<Bits, infinity, op>> {
  using Format = Ordered<Bits, infinity, op>;
  template <class D>
  using ValueTag = D;

  template <class D, class V>
  static HWY_INLINE V unpack(D d, V bits) {
    const auto is_nan = hn::Gt(hn::And(bits, hn::Set(d, Format::largest)), hn::Set(d, infinity));
    return hn::IfThenElse(is_nan, hn::Set(d, Format::nan), pack(d, bits));
  }
  template <class D, class V>
  static HWY_INLINE V pack(D d, V values) {
    return hn::Xor(values, hn::And(hn::BroadcastSignBit(values), hn::Set(d, Format::largest)));
  }
};

}  // namespace rondo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
