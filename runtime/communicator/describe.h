// Calls in words, for the log and for sentences of failures.
#pragma once

#include <cstdint>
#include <string>

#include "transport.h"

namespace rondo {

/// "1 byte", "3 bytes"
std::string plural(std::uint64_t count, const std::string& noun);
/// "call 7: all_reduce of 1024 float32 elements (sum)"
std::string describe_call(const Signature& signature);

}  // namespace rondo
