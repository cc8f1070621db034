// The kernels in plain C++: for processors without AVX2, and the meaning of the vector kernels in few words.
//
// A slice is reduced block by block: a block of the first source is widened into accumulators, the other sources are
// folded in from left to right, and the block is narrowed and stored to every target.  All sources of a block are read
// before a target of it is written, so a target may be exactly a source.
#include <algorithm>
#include <concepts>
#include <cstring>
#include <type_traits>

#include "kernels/formats.h"
#include "kernels/table.h"

namespace rondo::kernels {
namespace {

template <class T>
using Wrapping = std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

template <Operator op, class T>
T combine(T left, T right) noexcept {
  if constexpr (op == Operator::max) return left < right ? right : left;
  if constexpr (op == Operator::min) return right < left ? right : left;
  const auto a = static_cast<Wrapping<T>>(left), b = static_cast<Wrapping<T>>(right);
  if constexpr (op == Operator::prod) return static_cast<T>(a * b);
  return static_cast<T>(a + b);
}

template <class Format, Operator op>
class Fold {
 public:
  using Storage = typename Format::Storage;
  using Value = typename Format::Value;
  static constexpr std::size_t block = 512;

  static void reduce(const Reduction& reduction, const Source* sources, int source_count, std::byte* const* targets,
                     int target_count, std::size_t elements, bool finish) noexcept {
    const Value scale = factor<Format, op>(reduction);
    const bool divide = op == Operator::avg && std::integral<Value> && finish;
    if (source_count == 1 && !divide && !(scales<Format, op> && sources[0].raw)) {
      for (int k = 0; k < target_count; ++k) std::memmove(targets[k], sources[0].data, elements * sizeof(Storage));
      return;
    }
    Value values[block];
    for (std::size_t first = 0; first < elements; first += block) {
      const std::size_t count = std::min(block, elements - first), offset = first * sizeof(Storage);
      load(sources[0], offset, count, scale, values);
      for (int k = 1; k < source_count; ++k) fold(sources[k], offset, count, scale, values);
      if (divide) {
        for (std::size_t i = 0; i < count; ++i) values[i] = quotient(values[i], reduction.ranks);
      }
      for (int k = 0; k < target_count; ++k) store(values, count, targets[k] + offset);
    }
  }

 private:
  static Value read(const std::byte* data, std::size_t index, Value scale, bool raw) noexcept {
    Storage bits;
    std::memcpy(&bits, data + index * sizeof(Storage), sizeof(Storage));
    const Value value = Format::decode(bits);
    if (!scales<Format, op> || !raw) return value;
    const Value product = combine<Operator::prod>(value, scale);
    // A product with a rank's own scalar travels rounded: round it here too, so that all ranks add the same values.
    return op == Operator::premul_sum ? Format::decode(Format::encode(product)) : product;
  }
  static void load(const Source& source, std::size_t offset, std::size_t count, Value scale, Value* values) noexcept {
    for (std::size_t i = 0; i < count; ++i) values[i] = read(source.data + offset, i, scale, source.raw);
  }
  static void fold(const Source& source, std::size_t offset, std::size_t count, Value scale, Value* values) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = combine<op>(values[i], read(source.data + offset, i, scale, source.raw));
    }
  }
  static void store(const Value* values, std::size_t count, std::byte* target) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      const Storage bits = Format::encode(values[i]);
      std::memcpy(target + i * sizeof(Storage), &bits, sizeof(Storage));
    }
  }
  static Value quotient(Value sum, int ranks) noexcept {
    if constexpr (std::is_signed_v<Value>) return static_cast<Value>(static_cast<std::int64_t>(sum) / ranks);
    return static_cast<Value>(static_cast<std::uint64_t>(sum) / static_cast<std::uint64_t>(ranks));
  }
};

template <class Format>
void add_arithmetic(Table& table, DataType type) {
  table.set(type, Operator::sum, Fold<Format, Operator::sum>::reduce);
  table.set(type, Operator::prod, Fold<Format, Operator::prod>::reduce);
  table.set(type, Operator::avg, Fold<Format, Operator::avg>::reduce);
  table.set(type, Operator::premul_sum, Fold<Format, Operator::premul_sum>::reduce);
}

template <class T>
void add_integer(Table& table, DataType type) {
  add_arithmetic<Plain<T>>(table, type);
  table.set(type, Operator::max, Fold<Plain<T>, Operator::max>::reduce);
  table.set(type, Operator::min, Fold<Plain<T>, Operator::min>::reduce);
}

template <class Format, template <Operator> class Ordered>
void add_float(Table& table, DataType type) {
  add_arithmetic<Format>(table, type);
  table.set(type, Operator::max, Fold<Ordered<Operator::max>, Operator::max>::reduce);
  table.set(type, Operator::min, Fold<Ordered<Operator::min>, Operator::min>::reduce);
}

}  // namespace

void add_portable(Table& table) {
  add_integer<std::int8_t>(table, DataType::int8);
  add_integer<std::uint8_t>(table, DataType::uint8);
  add_integer<std::int32_t>(table, DataType::int32);
  add_integer<std::uint32_t>(table, DataType::uint32);
  add_integer<std::int64_t>(table, DataType::int64);
  add_integer<std::uint64_t>(table, DataType::uint64);
  add_float<Plain<float>, OrderedFloat32>(table, DataType::float32);
  add_float<Plain<double>, OrderedFloat64>(table, DataType::float64);
  add_float<Float16, OrderedFloat16>(table, DataType::float16);
  add_float<Bfloat16, OrderedBfloat16>(table, DataType::bfloat16);
  add_float<Float8E4m3, OrderedE4m3>(table, DataType::float8_e4m3);
  add_float<Float8E5m2, OrderedE5m2>(table, DataType::float8_e5m2);
}

}  // namespace rondo::kernels
