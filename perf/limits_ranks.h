// Two ranks as two processes on two cores, and the least that any library must do to all-reduce between them: each
// method sums two buffers of float32 by hand-written loops, flags in shared memory, and nothing else.
#pragma once

#include <sys/types.h>

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
  // In one line: who comes second finds the other's flag in the line that it takes to write its own.
  alignas(64) std::atomic<std::uint64_t> arrived[2] = {};
  Flag measured_ns[2];
  pid_t process[2] = {};
  SlotRing rings[2];  // by sender
};

/// One of the two ranks.
class Rank {
 public:
  /// `mapped` of both ranks are mapped in both; `plain` is each rank's own memory, at the same address in both.
  Rank(int rank, Shared& shared, float* const (&mapped)[2], float* plain)
      : rank_(rank), shared_(&shared), mapped_{mapped[0], mapped[1]}, plain_(plain) {}

  int rank() const { return rank_; }
  /// Which memory `mine` and `peers` are in.
  void use_plain(bool plain) { use_plain_ = plain; }
  float* mine() const { return use_plain_ ? plain_ : mapped_[rank_]; }
  /// In plain memory: only for the kernel to read, in the peer's process.
  float* peers() const { return use_plain_ ? plain_ : mapped_[1 - rank_]; }
  /// Returns when the other rank is here too; exits when it is dead.
  void barrier();
  Shared& shared() const { return *shared_; }

 private:
  int rank_;
  Shared* shared_;
  float* mapped_[2];
  float* plain_;
  bool use_plain_ = false;
  std::uint64_t epoch_ = 0;
};

/// A way to put the sum of both ranks' first `count` floats in both ranks' buffers.  `count` is a multiple of 32.
struct Method {
  std::string_view name;
  void (*all_reduce)(Rank& rank, std::size_t count);
  bool plain;  // needs Rank::use_plain
};

/// pull: each rank sums its half from the peer's memory, then copies the other half from there.
/// push: each rank sums its half and stores it to its own and to the peer's memory, in one pass.
/// Both again with streaming stores; slots: through slots, as for memory that the peer does not map.
/// kernel: pull by process_vm_readv, of memory that the peer does not map, in pieces of 64 KiB that are summed while
/// hot.
inline constexpr int method_count = 6;
extern const Method methods[method_count];

/// Whether the kernel lets this rank read the other's memory; errno says why not.
bool kernel_copies(const Rank& rank);

}  // namespace rondo::limits_perf
