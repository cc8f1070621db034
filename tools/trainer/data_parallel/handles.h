// Owners of what the C interface gives out by pointer (memory, queues, events), and the check of its results.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

#include "nccl.h"
#include "rondo.h"

namespace rondo::data_parallel {

/// Throws Error unless the call succeeded.  `what` completes "cannot ...".
void require(ncclResult_t result, ncclComm_t comm, const char* what);

/// Memory that the ranks of one host can map, filled with zeros.
class Memory {
 public:
  Memory() = default;
  explicit Memory(std::size_t bytes);
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Memory();
  std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

class Queue {
 public:
  Queue();
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  operator cudaStream_t() const noexcept { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event();
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event();
  /// stream NULL: completes at once.
  void record(cudaStream_t stream);
  void wait();
  /// From `start`'s completion to this one's; both are complete.
  std::chrono::nanoseconds since(const Event& start) const;

 private:
  rondoEvent_t event_ = nullptr;
};

}  // namespace rondo::data_parallel
