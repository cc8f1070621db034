// Host memory that peers can map (ncclMemAlloc): collectives on it lend instead of copying.
#pragma once

#include <cstddef>

namespace rondo {

/// At least `bytes` bytes, page aligned, zeroed, all of it committed (no later bus error).  Throws Error.
void* memory_alloc(std::size_t bytes);
/// Frees what memory_alloc gave; false if `memory` is not that.  No call may be using it.
bool memory_free(void* memory);
/// Whether peers can map all of these bytes.
bool memory_is_mappable(const void* memory, std::size_t bytes);

}  // namespace rondo
