// Memory that processes share by a descriptor: a memfd, sealed so that no holder can make the others' accesses fault.
#pragma once

#include <cstddef>
#include <string>

#include "base/descriptor.h"

namespace rondo {

/// A file of `bytes` bytes in memory, closed on exec, whose size never changes.  Nothing is committed yet.  `name`
/// shows in /proc.  Throws Error(system_error), also where the process may not make files of that size (ulimit -f):
/// for trying the kernel would kill it.
Descriptor make_memory_file(const char* name, std::size_t bytes);

/// Why this process may not make files of so many bytes (ulimit -f); "": it may.
std::string memory_file_limit(std::size_t bytes);

}  // namespace rondo
