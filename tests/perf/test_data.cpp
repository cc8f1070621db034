// The data of the performance programs: results are exact in any order of reduction, and what is wrong is found.
#define CATCH_CONFIG_MAIN
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "perf/data.h"

using namespace rondo::perf;

namespace {

template <typename T>
double read_as(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

template <typename T>
double read_small_float(const std::byte* at, int exponent_bits, int mantissa_bits) {
  T bits;
  std::memcpy(&bits, at, sizeof bits);
  const int field = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int digits = bits & ((1 << mantissa_bits) - 1);
  const double size = field == 0 ? std::ldexp(digits, 1 - bias - mantissa_bits)
                                 : std::ldexp(digits + (1 << mantissa_bits), field - bias - mantissa_bits);
  return (bits >> (exponent_bits + mantissa_bits)) & 1 ? -size : size;
}

// An element, by the definition of its format.
double decode(const Type& type, const std::byte* at) {
  switch (type.value) {
    case ncclInt8: return read_as<std::int8_t>(at);
    case ncclUint8: return read_as<std::uint8_t>(at);
    case ncclInt32: return read_as<std::int32_t>(at);
    case ncclUint32: return read_as<std::uint32_t>(at);
    case ncclInt64: return read_as<std::int64_t>(at);
    case ncclUint64: return read_as<std::uint64_t>(at);
    case ncclFloat16: return read_small_float<std::uint16_t>(at, 5, 10);
    case ncclFloat32: return read_as<float>(at);
    case ncclFloat64: return read_as<double>(at);
    case ncclBfloat16: return read_small_float<std::uint16_t>(at, 8, 7);
    case ncclFloat8e4m3: return read_small_float<std::uint8_t>(at, 4, 3);
    default: return read_small_float<std::uint8_t>(at, 5, 2);
  }
}

bool is_floating(const Type& type) { return type.value >= ncclFloat16; }

Type type_named(std::string_view name) {
  return *std::find_if(types().begin(), types().end(), [&](const Type& type) { return type.name == name; });
}

// All ranks' inputs.
class Inputs {
 public:
  Inputs(const Type& type, Op op, int ranks) : type_(type) {
    for (int rank = 0; rank < ranks; ++rank) patterns_.push_back(input_of(type, op, rank, ranks));
  }
  double operator()(std::size_t rank, std::size_t place) const {
    return decode(type_, &patterns_[rank].elements[place * type_.bytes]);
  }

 private:
  Type type_;
  std::vector<Pattern> patterns_;
};

// One element of a reduction in the given order, rounded to the type after each step.
void reduce(const Type& type, Op op, const Inputs& inputs, const std::vector<std::size_t>& order, std::size_t place,
            std::byte* result) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double operand = inputs(order[i], place) * (op == Op::mulsum ? scalar_of(static_cast<int>(order[i])) : 1);
    const double before = i == 0 ? operand : decode(type, result);
    double value = operand;
    if (i > 0) {
      switch (op) {
        case Op::prod: value = before * operand; break;
        case Op::min: value = std::min(before, operand); break;
        case Op::max: value = std::max(before, operand); break;
        default: value = before + operand;
      }
    }
    encode(type, value, result);
  }
}

}  // namespace

TEST_CASE("small integers, their halves and powers of two are encoded exactly") {
  for (const Type& type : types()) {
    INFO(type.name);
    std::byte element[8] = {};
    for (const double value : {0.0, 1.0, 2.0, 3.0, 8.0, 100.0}) {
      if (value == 100 && type.value >= ncclFloat8e4m3) continue;
      encode(type, value, element);
      CHECK(decode(type, element) == value);
    }
    if (!is_floating(type)) continue;
    for (const double value : {0.5, -1.5, -0.25, 0.0078125}) {
      encode(type, value, element);
      CHECK(decode(type, element) == value);
    }
  }
}

TEST_CASE("known bits") {
  struct Known {
    const char* type;
    double value;
    unsigned bits;
  };
  const Known table[] = {{"half", 1, 0x3c00},  {"half", -2, 0xc000},    {"half", 1.0 / 3, 0x3555},
                         {"half", 0x1p-24, 1}, {"bfloat16", 1, 0x3f80}, {"bfloat16", 1.0 / 3, 0x3eab},
                         {"f8e4m3", 1, 0x38},  {"f8e4m3", 448, 0x7e},   {"f8e4m3", 0x1p-9, 1},
                         {"f8e5m2", 1, 0x3c},  {"f8e5m2", -1.75, 0xbf}};
  for (const auto& [name, value, bits] : table) {
    std::uint16_t element = 0;
    encode(type_named(name), value, reinterpret_cast<std::byte*>(&element));
    INFO(name << " " << value);
    CHECK(element == bits);
  }
}

