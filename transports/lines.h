// What a core may do with cache lines that it shares with another core, besides reading and writing them: who of the
// two has a line decides how long the other waits for it.
#pragma once

#include <cstddef>

#include "base/limits.h"

namespace rondo::slots {

/// Begins to fetch a cache line that will be written, so that the write need not wait.
inline void fetch_for_writing(void* line) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<char*>(line)));  // does nothing on processors without it
#else
  __builtin_prefetch(line, 1);
#endif
}

/// Has a cache line that was written leave this core's own caches for the one that all cores share: its reader gets it
/// sooner there than by asking this core.
inline void push_out([[maybe_unused]] const void* line) noexcept {
#if defined(__x86_64__)
  asm volatile("cldemote %0" : : "m"(*static_cast<const char*>(line)));  // does nothing on processors without it
#endif
}

/// Makes lines that were read this core's own, by a store to each, where their writer would wait for each of them
/// (processor::writers_wait_for_readers).  What they hold is lost.
inline void take_lines(std::byte* data, std::size_t bytes) noexcept {
  for (std::size_t at = 0; at < bytes; at += limits::cache_line_bytes) {
    *static_cast<volatile std::byte*>(data + at) = std::byte{};
  }
}

}  // namespace rondo::slots
