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

/// A message, or a run of them, of a copy between two processes.
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
  /// Why such a copy was refused last, an errno; 0: none was, or it is not known.
  virtual int error() const noexcept { return 0; }
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
  /// Below how many it is not worth while where ranks share cores, if the borrower lends, the lender lends to others,
  /// or both lend in turn.
  static constexpr std::size_t busy_bytes_max = std::size_t{2} << 20;

  // ---- for the borrower

  /// Who makes a posted copy.
  enum class Makers { both, lender };

  /// Of a post, at the most.
  static constexpr std::size_t bytes_max = std::size_t{1} << 29;

  /// Posts a copy: to `here`, the borrower's, from `there`, the lender's.  The one before is finished.
  void post(std::span<const Copy> copies, Makers makers) noexcept {
    count_ = copies.size();
    total_ = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      copies_[i] = copies[i];
      total_ += copies[i].bytes;
    }
    written_.store(0, std::memory_order_relaxed);
    makers_.store(makers, std::memory_order_relaxed);
    const std::uint64_t job = (left_.load(std::memory_order_relaxed) >> job_shift) + 1;
    const std::uint64_t lines = (total_ + limits::cache_line_bytes - 1) / limits::cache_line_bytes;
    left_.store(job << job_shift | lines, std::memory_order_release);
  }
  /// Reads a part, if one is left, and adds its bytes to `own`.  False: the lender's memory can't be reached.
  bool read_part(Lender& lender, std::uint64_t& own) noexcept {
    std::uint64_t left = left_.load(std::memory_order_acquire);
    std::uint64_t lines;
    do {
      lines = part_lines(left);
      if (lines == 0) return true;
    } while (!left_.compare_exchange_weak(left, left + (lines << front_shift), std::memory_order_acq_rel));
    Copy part[copies_max];
    const Bytes bytes = bytes_of(front_of(left), lines);
    own += bytes.size;
    return lender.read(cut(bytes, part, false));
  }
  /// Reads parts until none is left.
  bool read_parts(Lender& lender, std::uint64_t& own) noexcept {
    for (std::uint64_t before = own;; before = own) {
      if (!read_part(lender, own)) return false;
      if (own == before) return true;
    }
  }
  enum class Outcome { unfinished, finished, refused };
  /// Whether the lender has written the `bytes` that it took.  `refused`: it could not write, and won't.
  Outcome outcome(std::uint64_t bytes) const noexcept {
    const std::uint64_t written = written_.load(std::memory_order_acquire);
    if (written == refused_mark) return Outcome::refused;
    return written == bytes ? Outcome::finished : Outcome::unfinished;
  }
  /// Reads all, as the lender could not write what it took, and takes no more.
  bool read_all(Lender& lender) noexcept {
    Copy part[copies_max];
    return lender.read(cut({0, total_}, part, false));
  }
  /// Leaves nothing to be taken.  Returns the bytes that the lender has taken, where `own` were read.
  std::uint64_t withdraw(std::uint64_t own) noexcept {
    std::uint64_t left = left_.load(std::memory_order_relaxed);
    while (!left_.compare_exchange_weak(left, left >> job_shift << job_shift, std::memory_order_acq_rel)) {
    }
    return total_ - own - (at(back_of(left)) - at(front_of(left)));
  }

  // ---- for the lender

  enum class Wrote { nothing, part, last };
  /// Writes a part, if one is left.  `last`: it left none.
  Wrote write_part(Lender& lender) noexcept {
    std::uint64_t left = left_.load(std::memory_order_acquire);
    const bool alone = makers_.load(std::memory_order_relaxed) == Makers::lender;
    const std::uint64_t lines = alone ? large_part_lines(left) : part_lines(left);
    if (lines == 0) return Wrote::nothing;
    const std::uint64_t written = written_.load(std::memory_order_relaxed);
    if (written == refused_mark || !left_.compare_exchange_strong(left, left - lines, std::memory_order_acq_rel)) {
      return Wrote::nothing;
    }
    write(lender, bytes_of(back_of(left) - lines, lines), written, alone);
    return front_of(left) == back_of(left) - lines ? Wrote::last : Wrote::part;
  }
  /// Writes what is left of the first `bytes` of a copy that the lender is to make.
  Wrote write_front(Lender& lender, std::uint64_t bytes) noexcept {
    std::uint64_t left = left_.load(std::memory_order_acquire);
    const std::uint64_t front = front_of(left);
    const std::uint64_t upto =
        std::min(back_of(left), (bytes + limits::cache_line_bytes - 1) / limits::cache_line_bytes);
    if (upto <= front || makers_.load(std::memory_order_relaxed) != Makers::lender) return Wrote::nothing;
    const std::uint64_t written = written_.load(std::memory_order_relaxed);
    const std::uint64_t taken = left + ((upto - front) << front_shift);
    if (written == refused_mark || !left_.compare_exchange_strong(left, taken, std::memory_order_acq_rel)) {
      return Wrote::nothing;
    }
    write(lender, bytes_of(front, upto - front), written, false);
    return upto == back_of(left) ? Wrote::last : Wrote::part;
  }
  /// Whether something is left to be taken.
  bool posted() const noexcept {
    const std::uint64_t left = left_.load(std::memory_order_acquire);
    return front_of(left) < back_of(left);
  }

 private:
  struct Bytes {
    std::uint64_t from, size;
  };

  // left_: number of the post, and in cache lines what is taken from the front, and not taken from the back.
  static constexpr int front_shift = 24;
  static constexpr int job_shift = 48;
  static constexpr std::uint64_t mask = (std::uint64_t{1} << front_shift) - 1;
  static constexpr std::uint64_t refused_mark = ~std::uint64_t{0};
  static_assert(bytes_max / limits::cache_line_bytes <= mask && copies_max * limits::slot_bytes <= bytes_max);
  static constexpr std::uint64_t front_of(std::uint64_t left) noexcept { return left >> front_shift & mask; }
  static constexpr std::uint64_t back_of(std::uint64_t left) noexcept { return left & mask; }

  /// Writes bytes that were taken: until it says so the post stays as it is.
  void write(Lender& lender, Bytes bytes, std::uint64_t written, bool backwards) noexcept {
    Copy part[copies_max];
    std::span<const Copy> copies = cut(bytes, part, true);
    if (backwards && copies.size() == 1) copies = from_the_end(part);
    const bool done = lender.write(copies);
    written_.store(done ? written + bytes.size : refused_mark, std::memory_order_release);
  }

  /// Where a line begins; the last one may be short.
  std::uint64_t at(std::uint64_t line) const noexcept { return std::min(line * limits::cache_line_bytes, total_); }

  /// A third of what is left, so that both end at about one time, but no crumbs.
  static std::uint64_t part_lines(std::uint64_t left) noexcept {
    constexpr std::uint64_t least = 64 * 1024 / limits::cache_line_bytes, most = 16 * least;
    const std::uint64_t lines = back_of(left) - front_of(left);
    return lines < 2 * least ? lines : std::clamp(lines / 3, least, most);
  }
  /// What a lender takes that is to write all: few large parts, as a call costs up to 4 us besides its bytes.
  static std::uint64_t large_part_lines(std::uint64_t left) noexcept {
    constexpr std::uint64_t whole = 1024 * 1024 / limits::cache_line_bytes, few = 3 * whole;
    const std::uint64_t lines = back_of(left) - front_of(left);
    return lines <= whole ? lines : lines <= few ? lines / 2 : lines - lines / 8;
  }
  /// The one copy in `part` as blocks from the last to the first: what was copied last, from front to back or so, may
  /// still be in the cache where that ended.
  static std::span<const Copy> from_the_end(Copy (&part)[copies_max]) noexcept {
    constexpr std::size_t least = 512 * 1024;
    const Copy whole = part[0];
    const std::size_t block = std::max(least, (whole.bytes + copies_max - 1) / copies_max);
    std::size_t count = 0;
    for (std::size_t end = whole.bytes; end > 0; ++count) {
      const std::size_t begin = (end - 1) / block * block;
      part[count] = {whole.here + begin, whole.there + begin, end - begin};
      end = begin;
    }
    return {part, count};
  }

  Bytes bytes_of(std::uint64_t first, std::uint64_t lines) const noexcept {
    return {at(first), at(first + lines) - at(first)};
  }

  /// A part of the posted messages, one behind the other, as its copier sees it.
  std::span<const Copy> cut(Bytes wanted, Copy (&part)[copies_max], bool for_lender) const noexcept {
    auto [from, bytes] = wanted;
    std::size_t count = 0;
    for (const Copy& copy : std::span(copies_, count_)) {
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
  std::size_t count_ = 0;    // of copies_
  std::uint64_t total_ = 0;  // their bytes
  alignas(limits::cache_line_bytes) Copy copies_[copies_max];
};

}  // namespace rondo::slots
