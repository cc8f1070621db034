// A buffer with canaries: bytes just before and just after the part in use, which no collective may touch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "options.h"

namespace rondo::perf {

class Buffer {
 public:
  /// Room for `bytes`, `offset_bytes` off a page's beginning.  Throws std::runtime_error with a sentence.
  Buffer(std::size_t bytes, std::size_t offset_bytes, Memory memory);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&&) = delete;

  std::byte* data() const noexcept { return data_; }
  /// Sets the canaries around the first `bytes` bytes.
  void arm(std::size_t bytes) noexcept;
  /// How many bytes of the canaries have changed since.
  std::uint64_t damaged() const noexcept;

 private:
  Memory memory_;
  void* allocation_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t armed_bytes_ = 0;
};

}  // namespace rondo::perf
