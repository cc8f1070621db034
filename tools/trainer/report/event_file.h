// The bytes of TensorBoard's event files: records of protocol buffers, framed with lengths and checksums.  Only what
// scalars need.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tools/trainer/report/journal.h"

namespace rondo::report {

/// CRC-32C (Castagnoli: polynomial 0x1edc6f41, reflected), as in RFC 3720.
std::uint32_t crc32c(std::string_view bytes);

/// Length (8 bytes, little-endian), its checksum, the payload, its checksum.  A checksum c is stored turned right by 15
/// bits plus 0xa282ead8.
std::string record(std::string_view payload);

/// The first record's payload: Event{wall_time = 1, file_version = 3: "brain.Event:2"}.
std::string first_event(double wall_time);

/// Event{wall_time = 1, step = 2, summary = 5: {value = 1: {tag = 1, simple_value = 2}, ...}}.
std::string scalars_event(double wall_time, const Row& row);

}  // namespace rondo::report
