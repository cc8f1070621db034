// Buffers that tell: plain memory whose end touches a page that faults, or ncclMemAlloc's between canaries.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <stdexcept>

#include "nccl.h"

namespace rondo::test {

class Buffer {
 public:
  Buffer(std::size_t bytes, bool mapped) : bytes_(bytes), mapped_(mapped) {
    const std::size_t whole = (bytes + 2 * canary + page - 1) / page * page;
    if (mapped_) {
      if (ncclMemAlloc(&base_, whole) != ncclSuccess) throw std::runtime_error(ncclGetLastError(nullptr));
    } else {
      base_ = ::mmap(nullptr, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (base_ == MAP_FAILED) throw std::bad_alloc();
      ::mprotect(static_cast<std::byte*>(base_) + whole, page, PROT_NONE);
    }
    all_ = whole;
    data_ = static_cast<std::byte*>(base_) + (mapped_ ? canary : whole - bytes);
    std::memset(base_, mark, whole);
  }
  ~Buffer() {
    if (mapped_)
      ncclMemFree(base_);
    else
      ::munmap(base_, all_ + page);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }
  void scribble() const { std::memset(data_, 0x5a, bytes_); }
  /// Whether every byte outside is as it was.
  bool untouched_outside() const {
    const auto* const base = static_cast<const unsigned char*>(base_);
    const std::size_t before = static_cast<std::size_t>(data_ - static_cast<std::byte*>(base_));
    for (std::size_t i = 0; i < all_; ++i) {
      if (i == before) i += bytes_;
      if (i < all_ && base[i] != mark) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t page = 4096;
  static constexpr std::size_t canary = 64;
  static constexpr unsigned char mark = 0xc7;
  std::size_t bytes_;
  bool mapped_;
  std::size_t all_ = 0;
  void* base_ = nullptr;
  std::byte* data_ = nullptr;
};

}  // namespace rondo::test
