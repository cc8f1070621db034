// The float formats that processors do not add: float16, bfloat16, float8_e4m3, float8_e5m2, one value at a time.
// Decoding is exact.  Encoding rounds to nearest even; the 8-bit formats saturate (see host_reducer.h); a NaN stays a
// NaN of its sign.  Private to kernels/; the vector kernels compute the same bits many at a time.
#pragma once

#include <bit>
#include <cstdint>

namespace rondo::kernels {

/// How a small float lies in its bits: sign, exponent, mantissa, from high to low; `bias` as in IEEE 754.
struct FloatLayout {
  int mantissa_bits;
  int bias;
  int sign_shift;
  std::uint32_t finite_max;  // bits of the largest finite value
  std::uint32_t overflow;    // bits that a too large value becomes: infinity or finite_max
  std::uint32_t nan;         // bits of the quiet NaN
  bool has_infinity;         // then its bits are finite_max + 1
};
inline constexpr FloatLayout float16_layout{10, 15, 15, 0x7bff, 0x7c00, 0x7e00, true};
inline constexpr FloatLayout e4m3_layout{3, 7, 7, 0x7e, 0x7e, 0x7f, false};
inline constexpr FloatLayout e5m2_layout{2, 15, 7, 0x7b, 0x7b, 0x7e, true};

inline constexpr std::uint32_t float32_infinity = 0x7f800000;
inline constexpr std::uint32_t float32_quiet_nan = 0x7fc00000;

/// Bits of the power of two `exponent` as a float32.
constexpr std::uint32_t power_of_two(int exponent) noexcept { return std::uint32_t(127 + exponent) << 23; }

/// Adding this float32 to a value rounds it to a multiple of the layout's smallest subnormal, counted in the low bits.
constexpr std::uint32_t subnormal_magic(const FloatLayout& layout) noexcept {
  return power_of_two(1 - layout.bias - layout.mantissa_bits + 23);
}

template <FloatLayout layout>
constexpr float decode_float(std::uint32_t bits) noexcept {
  constexpr int shift = 23 - layout.mantissa_bits;
  constexpr std::uint32_t rebias = std::uint32_t(127 - layout.bias) << 23;
  const std::uint32_t sign = (bits >> layout.sign_shift) << 31;
  const std::uint32_t magnitude = bits & ((1u << layout.sign_shift) - 1);
  std::uint32_t wide = (magnitude << shift) + rebias;
  if (magnitude > layout.finite_max) {
    const bool infinite = layout.has_infinity && magnitude == layout.finite_max + 1;
    wide = infinite ? float32_infinity : float32_quiet_nan | (magnitude << shift);
    wide &= ~(1u << 31);
  } else if (magnitude < (1u << layout.mantissa_bits)) {
    constexpr std::uint32_t magic = subnormal_magic(layout);
    wide = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magic + magnitude) - std::bit_cast<float>(magic));
  }
  return std::bit_cast<float>(wide | sign);
}

template <FloatLayout layout>
constexpr std::uint32_t encode_float(float value) noexcept {
  constexpr int shift = 23 - layout.mantissa_bits;
  constexpr std::uint32_t rebias = std::uint32_t(127 - layout.bias) << 23;
  const std::uint32_t wide = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (wide >> 31) << layout.sign_shift;
  const std::uint32_t magnitude = wide & 0x7fffffffu;
  std::uint32_t bits = 0;
  if (magnitude > float32_infinity) {
    bits = layout.nan | ((magnitude >> shift) & ((1u << layout.mantissa_bits) - 1));
  } else if (magnitude < power_of_two(1 - layout.bias)) {
    constexpr std::uint32_t magic = subnormal_magic(layout);
    bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(magic)) - magic;
  } else {
    const std::uint32_t to_even = (1u << (shift - 1)) - 1 + ((magnitude >> shift) & 1);
    bits = (magnitude + to_even - rebias) >> shift;
    if (bits > layout.finite_max) bits = layout.overflow;
  }
  return bits | sign;
}

constexpr float decode_bfloat16(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(std::uint32_t(bits) << 16);
}

constexpr std::uint16_t encode_bfloat16(float value) noexcept {
  const std::uint32_t wide = std::bit_cast<std::uint32_t>(value);
  if ((wide & 0x7fffffffu) > float32_infinity) return static_cast<std::uint16_t>((wide >> 16) | 0x40);
  return static_cast<std::uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
}

}  // namespace rondo::kernels
