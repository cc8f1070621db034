// The formats of elements, one value at a time: how an element is stored, and the value that arithmetic is done on.
// The small floats (float16, bfloat16, float8_e4m3, float8_e5m2) widen to float32, exactly; storing them rounds to
// nearest even, the 8-bit ones saturate (see host_reducer.h), and a NaN stays a NaN of its sign.  Private to kernels/;
// the vector kernels compute the same bits many at a time.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>

#include "reducer.h"

namespace rondo::kernels {

/// How a small float lies in its bits: sign, exponent, mantissa, from high to low; `bias` as in IEEE 754.
struct FloatLayout {
  int mantissa_bits;
  int bias;
  int sign_shift;
  std::uint32_t finite_max;  // bits of the largest finite value
  std::uint32_t overflow;    // bits that a too large value becomes: infinity or finite_max
  std::uint32_t nan;         // bits of a quiet NaN; a NaN's own upper mantissa bits are or-ed in
  bool has_infinity;         // then its bits are finite_max + 1
};
inline constexpr FloatLayout float16_layout{10, 15, 15, 0x7bff, 0x7c00, 0x7e00, true};
inline constexpr FloatLayout e4m3_layout{3, 7, 7, 0x7e, 0x7e, 0x7f, false};
inline constexpr FloatLayout e5m2_layout{2, 15, 7, 0x7b, 0x7b, 0x7f, true};

inline constexpr std::uint32_t float32_magnitude = 0x7fffffff;
inline constexpr std::uint32_t float32_infinity = 0x7f800000;
inline constexpr std::uint32_t float32_quiet_nan = 0x7fc00000;

/// Bits of the power of two `exponent` as a float32.
constexpr std::uint32_t power_of_two(int exponent) noexcept { return std::uint32_t(127 + exponent) << 23; }

/// Adding this float32 to a value rounds it to a multiple of the layout's smallest subnormal, counted in the low bits.
constexpr std::uint32_t subnormal_magic(const FloatLayout& layout) noexcept {
  return power_of_two(1 - layout.bias - layout.mantissa_bits + 23);
}

/// What to add to a float32's exponent bits to get the layout's.
constexpr std::uint32_t rebias(const FloatLayout& layout) noexcept { return std::uint32_t(127 - layout.bias) << 23; }

template <FloatLayout layout>
constexpr float decode_float(std::uint32_t bits) noexcept {
  constexpr int shift = 23 - layout.mantissa_bits;
  const std::uint32_t sign = (bits >> layout.sign_shift) << 31;
  const std::uint32_t magnitude = bits & ((1u << layout.sign_shift) - 1);
  std::uint32_t wide = (magnitude << shift) + rebias(layout);
  if (magnitude > layout.finite_max) {
    const bool infinite = layout.has_infinity && magnitude == layout.finite_max + 1;
    wide = infinite ? float32_infinity : float32_quiet_nan | ((magnitude << shift) & float32_magnitude);
  } else if (magnitude < (1u << layout.mantissa_bits)) {
    constexpr std::uint32_t magic = subnormal_magic(layout);
    wide = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magic + magnitude) - std::bit_cast<float>(magic));
  }
  return std::bit_cast<float>(wide | sign);
}

template <FloatLayout layout>
constexpr std::uint32_t encode_float(float value) noexcept {
  constexpr int shift = 23 - layout.mantissa_bits;
  const std::uint32_t wide = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (wide >> 31) << layout.sign_shift;
  const std::uint32_t magnitude = wide & float32_magnitude;
  std::uint32_t bits = 0;
  if (magnitude > float32_infinity) {
    bits = layout.nan | ((magnitude >> shift) & ((1u << layout.mantissa_bits) - 1));
  } else if (magnitude < power_of_two(1 - layout.bias)) {
    constexpr std::uint32_t magic = subnormal_magic(layout);
    bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(magic)) - magic;
  } else {
    const std::uint32_t to_even = (1u << (shift - 1)) - 1 + ((magnitude >> shift) & 1);
    bits = (magnitude + to_even - rebias(layout)) >> shift;
    if (bits > layout.finite_max) bits = layout.overflow;
  }
  return bits | sign;
}

