// Inputs, guards and reference results: see buffers.h.
#include "buffers.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "../kernels/reference.h"

namespace stage {
namespace {

using rondo::CollectiveKind;
using rondo::element_bytes;
using rondo::is_integer;

constexpr int guard_value = 0x5a;
constexpr int unset_value = 0x3c;

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = (a + 1) * 0x9e3779b97f4a7c15u + b * 0xd1b54a32d192ed03u;
  z = (z ^ (z >> 31)) * 0xbf58476d1ce4e5b9u;
  return z ^ (z >> 29);
}

/// Up to here every whole number is a value of the type.
std::int64_t whole_max(DataType type) {
  switch (type) {
    case DataType::float8_e5m2: return 8;
    case DataType::float8_e4m3: return 16;
    case DataType::int8: return 120;
    case DataType::uint8: return 250;
    case DataType::bfloat16: return 256;
    default: return 1000;
  }
}

bool is_signed(DataType type) { return !is_integer(type) || static_cast<int>(type) % 2 == 0; }

/// Rank's operand at `index`: a whole number, small enough that no result is rounded.
std::int64_t whole_input(const Call& call, int rank, int ranks, std::uint64_t index) {
  const std::uint64_t h = mixed(static_cast<std::uint64_t>(rank), index);
  const std::int64_t sign = is_signed(call.type) && (h & 1) != 0 ? -1 : 1;
  const std::int64_t most = whole_max(call.type);
  const bool reduces = rondo::plan::Collective{call.schedule->kind}.reduces();
  if (!reduces || call.op == Operator::max || call.op == Operator::min) {
    return sign * static_cast<std::int64_t>((h >> 8) % 9);
  }
  const auto contributes = [&](std::int64_t contributors_max) {
    const std::uint64_t every = (ranks + contributors_max - 1) / contributors_max;
    return (static_cast<std::uint64_t>(rank) + index) % every == 0;
  };
  if (call.op == Operator::prod) return contributes(3) ? 2 * sign : sign;
  // Floats round 1/ranks: one rank alone gives each element, so that no sum is rounded.
  if (call.op == Operator::avg && !is_integer(call.type)) {
    return index % ranks == static_cast<std::uint64_t>(rank) ? static_cast<std::int64_t>(1 + (h >> 8) % 8) : 0;
  }
  const std::int64_t weight = call.op == Operator::premul_sum ? 2 : 1;
  const std::int64_t share = most / (weight * ranks);
  if (share == 0) return contributes(most / weight) ? sign : 0;
  return sign * static_cast<std::int64_t>((h >> 8) % (share + 1));
}

std::int64_t whole_result(const Call& call, int ranks, std::uint64_t index) {
  std::int64_t result = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    std::int64_t value = whole_input(call, rank, ranks, index);
    if (call.op == Operator::premul_sum) value *= 1 + rank % 2;
    if (rank == 0)
      result = value;
    else if (call.op == Operator::max)
      result = std::max(result, value);
    else if (call.op == Operator::min)
      result = std::min(result, value);
    else
      result = call.op == Operator::prod ? result * value : result + value;
  }
  return call.op == Operator::avg ? result / ranks : result;  // floats: see avg_bits
}

std::uint64_t bits_of(DataType type, std::int64_t value) {
  if (is_integer(type)) return static_cast<std::uint64_t>(value);
  static std::array<std::vector<std::uint64_t>, rondo::data_type_count> tables;
  constexpr std::int64_t half = 2048;
  std::vector<std::uint64_t>& table = tables[static_cast<std::size_t>(type)];
  if (table.empty()) {
    for (std::int64_t v = -half; v <= half; ++v) table.push_back(reference::encode(type, static_cast<double>(v)));
  }
  return table[static_cast<std::size_t>(value + half)];
}

/// Any finite value of the type whose sums are finite: results are rounded, and differ with the order of reduction.
std::uint64_t rounding_input(DataType type, int rank, std::uint64_t index) {
  const std::uint64_t h = mixed(static_cast<std::uint64_t>(rank) + 1000, index);
  if (is_integer(type)) return h;
  const double value =
      (static_cast<double>(h >> 12) / static_cast<double>(1ull << 52) - 0.5) * ((h & 7) == 0 ? 100 : 1);
  return reference::encode(type, value);
}

std::uint64_t input_bits(const Call& call, int rank, int ranks, std::uint64_t index) {
  if (call.values == Values::rounding) return rounding_input(call.type, rank, index);
  return bits_of(call.type, whole_input(call, rank, ranks, index));
}

/// The bits that the rounding sum gives, left to right over the ranks.  A chain carries sums from rank to rank in the
/// element type: each is rounded.
std::uint64_t left_fold(const Call& call, int ranks, std::uint64_t index) {
  const rondo::Reduction reduction{call.type, call.op, ranks, 0};
  if (call.schedule->algorithm == rondo::plan::Algorithm::chain && ranks > 1) {
    std::uint64_t sum = input_bits(call, 0, ranks, index);
    for (int rank = 1; rank < ranks; ++rank) {
      sum = reference::reduce(reduction, {sum, input_bits(call, rank, ranks, index)}, {rank == 1, true},
                              rank == ranks - 1);
    }
    return sum;
  }
  std::vector<std::uint64_t> operands;
  for (int rank = 0; rank < ranks; ++rank) operands.push_back(input_bits(call, rank, ranks, index));
  return reference::reduce(reduction, operands, std::vector<bool>(ranks, true), true);
}

