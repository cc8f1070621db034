// Element types: their sizes, names, and which of them gradients may have.
#pragma once

#include <cstddef>
#include <string>

#include "layer.h"

namespace rondo::data_parallel {

/// Bytes of an element; 0 for a value that is no type.
std::size_t type_bytes(ncclDataType_t type);
/// "float32"; "no type" for a value that is none.
const char* type_name(ncclDataType_t type);
/// float16, bfloat16, float32, float64.
bool is_gradient_type(ncclDataType_t type);

/// Product of the shape.
std::size_t elements_of(const Parameter& parameter);
std::size_t bytes_of(const Parameter& parameter);
/// "'fc.weight' float32[10, 512]", with " strides[512, 1]" if the parameter tells them.
std::string describe(const Parameter& parameter);

}  // namespace rondo::data_parallel
