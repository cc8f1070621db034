// What ThreadSanitizer is told of the order that a ring's numbers make.  It knows addresses, not memory: two ranks of
// one process map a ring twice, and what one wrote in its mapping the other reads in its own.  Elsewhere this is
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* key);
extern "C" void __tsan_release(void* key);
#endif

namespace rondo::slots {

#if defined(__SANITIZE_THREAD__)
/// Told are addresses of this process's own that are never unmapped.  A ring's key is one of the rank that made it: in
/// another process memory of some other kind may lie there, or come and go, while ThreadSanitizer looks it up.
inline std::uint64_t told_addresses[1u << 16];
inline void* told_address(std::uintptr_t key) noexcept { return &told_addresses[key * 0x9e3779b97f4a7c15u >> 48]; }
#endif

/// What this thread did so far comes before what a thread does that acquires the key later.
inline void tell_release([[maybe_unused]] std::uintptr_t key) noexcept {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(told_address(key));
#endif
}
inline void tell_acquire([[maybe_unused]] std::uintptr_t key) noexcept {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(told_address(key));
#endif
}

}  // namespace rondo::slots
