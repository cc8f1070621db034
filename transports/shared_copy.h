// A copy between two processes that both make.  Who borrows messages by their addresses reads from their front; their
// lender, who waits for it anyway, writes from their back, until they meet: two cores copy what one would.
//
// The board lies in memory that both share.  The borrower posts what is to be copied and where it goes; both take parts
// of what is left by one number that holds both ends.  Neither waits here: the borrower asks whether the lender's last
// part has come.  What the lender can't write the borrower reads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/limits.h"

namespace rondo::slots {

/// One message of a copy between two processes.
struct Copy {
  std::byte* here = nullptr;
  std::uint64_t there = 0;
  std::size_t bytes = 0;
};

/// Messages lent by address that are copied in one go, as a call costs 0.5 to 3 us besides its bytes.  They are
/// released together, after the last: half of a link's headers, so that meanwhile the sender lends as many more.
inline constexpr int copies_max = 32;

/// Finds memory that the peer can reach.  All calls are noexcept and quick; one lender serves one connection.
class Lender {
 public:
  virtual ~Lender() = default;
  /// Whether the peer can reach any memory of this process by its address, and gains by it for this many bytes.
  virtual bool reachable_by_address(std::size_t bytes) const noexcept = 0;
  /// Copies from and to the peer's memory by address, at most copies_max; false: it can't be reached (any more).
  virtual bool read(std::span<const Copy> copies) noexcept = 0;
  virtual bool write(std::span<const Copy> copies) noexcept = 0;
  /// The region and offset by which the peer can reach `bytes` at `data`; false where it can't (yet).
  virtual bool find(const void* data, std::size_t bytes, std::uint32_t& region, std::uint64_t& offset) noexcept = 0;
  /// The peer's memory, mapped here; null if it isn't.
  virtual std::byte* at(std::uint32_t region, std::uint64_t offset) noexcept = 0;
};

class SharedCopy {
 public:
  /// From how many bytes on it is worth while to ask the lender.
  static constexpr std::size_t bytes_min = 96 * 1024;
  /// And where the borrower lends to its lender, too, so that each has the other's copy to make.
  static constexpr std::size_t crossing_bytes_min = 256 * 1024;

  // ---- for the borrower

  /// Who makes a posted copy.
  enum class Makers { both, lender };

  /// Posts a copy: to `here`, the borrower's, from `there`, the lender's.  The one before is finished.
  void post(std::span<const Copy> copies, Makers makers) noexcept {
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < copies.size(); ++i) {
      copies_[i] = copies[i];
      total += copies[i].bytes;
    }
    written_.store(0, std::memory_order_relaxed);
    makers_.store(makers, std::memory_order_relaxed);
    const std::uint64_t job = (left_.load(std::memory_order_relaxed) >> job_shift) + 1;
    left_.store(job << job_shift | total, std::memory_order_release);
  }
  /// Reads parts until none is left.  `own`: adds what it read.  False: the lender's memory can't be reached.
  bool read_parts(Lender& lender, std::uint64_t& own) noexcept {
    Copy part[copies_max];
    for (;;) {
      std::uint64_t left = left_.load(std::memory_order_acquire);
      const std::uint64_t bytes = part_bytes(left);
      if (bytes == 0) return true;
      if (!left_.compare_exchange_weak(left, left + (bytes << front_shift), std::memory_order_acq_rel)) continue;
      if (!lender.read(cut(front_of(left), bytes, part, false))) return false;
      own += bytes;
    }
  }
  enum class Outcome { unfinished, finished, refused };
  /// Whether the lender has written the `bytes` that it took.  `refused`: it could not write, and won't.
  Outcome outcome(std::uint64_t bytes) const noexcept {
    const std::uint64_t written = written_.load(std::memory_order_acquire);
    if (written == refused_mark) return Outcome::refused;
    return written == bytes ? Outcome::finished : Outcome::unfinished;
  }
  /// Reads what the lender took, the last `bytes`, and could not write.
  bool read_rest(Lender& lender, std::uint64_t bytes) noexcept {
    Copy part[copies_max];
    return lender.read(cut(back_of(left_.load(std::memory_order_relaxed)), bytes, part, false));
  }
  /// Leaves nothing to be taken.  Returns what the lender has taken, of `total` bytes.
  std::uint64_t withdraw(std::uint64_t total) noexcept {
    std::uint64_t left = left_.load(std::memory_order_relaxed);
    while (!left_.compare_exchange_weak(left, (left & ~(mask << front_shift)) | back_of(left) << front_shift,
                                        std::memory_order_acq_rel)) {
    }
    return total - back_of(left);
  }

