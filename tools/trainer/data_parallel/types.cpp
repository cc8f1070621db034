// Element types, and parameters in words.
#include "types.h"

#include <array>
#include <utility>

namespace rondo::data_parallel {
namespace {

struct Row {
  std::size_t bytes;
  const char* name;
};
constexpr std::array<Row, ncclNumTypes> table{{{1, "int8"},
                                               {1, "uint8"},
                                               {4, "int32"},
                                               {4, "uint32"},
                                               {8, "int64"},
                                               {8, "uint64"},
                                               {2, "float16"},
                                               {4, "float32"},
                                               {8, "float64"},
                                               {2, "bfloat16"},
                                               {1, "float8e4m3"},
                                               {1, "float8e5m2"}}};

Row row_of(ncclDataType_t type) {
  const auto index = static_cast<std::size_t>(type);
  return index < table.size() ? table[index] : Row{0, "no type"};
}

void append_list(std::string& text, const std::vector<std::int64_t>& numbers) {
  text += '[';
  for (std::size_t i = 0; i < numbers.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
  text += ']';
}

}  // namespace

std::size_t type_bytes(ncclDataType_t type) { return row_of(type).bytes; }
const char* type_name(ncclDataType_t type) { return row_of(type).name; }
bool is_gradient_type(ncclDataType_t type) {
  return type == ncclFloat16 || type == ncclBfloat16 || type == ncclFloat32 || type == ncclFloat64;
}

std::size_t elements_of(const Parameter& parameter) {
  std::size_t count = 1;
  for (const std::int64_t extent : parameter.shape) count *= static_cast<std::size_t>(extent);
  return count;
}
std::size_t bytes_of(const Parameter& parameter) { return elements_of(parameter) * type_bytes(parameter.type); }

std::string describe(const Parameter& parameter) {
  std::string text = "'" + parameter.name + "' " + type_name(parameter.type);
  append_list(text, parameter.shape);
  if (!parameter.strides.empty()) append_list(text += " strides", parameter.strides);
  if (!parameter.trainable) text += " without gradient";
  return text;
}

}  // namespace rondo::data_parallel
