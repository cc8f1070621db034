// See data.h.  Values are computed as doubles, which hold all of them exactly, and encoded once a period.
#include "data.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace rondo::perf {

namespace {

constexpr Type type_table[] = {
    {"int8", ncclInt8, 1},         {"uint8", ncclUint8, 1},       {"int32", ncclInt32, 4},
    {"uint32", ncclUint32, 4},     {"int64", ncclInt64, 8},       {"uint64", ncclUint64, 8},
    {"half", ncclFloat16, 2},      {"float", ncclFloat32, 4},     {"double", ncclFloat64, 8},
    {"bfloat16", ncclBfloat16, 2}, {"f8e4m3", ncclFloat8e4m3, 1}, {"f8e5m2", ncclFloat8e5m2, 1},
};

constexpr NamedOp op_table[] = {{"sum", Op::sum}, {"prod", Op::prod}, {"max", Op::max},
                                {"min", Op::min}, {"avg", Op::avg},   {"mulsum", Op::mulsum}};

bool is_floating(const Type& type) { return type.value >= ncclFloat16; }
bool is_unsigned(const Type& type) {
  return type.value == ncclUint8 || type.value == ncclUint32 || type.value == ncclUint64;
}

// All integers up to it are values of the type (of wide types: more than enough of them).
std::uint64_t exact_integers(const Type& type) {
  switch (type.value) {
    case ncclFloat8e5m2: return 8;
    case ncclFloat8e4m3: return 16;
    case ncclInt8:
    case ncclUint8: return 127;
    case ncclBfloat16: return 256;
    case ncclFloat16: return 2048;
    default: return 1u << 24;
  }
}

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 32;
  x *= 0x9fb21c651e98df25u;
  x ^= x >> 29;
  x *= 0xd6e8feb86659fd93u;
  return x ^ (x >> 32);
}

// What `rank` holds at a place where the ranks' values are to be added.
double addend(const Type& type, std::uint64_t bound, bool lone, int rank, int ranks, std::size_t place) {
  const std::uint64_t here = mix(place + 1);
  const std::uint64_t turn = (static_cast<std::uint64_t>(rank) + here) % static_cast<std::uint64_t>(ranks);
  if (lone) return turn == 0 ? static_cast<double>(1 + here / 64 % std::min<std::uint64_t>(bound, 100)) : 0;
  const std::uint64_t share = std::min<std::uint64_t>(bound / static_cast<std::uint64_t>(ranks), 1000);
  if (share == 0) return turn < bound ? 1 : 0;  // only as many ranks as the type can count
  const std::uint64_t value = mix(here + 0x51ed270b * (static_cast<std::uint64_t>(rank) + 1));
  if (is_unsigned(type)) return static_cast<double>(value % (share + 1));
  return static_cast<double>(value % (2 * share + 1)) - static_cast<double>(share);
}

// Whether 1/n is rounded, see data.h.
bool rounds(const Type& type, Op op, int ranks) {
  return op == Op::avg && is_floating(type) && (ranks & (ranks - 1)) != 0;
}

double input_value(const Type& type, Op op, int rank, int ranks, std::size_t place) {
  const std::uint64_t limit = exact_integers(type);
  const std::uint64_t value = mix(place * 0x2545f491u + static_cast<std::uint64_t>(rank) * 0x9e3779b9u + 7);
  switch (op) {
    case Op::sum: return addend(type, limit, false, rank, ranks, place);
    case Op::mulsum: return addend(type, limit / 2, false, rank, ranks, place);
    case Op::avg: return addend(type, limit, rounds(type, op, ranks), rank, ranks, place);
    case Op::prod:
      if ((static_cast<std::uint64_t>(rank) + mix(place)) % static_cast<std::uint64_t>(ranks) < 4) return 2;
      return is_unsigned(type) || value % 2 == 0 ? 1 : -1;
    case Op::min:
    case Op::max:
    case Op::none: break;
  }
  const std::uint64_t size = std::min<std::uint64_t>(limit, 100);
  if (is_unsigned(type)) return static_cast<double>(value % (size + 1));
  return static_cast<double>(value % (2 * size + 1)) - static_cast<double>(size);
}

double result_value(const Type& type, Op op, int ranks, std::size_t place) {
  double result = input_value(type, op, 0, ranks, place) * (op == Op::mulsum ? scalar_of(0) : 1);
  for (int rank = 1; rank < ranks; ++rank) {
    const double next = input_value(type, op, rank, ranks, place);
    switch (op) {
      case Op::sum:
      case Op::avg: result += next; break;
      case Op::mulsum: result += scalar_of(rank) * next; break;
      case Op::prod: result *= next; break;
      case Op::min: result = std::min(result, next); break;
      case Op::max: result = std::max(result, next); break;
      case Op::none: break;
    }
  }
  if (op != Op::avg) return result;
  return is_floating(type) ? result / ranks : std::trunc(result / ranks);
}

// Bits of the nearest value of a binary floating type with a bias of 2^(exponent_bits - 1) - 1.
std::uint32_t round_to(double value, int exponent_bits, int mantissa_bits) {
  const std::uint32_t sign = std::signbit(value) ? 1u << (exponent_bits + mantissa_bits) : 0;
  const double size = std::fabs(value);
  if (size == 0) return sign;
  const int exponent_min = 2 - (1 << (exponent_bits - 1));
  const int exponent = std::max(std::ilogb(size), exponent_min);
  const double units = std::nearbyint(std::ldexp(size, mantissa_bits - exponent));
  // The leading digit of a normal number adds one to the exponent field, and so does a carry of the rounding.
  return sign + (static_cast<std::uint32_t>(exponent - exponent_min) << mantissa_bits) +
         static_cast<std::uint32_t>(units);
}