std::uint64_t result_bits(const Call& call, int ranks, std::uint64_t index) {
  if (call.values == Values::rounding) return left_fold(call, ranks, index);
  if (call.op == Operator::avg && !is_integer(call.type)) {
    const int giver = static_cast<int>(index % ranks);
    return reference::reduce({call.type, call.op, ranks, 0}, {input_bits(call, giver, ranks, index)}, {true}, true);
  }
  return bits_of(call.type, whole_result(call, ranks, index));
}

template <typename Bits>
void fill(std::byte* target, DataType type, std::uint64_t elements, Bits&& bits) {
  const std::size_t size = element_bytes(type);
  for (std::uint64_t i = 0; i < elements; ++i) {
    const std::uint64_t value = bits(i);
    std::memcpy(target + i * size, &value, size);
  }
}

}  // namespace

Extent extent(const Call& call, int rank, int ranks) {
  const std::uint64_t all = static_cast<std::uint64_t>(ranks), at_root = rank == call.root ? 1 : 0;
  switch (call.schedule->kind) {
    case CollectiveKind::reduce: return {1, at_root};
    case CollectiveKind::reduce_scatter: return {all, 1};
    case CollectiveKind::all_gather: return {1, all};
    case CollectiveKind::gather: return {1, all * at_root};
    case CollectiveKind::scatter: return {all * at_root, 1};
    case CollectiveKind::all_to_all: return {all, all};
    default: return {1, 1};
  }
}

bool gives_all_the_same(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::broadcast || kind == CollectiveKind::all_gather;
}

std::uint64_t scalar(DataType type, int rank) { return bits_of(type, 1 + rank % 2); }

std::vector<std::byte> expected(const Call& call, int rank, int ranks) {
  const CollectiveKind kind = call.schedule->kind;
  const bool reduces = rondo::plan::Collective{kind}.reduces();
  if (reduces && call.values == Values::rounding && !call.schedule->left_fold && !is_integer(call.type)) return {};
  const std::uint64_t elements = call.count * extent(call, rank, ranks).out;
  std::vector<std::byte> bytes(elements * element_bytes(call.type));
  const std::uint64_t own = static_cast<std::uint64_t>(rank) * call.count;  // where this rank's block begins
  fill(bytes.data(), call.type, elements, [&](std::uint64_t i) {
    const int giver = call.count > 0 ? static_cast<int>(i / call.count) : 0;
    switch (kind) {
      case CollectiveKind::all_reduce:
      case CollectiveKind::reduce: return result_bits(call, ranks, i);
      case CollectiveKind::reduce_scatter: return result_bits(call, ranks, own + i);
      case CollectiveKind::broadcast: return input_bits(call, call.root, ranks, i);
      case CollectiveKind::scatter: return input_bits(call, call.root, ranks, own + i);
      case CollectiveKind::all_to_all: return input_bits(call, giver, ranks, own + i % call.count);
      default: return input_bits(call, giver, ranks, i % call.count);
    }
  });
  return bytes;
}

Buffers::Area::Area(std::size_t size) : bytes(size + 2 * guard_bytes, std::byte{guard_value}) {
  std::fill(bytes.begin() + guard_bytes, bytes.end() - guard_bytes, std::byte{unset_value});
}

bool Buffers::Area::intact() const noexcept {
  const auto is_guard = [](std::byte b) { return b == std::byte{guard_value}; };
  return std::all_of(bytes.begin(), bytes.begin() + guard_bytes, is_guard) &&
         std::all_of(bytes.end() - guard_bytes, bytes.end(), is_guard);
}

Buffers::Buffers(const Call& call, int rank, int ranks) : in_place_(call.in_place) {
  const CollectiveKind kind = call.schedule->kind;
  if (kind == CollectiveKind::all_to_all) in_place_ = false;  // it has no rule for that
  const Extent blocks = extent(call, rank, ranks);
  const std::size_t block_bytes = call.count * element_bytes(call.type);
  in_bytes_ = blocks.in * block_bytes;
  out_bytes_ = blocks.out * block_bytes;
  first_ = Area(in_place_ ? std::max(in_bytes_, out_bytes_) : in_bytes_);
  if (!in_place_) second_ = Area(out_bytes_);
  std::byte* in = first_.data();
  out_ = in_place_ ? first_.data() : second_.data();
  // In place a rank's own block is where it is among all blocks.
  if (in_place_ && blocks.out > 0 && blocks.in > blocks.out) out_ += rank * block_bytes;
  if (in_place_ && blocks.in > 0 && blocks.out > blocks.in) in += rank * block_bytes;
  in_ = in;
  if (kind != CollectiveKind::broadcast || rank == call.root) {
    fill(in, call.type, blocks.in * call.count, [&](std::uint64_t i) { return input_bits(call, rank, ranks, i); });
  }
  before_ = first_.bytes;
}

std::byte* Buffers::scratch(std::size_t bytes) {
  scratch_ = Area(bytes);
  return scratch_.data();
}

std::string Buffers::damage() const {
  if (!first_.intact() || (!in_place_ && !second_.intact())) return "bytes outside a buffer were written";
  if (!scratch_.intact()) return "bytes outside the scratch were written";
  // Everything but `out` is as it was.
  const std::byte* const area = first_.bytes.data();
  const std::size_t out_at = in_place_ ? static_cast<std::size_t>(out_ - area) : before_.size();
  const std::size_t behind = in_place_ ? out_at + out_bytes_ : before_.size();
  if (std::memcmp(area, before_.data(), out_at) != 0 ||
      std::memcmp(area + behind, before_.data() + behind, before_.size() - behind) != 0) {
    return "`in` was written";
  }
  return {};
}

}  // namespace stage
