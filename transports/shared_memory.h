// Memory that processes share by descriptor: a memfd and its mapping.
#pragma once

#include <cstddef>
#include <utility>

#include "base/descriptor.h"

namespace rondo {

class SharedMemory {
 public:
  /// Creates `bytes` (rounded up to pages), and commits nothing yet.  `name` shows in /proc/PID/maps only.
  static SharedMemory create(const char* name, std::size_t bytes);
  /// Maps `bytes` of a peer's memory.  Throws Error.
  static SharedMemory map(int fd, std::size_t bytes);
  /// Commits these whole pages, zeroed, on a node (nodes::none: wherever the kernel takes them), by the memory's
  /// descriptor.  Memory that runs out is an Error here, never a bus error later, whatever the size of /dev/shm.
  void commit(int fd, std::size_t at, std::size_t bytes, int node);

  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_), fd_(std::move(other.fd_)) {}
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  void* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  int fd() const noexcept { return fd_.get(); }
  Descriptor take_descriptor() noexcept { return std::move(fd_); }
  /// Gives the memory back and leaves zeros of its own at the same addresses: what still reads or writes there, for a
  /// result that nobody wants any more, neither faults nor is seen by anyone.
  void empty() noexcept;
  /// Leaves the mapping in place when this object ends.
  void keep() noexcept { data_ = nullptr; }

 private:
  SharedMemory(void* data, std::size_t bytes, Descriptor fd) noexcept
      : data_(data), bytes_(bytes), fd_(std::move(fd)) {}
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Descriptor fd_;
};

}  // namespace rondo
