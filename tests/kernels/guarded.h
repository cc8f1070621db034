// Memory between two pages that may not be touched: a byte read or written outside is a fault, at once.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <stdexcept>

/// `bytes` bytes that end exactly at a forbidden page (`at_end`), or begin `offset` bytes behind one.
class Guarded {
 public:
  Guarded(std::size_t bytes, bool at_end, std::size_t offset) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t inside = (bytes + offset + page) / page * page;
    mapped_bytes_ = inside + 2 * page;
    void* base = mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) throw std::runtime_error("mmap");
    base_ = static_cast<std::byte*>(base);
    if (mprotect(base_ + page, inside, PROT_READ | PROT_WRITE) != 0) throw std::runtime_error("mprotect");
    data_ = at_end ? base_ + page + inside - bytes : base_ + page + offset;
  }
  ~Guarded() { munmap(base_, mapped_bytes_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t mapped_bytes_ = 0;
};
