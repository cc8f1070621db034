// Exact patterns: see pattern.h.
#include "pattern.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace rondo::test {
namespace {

struct FloatFormat {
  int mantissa_bits;
  int exponent_bits;
};

FloatFormat format_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16: return {10, 5};
    case ncclBfloat16: return {7, 8};
    case ncclFloat8e4m3: return {3, 4};
    default: return {2, 5};
  }
}

std::size_t hash_of(std::size_t index) { return (index * 0x9e3779b97f4a7c15ull >> 40) % 20; }

double given(Kind kind, bool floats, int rank, int hash) {
  // No sum, product or extreme over any number of ranks is the same for all hashes; at most four ranks give a one.
  const int mixed = (hash * (rank + 3) + 7 * rank) % 13;
  const double sparse = mixed < 3 ? 1 : 0;
  switch (kind) {
    case Kind::sum:
    case Kind::premul_sum: return sparse;
    case Kind::avg: return floats ? sparse : mixed % 5;
    case Kind::prod: return 1 + sparse;
    case Kind::move: return (hash + rank) % 9;
    default: return mixed % 5;
  }
}

double reduced(Kind kind, bool floats, int ranks, int hash) {
  double result = given(kind, floats, 0, hash);
  for (int rank = 1; rank < ranks; ++rank) {
    const double next = given(kind, floats, rank, hash);
    switch (kind) {
      case Kind::prod: result *= next; break;
      case Kind::max: result = std::max(result, next); break;
      case Kind::min: result = std::min(result, next); break;
      case Kind::premul_sum: result += next * (1 + rank % 2); break;
      default: result += next;
    }
  }
  if (kind != Kind::avg) return result;
  return floats ? result / ranks : std::floor(result / ranks);
}

/// Calls `action` with an unsigned integer of the type's size.
template <class Action>
auto by_size(ncclDataType_t type, Action&& action) {
  switch (bytes_of(type)) {
    case 1: return action(std::uint8_t{});
    case 2: return action(std::uint16_t{});
    case 4: return action(std::uint32_t{});
    default: return action(std::uint64_t{});
  }
}

template <class Word>
std::vector<Word> narrow(const std::vector<std::uint64_t>& row) {
  return {row.begin(), row.end()};
}

}  // namespace

std::size_t bytes_of(ncclDataType_t type) {
  static constexpr std::size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return bytes[type];
}

bool is_float(ncclDataType_t type) { return type >= ncclFloat16; }

std::uint64_t encode(ncclDataType_t type, double number) {
  if (!is_float(type)) return static_cast<std::uint64_t>(number);
  std::uint64_t bits = 0;
  if (type == ncclFloat64) {
    std::memcpy(&bits, &number, sizeof number);
  } else if (type == ncclFloat32) {
    const auto single = static_cast<float>(number);
    std::memcpy(&bits, &single, sizeof single);
  } else if (number != 0) {
    const FloatFormat format = format_of(type);
    int exponent = 0;
    const double fraction = 2 * std::frexp(number, &exponent) - 1;  // number = (1 + fraction) * 2^(exponent - 1)
    const int bias = (1 << (format.exponent_bits - 1)) - 1;
    bits = static_cast<std::uint64_t>(exponent - 1 + bias) << format.mantissa_bits;
    bits |= static_cast<std::uint64_t>(std::ldexp(fraction, format.mantissa_bits));
  }
  return bits;
}

Pattern::Pattern(Kind kind, ncclDataType_t type, int ranks) : type_(type) {
  for (int rank = 0; rank < ranks; ++rank) {
    Row& row = given_.emplace_back();
    for (int hash = 0; hash < hashes; ++hash) row.push_back(encode(type, given(kind, is_float(type), rank, hash)));
  }
  for (int hash = 0; hash < hashes; ++hash) {
    reduced_.push_back(encode(type, reduced(kind, is_float(type), ranks, hash)));
  }
}

void Pattern::fill(void* data, int rank, std::size_t first, std::size_t count) const {
  by_size(type_, [&](auto word) {
    const auto row = narrow<decltype(word)>(given_[static_cast<std::size_t>(rank)]);
    auto* to = static_cast<decltype(word)*>(data);
    for (std::size_t i = 0; i < count; ++i) to[i] = row[hash_of(first + i)];
  });
}

std::string Pattern::check(const Row& wanted, const void* data, std::size_t first, std::size_t count) const {
  return by_size(type_, [&](auto word) -> std::string {
    const auto row = narrow<decltype(word)>(wanted);
    const auto* from = static_cast<const decltype(word)*>(data);
    std::size_t wrong = 0;
    std::size_t at = 0;
    for (std::size_t i = count; i-- > 0;) {
      if (from[i] == row[hash_of(first + i)]) continue;
      ++wrong;
      at = i;
    }
    if (wrong == 0) return {};
    return std::to_string(wrong) + " of " + std::to_string(count) + " elements are wrong, the first at " +
           std::to_string(at) + ": bits " + std::to_string(std::uint64_t{from[at]}) + ", not " +
           std::to_string(std::uint64_t{row[hash_of(first + at)]});
  });
}

std::string Pattern::check_reduced(const void* data, std::size_t first, std::size_t count) const {
  return check(reduced_, data, first, count);
}

std::string Pattern::check_filled(const void* data, int rank, std::size_t first, std::size_t count) const {
  return check(given_[static_cast<std::size_t>(rank)], data, first, count);
}

}  // namespace rondo::test