TEST_CASE("every result is exact in any order of reduction") {
  std::mt19937 random(7);
  for (const int ranks : {1, 2, 3, 4, 7, 8, 12, 16, 64}) {
    for (const Type& type : types()) {
      for (const auto& [name, op] : ops()) {
        if (op == Op::avg) continue;  // divides before or after: the next case
        const Pattern result = result_of(type, op, ranks);
        const Inputs inputs(type, op, ranks);
        std::vector<std::size_t> order(static_cast<std::size_t>(ranks));
        std::iota(order.begin(), order.end(), 0);
        std::uint64_t wrong = 0;
        for (std::size_t place = 0; place < 199; ++place) {
          std::shuffle(order.begin(), order.end(), random);
          std::byte element[8];
          reduce(type, op, inputs, order, place, element);
          wrong += count_wrong(result, place, element, 1);
        }
        INFO(type.name << " " << name << " " << ranks << " ranks");
        CHECK(wrong == 0);
        CHECK(result.tolerance == 0);
      }
    }
  }
}

TEST_CASE("averages are exact where 1/n is, and within two units elsewhere") {
  for (const int ranks : {1, 2, 3, 5, 8, 12, 64}) {
    for (const Type& type : types()) {
      const Pattern result = result_of(type, Op::avg, ranks);
      const Inputs inputs(type, Op::avg, ranks);
      std::byte share[8] = {};
      encode(type, 1.0 / ranks, share);
      std::uint64_t wrong = 0;
      for (std::size_t place = 0; place < 199; ++place) {
        double sum = 0;
        for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank)
          sum += inputs(rank, place) * (is_floating(type) ? decode(type, share) : 1);
        std::byte element[8];
        encode(type, is_floating(type) ? sum : std::trunc(sum / ranks), element);
        wrong += count_wrong(result, place, element, 1);
      }
      INFO(type.name << " " << ranks << " ranks");
      CHECK(wrong == 0);
      CHECK(result.tolerance == (is_floating(type) && (ranks & (ranks - 1)) != 0 ? 2 : 0));
    }
  }
}

TEST_CASE("a rank left out shows in every type") {
  const std::size_t ranks = 4;
  for (const Type& type : types()) {
    const Pattern result = result_of(type, Op::sum, ranks);
    const Inputs inputs(type, Op::sum, ranks);
    for (std::size_t missing = 0; missing < ranks; ++missing) {
      std::uint64_t wrong = 0;
      for (std::size_t place = 0; place < 64; ++place) {
        std::vector<std::size_t> order;
        for (std::size_t rank = 0; rank < ranks; ++rank)
          if (rank != missing) order.push_back(rank);
        std::byte element[8];
        reduce(type, Op::sum, inputs, order, place, element);
        wrong += count_wrong(result, place, element, 1);
      }
      INFO(type.name << " without rank " << missing);
      CHECK(wrong > 0);
    }
  }
}

TEST_CASE("one changed element is counted, and so is a displaced block") {
  const Pattern pattern = input_of(type_named("float"), Op::sum, 1, 4);
  std::vector<float> data(100000);
  std::byte* bytes = reinterpret_cast<std::byte*>(data.data());
  fill(pattern, 5, bytes, data.size());
  CHECK(count_wrong(pattern, 5, bytes, data.size()) == 0);
  const std::uint64_t before = digest(bytes, data.size() * sizeof(float));
  data[77777] += 1;
  CHECK(count_wrong(pattern, 5, bytes, data.size()) == 1);
  CHECK(digest(bytes, data.size() * sizeof(float)) != before);
  data[77777] -= 1;
  CHECK(digest(bytes, data.size() * sizeof(float)) == before);
  for (const std::size_t shift : {1, 4096, 16384, 65536}) CHECK(count_wrong(pattern, 5 + shift, bytes, 4096) > 3000);
}

TEST_CASE("a digest sees each byte, whatever the length") {
  std::vector<std::byte> bytes(67, std::byte{1});
  for (std::size_t size = 1; size <= bytes.size(); ++size) {
    const std::uint64_t before = digest(bytes.data(), size);
    CHECK(before != digest(bytes.data(), size - 1));
    for (std::size_t at = 0; at < size; ++at) {
      bytes[at] ^= std::byte{0x80};
      CHECK(digest(bytes.data(), size) != before);
      bytes[at] ^= std::byte{0x80};
    }
  }
}