template <class T>
struct Plain {
  using Storage = T;
  using Value = T;
  static Value decode(Storage bits) noexcept { return bits; }
  static Storage encode(Value value) noexcept { return value; }
};

template <class Bits, FloatLayout layout_>
struct Small {
  using Storage = Bits;
  using Value = float;
  static constexpr FloatLayout layout = layout_;
  static Value decode(Storage bits) noexcept { return decode_float<layout>(bits); }
  static Storage encode(Value value) noexcept { return static_cast<Storage>(encode_float<layout>(value)); }
};
using Float16 = Small<std::uint16_t, float16_layout>;
using Float8E4m3 = Small<std::uint8_t, e4m3_layout>;
using Float8E5m2 = Small<std::uint8_t, e5m2_layout>;

struct Bfloat16 {
  using Storage = std::uint16_t;
  using Value = float;
  static Value decode(Storage bits) noexcept { return std::bit_cast<float>(std::uint32_t(bits) << 16); }
  static Storage encode(Value value) noexcept {
    const std::uint32_t wide = std::bit_cast<std::uint32_t>(value);
    if ((wide & float32_magnitude) > float32_infinity) return static_cast<Storage>((wide >> 16) | 0x40);
    return static_cast<Storage>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
  }
};

/// Float bits as integers in the order of the floats, -0 before +0.  A NaN, which is any magnitude above `infinity`,
/// becomes the integer that wins.
template <std::signed_integral Bits, Bits infinity_, Operator op>
struct Ordered {
  using Storage = Bits;
  using Value = Bits;
  static constexpr Bits infinity = infinity_;
  static constexpr Bits largest = std::numeric_limits<Bits>::max();
  static constexpr Bits nan = op == Operator::max ? largest : std::numeric_limits<Bits>::min();
  static Bits flip(Bits bits) noexcept { return bits < 0 ? static_cast<Bits>(bits ^ largest) : bits; }
  static Value decode(Storage bits) noexcept { return (bits & largest) > infinity ? nan : flip(bits); }
  static Storage encode(Value value) noexcept { return flip(value); }
};
template <Operator op>
using OrderedFloat32 = Ordered<std::int32_t, 0x7f800000, op>;
template <Operator op>
using OrderedFloat64 = Ordered<std::int64_t, 0x7ff0000000000000, op>;
template <Operator op>
using OrderedFloat16 = Ordered<std::int16_t, 0x7c00, op>;
template <Operator op>
using OrderedBfloat16 = Ordered<std::int16_t, 0x7f80, op>;
template <Operator op>
using OrderedE4m3 = Ordered<std::int8_t, 0x7e, op>;  // no infinity: 0x7e is finite, 0x7f NaN
template <Operator op>
using OrderedE5m2 = Ordered<std::int8_t, 0x7c, op>;

/// avg of floats and premul_sum multiply raw operands first; avg of integers divides after.
template <class Format, Operator op>
inline constexpr bool scales = op == Operator::premul_sum ||
                               (op == Operator::avg && std::floating_point<typename Format::Value>);

/// What a raw operand is multiplied by.
template <class Format, Operator op>
typename Format::Value factor(const Reduction& reduction) noexcept {
  using Value = typename Format::Value;
  if constexpr (op == Operator::premul_sum) {
    typename Format::Storage bits;
    std::memcpy(&bits, &reduction.scalar, sizeof bits);
    return Format::decode(bits);
  } else if constexpr (scales<Format, op>) {
    return Format::decode(Format::encode(Value(1) / static_cast<Value>(reduction.ranks)));
  }
  return Value(1);
}

}  // namespace rondo::kernels
