// Chooses tiles, blocks and slices for a call: see layout.h for what they promise.
#include "plan/layout.h"

#include <algorithm>
#include <cassert>

namespace rondo::plan {
namespace {

constexpr std::size_t element_bytes_max = 8;

constexpr std::size_t ceil_divide(std::size_t a, std::size_t b) noexcept { return (a + b - 1) / b; }

/// A cache line, or the most of it that lets the widest message have one unit a block: wide messages of many ranks.
std::size_t unit_for(std::size_t slot_bytes, int widest) noexcept {
  const std::size_t room = slot_bytes / static_cast<std::size_t>(widest) / element_bytes_max * element_bytes_max;
  assert(room > 0 && "the widest message does not fit a slot");
  return std::min(limits::cache_line_bytes, room);
}

}  // namespace

Shape shape_of(const Collective& collective, const Plan& plan, int widest) {
  Shape shape;
  shape.segmented = collective.kind != CollectiveKind::all_reduce && collective.kind != CollectiveKind::reduce &&
                    collective.kind != CollectiveKind::broadcast;
  shape.blocks = shape.segmented ? 1 : collective.blocks;
  shape.widest = widest;
  shape.scratch_blocks = plan.scratch_blocks;
  shape.scratch_first = plan.scratch_first;
  shape.stripes = plan.stripes;
  return shape;
}

Layout::Layout(const Shape& shape, std::uint64_t count, DataType type, const Cut& cut)
    : stripes_(static_cast<std::uint32_t>(shape.stripes)),
      segmented_(shape.segmented),
      scratch_first_(shape.scratch_first),
      total_bytes_(count * element_bytes(type)) {
  // Few slices rather than small ones; then as few tiles as the slots allow, all of one size, as many for each stripe.
  const std::size_t unit_bytes = unit_for(cut.slot_bytes, shape.widest);
  const auto in_units = [&](std::size_t bytes) { return ceil_divide(bytes, unit_bytes) * unit_bytes; };
  const std::size_t slice_most = cut.slot_bytes / shape.widest / unit_bytes * unit_bytes;
  const std::size_t block_total = ceil_divide(total_bytes_, shape.blocks);
  const std::size_t wanted = ceil_divide(block_total, cut.slice_bytes_min);
  slices_ = static_cast<int>(std::clamp<std::size_t>(wanted, 1, cut.slices_max));
  const std::size_t fewest = std::max<std::size_t>(1, ceil_divide(block_total, slices_ * slice_most));
  const std::size_t passes = ceil_divide(fewest, stripes_) * stripes_;
  block_bytes_ = std::max(unit_bytes, in_units(ceil_divide(block_total, passes)));
  slice_bytes_ = in_units(ceil_divide(block_bytes_, slices_));
  block_bytes_ = slice_bytes_ * static_cast<std::size_t>(slices_);  // all slices are alike, but for the last tile's
  tile_bytes_ = block_bytes_ * shape.blocks;
  tiles_ = std::max<std::uint64_t>(1, ceil_divide(total_bytes_, tile_bytes_));
  scratch_bytes_ = shape.scratch_blocks * block_bytes_ * stripes_;
}

}  // namespace rondo::plan
