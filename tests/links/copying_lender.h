// A lender for tests of copies between processes, in one process.
#pragma once

#include <cerrno>
#include <cstring>
#include <functional>
#include <limits>

#include "transports/shared_copy.h"

namespace rondo {

/// Plays the kernel for one process: copies between addresses of this one while it may, and counts its calls.
class CopyingLender final : public slots::Lender {
 public:
  bool reachable_by_address(std::size_t) const noexcept override { return true; }
  bool read(std::span<const slots::Copy> copies) noexcept override {
    ++reads;
    if (meanwhile) meanwhile();
    if (!reachable || reads_left == 0) return false;
    --reads_left;
    for (const auto& copy : copies) std::memcpy(copy.here, reinterpret_cast<const void*>(copy.there), copy.bytes);
    return true;
  }
  bool write(std::span<const slots::Copy> copies) noexcept override {
    ++writes;
    if (!reachable || !may_write) return false;
    for (const auto& copy : copies) std::memcpy(reinterpret_cast<void*>(copy.there), copy.here, copy.bytes);
    return true;
  }
  int error() const noexcept override { return EPERM; }
  bool find(const void*, std::size_t, std::uint32_t&, std::uint64_t&) noexcept override { return false; }
  std::byte* at(std::uint32_t, std::uint64_t) noexcept override { return nullptr; }

  int reads = 0;
  int writes = 0;
  bool reachable = true;
  int reads_left = std::numeric_limits<int>::max();
  bool may_write = true;
  std::function<void()> meanwhile;  // what the other process does during a read
};

}  // namespace rondo