  // ---- for the lender

  /// Writes a part, if one is left; true if it did.
  bool write_part(Lender& lender) noexcept {
    std::uint64_t left = left_.load(std::memory_order_acquire);
    const bool alone = makers_.load(std::memory_order_relaxed) == Makers::lender;
    const std::uint64_t bytes = alone ? back_of(left) - front_of(left) : part_bytes(left);
    if (bytes == 0) return false;
    const std::uint64_t written = written_.load(std::memory_order_relaxed);
    if (written == refused_mark || !left_.compare_exchange_strong(left, left - bytes, std::memory_order_acq_rel)) {
      return false;
    }
    // From here to the store the post stays as it is.
    Copy part[copies_max];
    const bool done = lender.write(cut(back_of(left) - bytes, bytes, part, true));
    written_.store(done ? written + bytes : refused_mark, std::memory_order_release);
    return true;
  }

 private:
  // left_: number of the post, bytes taken from the front, bytes not taken from the back.
  static constexpr int front_shift = 24;
  static constexpr int job_shift = 48;
  static constexpr std::uint64_t mask = (std::uint64_t{1} << front_shift) - 1;
  static constexpr std::uint64_t refused_mark = ~std::uint64_t{0};
  static_assert(copies_max * limits::slot_bytes <= mask);
  static constexpr std::uint64_t front_of(std::uint64_t left) noexcept { return left >> front_shift & mask; }
  static constexpr std::uint64_t back_of(std::uint64_t left) noexcept { return left & mask; }

  /// A quarter of what is left, so that both end at about one time, but no crumbs.
  static std::uint64_t part_bytes(std::uint64_t left) noexcept {
    constexpr std::uint64_t least = 32 * 1024, most = 256 * 1024;
    const std::uint64_t bytes = back_of(left) - front_of(left);
    if (bytes < 2 * least) return bytes;
    return std::clamp(bytes / 4, least, most) / limits::cache_line_bytes * limits::cache_line_bytes;
  }

  /// The part [from, from + bytes) of the posted messages, one behind the other, as its copier sees it.
  std::span<const Copy> cut(std::uint64_t from, std::uint64_t bytes, Copy (&part)[copies_max],
                            bool for_lender) const noexcept {
    std::size_t count = 0;
    for (const Copy& copy : copies_) {
      if (bytes == 0) break;
      if (from >= copy.bytes) {
        from -= copy.bytes;
        continue;
      }
      const std::uint64_t some = std::min<std::uint64_t>(bytes, copy.bytes - from);
      const std::uint64_t there = copy.there + from;
      std::byte* const here = copy.here + from;
      if (for_lender) {
        part[count++] = {reinterpret_cast<std::byte*>(there), reinterpret_cast<std::uintptr_t>(here), some};
      } else {
        part[count++] = {here, there, some};
      }
      bytes -= some;
      from = 0;
    }
    return {part, count};
  }

  alignas(limits::cache_line_bytes) std::atomic<std::uint64_t> left_{0};
  std::atomic<std::uint64_t> written_{0};
  std::atomic<Makers> makers_{Makers::both};
  alignas(limits::cache_line_bytes) Copy copies_[copies_max];
};

}  // namespace rondo::slots