template <typename T>
void put(T value, std::byte* at) {
  std::memcpy(at, &value, sizeof value);
}

Pattern pattern_of(const Type& type, double (*value)(const Type&, Op, int, int, std::size_t), Op op, int rank,
                   int ranks) {
  Pattern pattern{std::vector<std::byte>(period * type.bytes), type.bytes, rounds(type, op, ranks) ? 2 : 0};
  for (std::size_t place = 0; place < period; ++place)
    encode(type, value(type, op, rank, ranks, place), pattern.elements.data() + place * type.bytes);
  return pattern;
}

// The distance of two values of a signed-magnitude type, in representable values between them.
std::uint64_t distance(const std::byte* one, const std::byte* other, std::size_t bytes) {
  const auto place_of = [bytes](const std::byte* at) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, at, bytes);
    const std::uint64_t sign = std::uint64_t{1} << (bytes * 8 - 1);
    return (bits & sign) != 0 ? -static_cast<std::int64_t>(bits & ~sign) : static_cast<std::int64_t>(bits);
  };
  const std::int64_t a = place_of(one), b = place_of(other);
  return a > b ? static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b)
               : static_cast<std::uint64_t>(b) - static_cast<std::uint64_t>(a);
}

}  // namespace

std::span<const Type> types() { return type_table; }
std::span<const NamedOp> ops() { return op_table; }

std::string_view name(Op op) {
  for (const NamedOp& known : op_table)
    if (known.op == op) return known.name;
  return "none";
}

int scalar_of(int rank) { return 1 + rank % 2; }

void encode(const Type& type, double value, std::byte* at) {
  switch (type.value) {
    case ncclInt8: return put(static_cast<std::int8_t>(value), at);
    case ncclUint8: return put(static_cast<std::uint8_t>(value), at);
    case ncclInt32: return put(static_cast<std::int32_t>(value), at);
    case ncclUint32: return put(static_cast<std::uint32_t>(value), at);
    case ncclInt64: return put(static_cast<std::int64_t>(value), at);
    case ncclUint64: return put(static_cast<std::uint64_t>(value), at);
    case ncclFloat16: return put(static_cast<std::uint16_t>(round_to(value, 5, 10)), at);
    case ncclFloat32: return put(static_cast<float>(value), at);
    case ncclFloat64: return put(value, at);
    case ncclBfloat16: return put(static_cast<std::uint16_t>(round_to(value, 8, 7)), at);
    case ncclFloat8e4m3: return put(static_cast<std::uint8_t>(round_to(value, 4, 3)), at);
    case ncclFloat8e5m2: return put(static_cast<std::uint8_t>(round_to(value, 5, 2)), at);
    default: return;
  }
}

Pattern input_of(const Type& type, Op op, int rank, int ranks) {
  return pattern_of(type, input_value, op, rank, ranks);
}

Pattern result_of(const Type& type, Op op, int ranks) {
  const auto value = [](const Type& t, Op o, int, int n, std::size_t place) { return result_value(t, o, n, place); };
  return pattern_of(type, value, op, 0, ranks);
}

namespace {

// Calls visit(offset in the pattern, offset from `first`, bytes) for each run of the pattern.
template <typename Visit>
void for_each_run(const Pattern& pattern, std::size_t first, std::size_t count, Visit&& visit) {
  std::size_t at = first % period;
  for (std::size_t done = 0; done < count;) {
    const std::size_t run = std::min(period - at, count - done);
    visit(at * pattern.element_bytes, done * pattern.element_bytes, run * pattern.element_bytes);
    done += run;
    at = 0;
  }
}

}  // namespace

void fill(const Pattern& pattern, std::size_t first, std::byte* target, std::size_t count) {
  for_each_run(pattern, first, count, [&](std::size_t from, std::size_t to, std::size_t bytes) {
    std::memcpy(target + to, pattern.elements.data() + from, bytes);
  });
}

std::uint64_t count_wrong(const Pattern& pattern, std::size_t first, const std::byte* data, std::size_t count) {
  std::uint64_t wrong = 0;
  for_each_run(pattern, first, count, [&](std::size_t from, std::size_t to, std::size_t bytes) {
    const std::byte* expected = pattern.elements.data() + from;
    if (std::memcmp(data + to, expected, bytes) == 0) return;
    const std::size_t size = pattern.element_bytes;
    for (std::size_t i = 0; i < bytes; i += size)
      if (std::memcmp(data + to + i, expected + i, size) != 0)
        wrong += pattern.tolerance == 0 ||
                 distance(data + to + i, expected + i, size) > static_cast<std::uint64_t>(pattern.tolerance);
  });
  return wrong;
}

std::uint64_t digest(const std::byte* data, std::size_t bytes) {
  // Four chains of multiplications side by side; each absorbs every fourth word.
  std::uint64_t chains[4] = {1, 2, 3, 4};
  std::size_t at = 0;
  for (; at + 32 <= bytes; at += 32)
    for (std::size_t c = 0; c < 4; ++c) {
      std::uint64_t word;
      std::memcpy(&word, data + at + 8 * c, 8);
      chains[c] = (chains[c] ^ word) * 0x9fb21c651e98df25u;
      chains[c] ^= chains[c] >> 31;
    }
  std::uint64_t result = bytes;
  for (const std::uint64_t chain : chains) result = mix(result ^ chain) * 0xd6e8feb86659fd93u;
  for (; at < bytes; ++at) result = mix(result ^ std::to_integer<std::uint64_t>(data[at])) + at;
  return result;
}

}  // namespace rondo::perf
