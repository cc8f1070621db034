// Whole files in memory, with sentences for what goes wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rondo::data {

/// The bytes of a file, into `bytes` (whose capacity is used again).
void read_file(const std::string& path, std::vector<std::uint8_t>& bytes);

/// The unpacked bytes of a .gz file; a file that isn't compressed comes as it is.  Refuses more than `bytes_max`.
std::vector<std::uint8_t> read_gzip(const std::string& path, std::size_t bytes_max);

/// The system's words for errno, for the end of a sentence: ": No such file or directory".
std::string system_words();

}  // namespace rondo::data
