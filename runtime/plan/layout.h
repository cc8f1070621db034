// From blocks to bytes: pure arithmetic, the same on every rank.
//
// Contiguous collectives (all_reduce, reduce, broadcast) cut `count` elements into tiles, a tile into blocks, a range
// of blocks into slices: each cut is in units of a cache line (of fewer bytes only where the widest message has so many
// blocks that their lines would not fit a slot), every part but the last ones has the same size, and the
// parts tile the buffer exactly (the last ones may be shorter or empty).
// Segmented collectives have one block of `count` elements a rank; a tile takes the same elements of every block, a
// range of L blocks is L segments, and a slice takes the same part of each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/limits.h"
#include "base/types.h"
#include "plan/plan.h"

namespace rondo::plan {

/// What a layout needs to know of the plans of all ranks (the same value on every rank).
struct Shape {
  std::int32_t blocks = 1;          // of a contiguous collective
  std::int32_t widest = 1;          // blocks of the widest range that any rank's plan sends
  std::int32_t scratch_blocks = 0;  // of this rank's plan; the only two that may differ by rank
  std::int32_t scratch_first = 0;
  std::int32_t stripes = 1;
  bool segmented = false;
};
Shape shape_of(const Collective& collective, const Plan& plan, int widest);

/// A slice of a range: `segments` pieces of `bytes` each, `stride` bytes apart, the first at `offset` in its space.
struct Piece {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  std::size_t stride = 0;
  std::int32_t segments = 1;
};

/// What the caller may tune; the same on every rank.
struct Cut {
  std::size_t slot_bytes = limits::slot_bytes;  // no message is larger
  int slices_max = limits::slices_max;          // m, at the most
  std::size_t slice_bytes_min = 32 * 1024;      // use fewer slices rather than smaller ones
};

class Layout {
 public:
  Layout() = default;
  Layout(const Shape& shape, std::uint64_t count, DataType type, const Cut& cut = {});

  std::uint64_t tiles() const noexcept { return tiles_; }
  int slices() const noexcept { return slices_; }
  std::size_t scratch_bytes() const noexcept { return scratch_bytes_; }
  std::size_t total_bytes() const noexcept { return total_bytes_; }  // of the buffer, or of each block if segmented

  /// The slice of `range` in `tile`.  For scratch the offset depends on the tile's stripe alone.  Ranges are within the
  /// plan's spaces.
  Piece piece(const Range& range, std::uint64_t tile, int slice) const noexcept {
    const bool scratch = range.space == Space::scratch;
    const std::size_t tile_at = tile * tile_bytes_;
    const std::size_t tile_size = std::min(tile_bytes_, total_bytes_ - tile_at);
    if (segmented_) {
      const std::size_t from = std::min(tile_size, slice * slice_bytes_);
      const std::size_t upto = std::min(tile_size, from + slice_bytes_);
      const std::size_t stride = scratch ? block_bytes_ : total_bytes_;
      return {range.first * stride + (scratch ? stripe_at(tile) : tile_at) + from, upto - from, stride, range.count};
    }
    // Block b of the tile is [b * block_bytes_, (b + 1) * block_bytes_), clipped to the tile.
    const std::size_t first = static_cast<std::size_t>(range.first + (scratch ? scratch_first_ : 0)) * block_bytes_;
    const std::size_t begin = std::min(tile_size, first);
    const std::size_t end = std::min(tile_size, first + range.count * block_bytes_);
    const std::size_t part = range.count * slice_bytes_;
    const std::size_t from = std::min(end, begin + slice * part);
    const std::size_t upto = std::min(end, from + part);
    const std::size_t scratch_at = static_cast<std::size_t>(scratch_first_) * block_bytes_;
    // An empty piece of a short last tile may begin before the scratch's first block.
    const std::size_t at = scratch ? std::max(from, scratch_at) - scratch_at + stripe_at(tile) : tile_at + from;
    return {at, upto - from, 0, 1};
  }

  /// Bytes from a piece of the range to the end of the range's last one, where all in between lie one behind the other
  /// in the order in which they are walked, each as long but the last; else no more than the piece's.
  std::size_t run(const Range& range, const Piece& piece) const noexcept {
    const bool alone = segmented_ ? range.count == 1 : block_bytes_ == tile_bytes_;
    if (!alone || stripes_ > 1 || range.space == Space::scratch) return piece.bytes;
    return (segmented_ ? (range.first + 1) * total_bytes_ : total_bytes_) - piece.offset;
  }

 private:
  /// Where the scratch of the tile's stripe begins.
  std::size_t stripe_at(std::uint64_t tile) const noexcept {
    return stripes_ == 1 ? 0 : tile % stripes_ * (scratch_bytes_ / stripes_);
  }

  std::uint64_t tiles_ = 1;  // at least 1: a call of zero elements sends its empty messages
  int slices_ = 1;
  std::uint32_t stripes_ = 1;
  bool segmented_ = false;
  std::int32_t scratch_first_ = 0;
  std::size_t total_bytes_ = 0;  // of the buffer (contiguous) or of each block (segmented)
  std::size_t tile_bytes_ = 1;   // of a full tile (of each block, if segmented)
  std::size_t block_bytes_ = 0;  // of a full block within a tile
  std::size_t slice_bytes_ = 0;  // of one block's slice
  std::size_t scratch_bytes_ = 0;
};

}  // namespace rondo::plan
