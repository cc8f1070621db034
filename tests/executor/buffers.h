// The buffers of one rank's call, with guards around them, what they hold before the call, and what they must hold
// after it.  Inputs follow from rank and index alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "stage.h"

namespace stage {

/// Elements of a rank's `in` and `out` in units of count.
struct Extent {
  std::uint64_t in = 1;
  std::uint64_t out = 1;
};
Extent extent(const Call& call, int rank, int ranks);
/// Whether every rank's `out` must hold the same.
bool gives_all_the_same(rondo::CollectiveKind kind);

/// premul_sum's scalar of a rank.
std::uint64_t scalar(DataType type, int rank);

/// What the rank's `out` must hold; empty where nothing, or where only the agreement of ranks can be checked.
std::vector<std::byte> expected(const Call& call, int rank, int ranks);

class Buffers {
 public:
  Buffers(const Call& call, int rank, int ranks);
  const std::byte* in() const noexcept { return in_; }
  std::byte* out() noexcept { return out_; }
  std::byte* scratch(std::size_t bytes);
  std::size_t out_bytes() const noexcept { return out_bytes_; }
  /// What is wrong outside of `out`; empty if nothing is.
  std::string damage() const;

 private:
  static constexpr std::size_t guard_bytes = 64;
  struct Area {
    std::vector<std::byte> bytes;
    explicit Area(std::size_t size = 0);
    std::byte* data() noexcept { return bytes.data() + guard_bytes; }
    bool intact() const noexcept;
  };
  Area first_;   // in; in place both
  Area second_;  // out, where it is apart
  Area scratch_;
  const std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
  std::size_t in_bytes_ = 0;
  std::size_t out_bytes_ = 0;
  std::vector<std::byte> before_;  // first_, before the call
  bool in_place_ = false;
};

}  // namespace stage
