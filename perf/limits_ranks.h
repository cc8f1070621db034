// Two ranks as two processes on two cores, and the least that any library must do to all-reduce between them: each
// method sums two buffers of float32 by hand-written loops, flags in shared memory, and nothing else.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rondo::limits_perf {

/// A value alone in its cache line.
struct alignas(64) Flag {
  std::atomic<std::uint64_t> value{0};
};

/// A one-way ring of slots, written by one rank and read by the other.
struct SlotRing {
  static constexpr int slots = 8;
  static constexpr std::size_t slot_bytes = 60 * 1024;
  Flag sent, released;
  alignas(4096) std::byte data[slots][slot_bytes];
};

/// What the ranks share besides their buffers.
struct Shared {
  Flag arrived[2];
  Flag measured_ns[2];
  SlotRing rings[2];  // by sender
};

/// One of the two ranks.
class Rank {
 public:
  /// `buffers` of both ranks are mapped in both.
  Rank(int rank, Shared& shared, float* const (&buffers)[2])
      : rank_(rank), shared_(&shared), mine_(buffers[rank]), peers_(buffers[1 - rank]) {}

  int rank() const { return rank_; }
  float* mine() const { return mine_; }
  float* peers() const { return peers_; }
  /// Returns when the other rank is here too; exits when it is dead.
  void barrier();
  Shared& shared() const { return *shared_; }

 private:
  int rank_;
  Shared* shared_;
  float *mine_, *peers_;
  std::uint64_t epoch_ = 0;
};

/// A way to put the sum of both ranks' first `count` floats in both ranks' buffers.  `count` is a multiple of 32.
struct Method {
  std::string_view name;
  void (*all_reduce)(Rank& rank, std::size_t count);
};

/// pull: each rank sums its half from the peer's memory, then copies the other half from there.
/// push: each rank sums its half and stores it to its own and to the peer's memory, in one pass.
/// Both again with streaming stores; slots: memory that the peer does not map, through slots.
inline constexpr int method_count = 5;
extern const Method methods[method_count];

}  // namespace rondo::limits_perf
