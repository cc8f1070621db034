// See buffer.h.  A page in front and a page behind hold the canaries, so that the data begin on a page like an
// allocation of their own would.
#include "buffer.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/nccl.h"

namespace rondo::perf {

namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t canary_bytes = 256;
constexpr std::byte canary{0xc5};

}  // namespace

Buffer::Buffer(std::size_t bytes, std::size_t offset_bytes, Memory memory) : memory_(memory) {
  const std::size_t whole = bytes + offset_bytes + 2 * page_bytes;
  if (memory == Memory::alloc) {
    if (ncclMemAlloc(&allocation_, whole) != ncclSuccess) {
      throw std::runtime_error("ncclMemAlloc cannot give " + std::to_string(whole) +
                               " bytes: " + ncclGetLastError(nullptr));
    }
  } else if (posix_memalign(&allocation_, page_bytes, whole) != 0) {
    throw std::runtime_error("there is no memory for a buffer of " + std::to_string(whole) +
                             " bytes; give a smaller -e");
  }
  data_ = static_cast<std::byte*>(allocation_) + page_bytes + offset_bytes;
  std::fill_n(data_, bytes, std::byte{0});  // so that no measurement meets pages for the first time
}

Buffer::~Buffer() {
  if (memory_ == Memory::plain)
    std::free(allocation_);
  else if (allocation_ != nullptr)
    (void)ncclMemFree(allocation_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : memory_(other.memory_),
      allocation_(std::exchange(other.allocation_, nullptr)),
      data_(other.data_),
      armed_bytes_(other.armed_bytes_) {}

void Buffer::arm(std::size_t bytes) noexcept {
  armed_bytes_ = bytes;
  std::fill_n(data_ - canary_bytes, canary_bytes, canary);
  std::fill_n(data_ + bytes, canary_bytes, canary);
}

std::uint64_t Buffer::damaged() const noexcept {
  const auto changed = [](const std::byte* from) {
    return std::count_if(from, from + canary_bytes, [](std::byte byte) { return byte != canary; });
  };
  return static_cast<std::uint64_t>(changed(data_ - canary_bytes) + changed(data_ + armed_bytes_));
}

}  // namespace rondo::perf
