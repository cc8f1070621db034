// Element types and operators, with NCCL's values, and what arithmetic on sizes needs of them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo {

enum class DataType : std::uint8_t {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
  float8_e4m3 = 10,
  float8_e5m2 = 11,
};
inline constexpr int data_type_count = 12;

enum class Operator : std::uint8_t { sum = 0, prod = 1, max = 2, min = 3, avg = 4, premul_sum = 5 };
inline constexpr int operator_count = 6;

/// The collectives that plans exist for (house.md, section 3).  Bcast is Broadcast in place.
enum class CollectiveKind : std::uint8_t {
  all_reduce,
  reduce,
  reduce_scatter,
  broadcast,
  all_gather,
  gather,
  scatter,
  all_to_all,
  send_recv,
};

/// By data type.  Not within the function, where it would be written to the stack at every call.
inline constexpr std::uint8_t bytes_of_elements[data_type_count] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
constexpr std::size_t element_bytes(DataType type) noexcept { return bytes_of_elements[static_cast<int>(type)]; }

constexpr bool is_integer(DataType type) noexcept { return type <= DataType::uint64; }

}  // namespace rondo
