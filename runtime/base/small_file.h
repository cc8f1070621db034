// Reading the files that users name in variables: whole, up to a limit, and without waiting for anybody.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

namespace rondo {

struct SmallFile {
  std::string text;
  std::string trouble;  // not empty: why it can't be read
  mode_t mode = 0;      // 0: it can't be opened
};

/// Follows links.  Of what is no file (a folder, a pipe, a device that goes on for ever) it says so; an empty device
/// (/dev/null) is an empty file.
SmallFile read_small_file(const std::string& path, std::size_t bytes_max);

}  // namespace rondo
