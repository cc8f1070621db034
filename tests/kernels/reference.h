// What a reduction must give, written without the kernels' code: one element at a time, values as double (exact for
// every small float), each step rounded to the accumulation type, formats by tables of all their values.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "reducer.h"

namespace reference {

using rondo::DataType;
using rondo::Operator;

inline constexpr double infinity = INFINITY;

/// One small float format as the sorted list of its non-negative values; index i is the value of the bits i.
struct SmallFormat {
  std::vector<double> values;  // finite ones
  double overflow;             // what lies beyond becomes this
  int sign_shift;
  bool has_infinity;
};

inline SmallFormat make_format(int exponent_bits, int mantissa_bits, unsigned finite_count, bool saturates,
                               bool has_infinity) {
  SmallFormat format{{}, 0, exponent_bits + mantissa_bits, has_infinity};
  const int bias = (1 << (exponent_bits - 1)) - 1;
  for (unsigned bits = 0; bits < finite_count; ++bits) {
    const int exponent = static_cast<int>(bits >> mantissa_bits), mantissa = bits & ((1u << mantissa_bits) - 1);
    format.values.push_back(exponent == 0
                                ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits));
  }
  format.overflow = saturates ? format.values.back() : infinity;
  return format;
}

inline const SmallFormat& small_format(DataType type) {
  static const std::map<DataType, SmallFormat> formats{{DataType::float16, make_format(5, 10, 0x7c00, false, true)},
                                                       {DataType::bfloat16, make_format(8, 7, 0x7f80, false, true)},
                                                       {DataType::float8_e4m3, make_format(4, 3, 0x7f, true, false)},
                                                       {DataType::float8_e5m2, make_format(5, 2, 0x7c, true, true)}};
  return formats.at(type);
}

inline bool is_small(DataType type) { return !rondo::is_integer(type) && rondo::element_bytes(type) < 4; }

/// The value of a float type's bits.
inline double decode(DataType type, std::uint64_t bits) {
  if (type == DataType::float64) return std::bit_cast<double>(bits);
  if (type == DataType::float32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  const SmallFormat& format = small_format(type);
  const std::uint64_t magnitude = bits & ((1ull << format.sign_shift) - 1);
  double value = NAN;
  if (magnitude < format.values.size()) value = format.values[magnitude];
  if (magnitude == format.values.size() && format.has_infinity) value = infinity;
  return (bits >> format.sign_shift) & 1 ? -value : value;
}

/// The bits of a small float's value nearest to `value`, ties to the even mantissa.
inline std::uint64_t encode_small(DataType type, double value) {
  const SmallFormat& format = small_format(type);
  const std::uint64_t sign = std::uint64_t(std::signbit(value)) << format.sign_shift;
  const std::vector<double>& values = format.values;
  if (std::isnan(value)) return sign | (values.size() + (format.has_infinity ? 1 : 0));
  const double magnitude = std::fabs(value);
  // Beyond the largest value by half a step or more, and infinity, overflow.
  const double step = values.back() - values[values.size() - 2];
  const double limit = values.back() + step / 2;
  if (magnitude >= limit) return sign | (values.size() - (std::isinf(format.overflow) ? 0 : 1));
  auto above = std::lower_bound(values.begin(), values.end(), magnitude);
  if (above == values.end()) return sign | (values.size() - 1);
  std::uint64_t bits = static_cast<std::uint64_t>(above - values.begin());
  if (bits > 0 && *above != magnitude) {
    const double up = *above - magnitude, down = magnitude - values[bits - 1];
    if (down < up || (down == up && bits % 2 == 1)) --bits;
  }
  return sign | bits;
}

inline std::uint64_t encode(DataType type, double value) {
  if (type == DataType::float64) return std::bit_cast<std::uint64_t>(value);
  if (type == DataType::float32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return encode_small(type, value);
}

/// Rounds to the accumulation type.
inline double rounded(DataType type, double value) {
  return type == DataType::float64 ? value : static_cast<double>(static_cast<float>(value));
}

inline std::uint64_t reduce_float(const rondo::Reduction& reduction, const std::vector<std::uint64_t>& operands,
                                  const std::vector<bool>& raw) {
  const DataType type = reduction.type;
  double scale = 1;
  if (reduction.op == Operator::premul_sum) scale = decode(type, reduction.scalar);
  if (reduction.op == Operator::avg) scale = decode(type, encode(type, rounded(type, 1.0 / reduction.ranks)));
  const bool scales = reduction.op == Operator::premul_sum || reduction.op == Operator::avg;
  if (operands.size() == 1 && !(scales && raw[0])) return operands[0];
  double result = 0;
  std::uint64_t chosen = 0;  // of min and max: an operand's bits
  for (std::size_t k = 0; k < operands.size(); ++k) {
    double value = decode(type, operands[k]);
    if (scales && raw[k]) value = rounded(type, value * scale);
    if (reduction.op == Operator::premul_sum && raw[k]) value = decode(type, encode(type, value));
    if (k == 0) {
      result = value, chosen = operands[k];
      continue;
    }
    if (reduction.op == Operator::min || reduction.op == Operator::max) {
      if (std::isnan(result) || std::isnan(value)) {
        result = NAN;
        continue;
      }
      const bool less = value < result || (value == result && std::signbit(value) && !std::signbit(result));
      const bool greater = value > result || (value == result && !std::signbit(value) && std::signbit(result));
      if (reduction.op == Operator::min ? less : greater) result = value, chosen = operands[k];
    } else {
      result = rounded(type, reduction.op == Operator::prod ? result * value : result + value);
    }
  }
  const bool selects = reduction.op == Operator::min || reduction.op == Operator::max;
  return selects && !std::isnan(result) ? chosen : encode(type, result);
}

inline std::uint64_t reduce_integer(const rondo::Reduction& reduction, const std::vector<std::uint64_t>& operands,
                                    const std::vector<bool>& raw, bool finish) {
  __extension__ using Wide = __int128;
  __extension__ using WideBits = unsigned __int128;
  const int bits = static_cast<int>(8 * rondo::element_bytes(reduction.type));
  const bool is_signed = static_cast<int>(reduction.type) % 2 == 0;
  const auto wrap = [&](Wide value) {
    const Wide modulus = Wide(1) << bits;
    value = ((value % modulus) + modulus) % modulus;
    return is_signed && value >= modulus / 2 ? value - modulus : value;
  };
  const auto product = [&](Wide a, Wide b) { return wrap(Wide(WideBits(a) * WideBits(b))); };
  Wide result = 0;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    Wide value = wrap(operands[k]);
    if (reduction.op == Operator::premul_sum && raw[k]) value = product(value, wrap(reduction.scalar));
    if (k == 0)
      result = value;
    else if (reduction.op == Operator::min)
      result = std::min(result, value);
    else if (reduction.op == Operator::max)
      result = std::max(result, value);
    else
      result = reduction.op == Operator::prod ? product(result, value) : wrap(result + value);
  }
  if (reduction.op == Operator::avg && finish) result /= reduction.ranks;
  return static_cast<std::uint64_t>(result) & (bits == 64 ? ~0ull : (1ull << bits) - 1);
}

/// The bits that the reduction of these operands must give.
inline std::uint64_t reduce(const rondo::Reduction& reduction, const std::vector<std::uint64_t>& operands,
                            const std::vector<bool>& raw, bool finish) {
  return rondo::is_integer(reduction.type) ? reduce_integer(reduction, operands, raw, finish)
                                           : reduce_float(reduction, operands, raw);
}

/// Equal bits, or two NaNs where the reduction computed one (which NaN is not promised).
inline bool same(DataType type, std::uint64_t left, std::uint64_t right) {
  if (left == right) return true;
  return !rondo::is_integer(type) && std::isnan(decode(type, left)) && std::isnan(decode(type, right));
}

}  // namespace reference
