// What can be said of a step without running it: the rules form, lending, range, write_to_in, overlap.
#pragma once

#include <cstdint>

#include "plan/verify.h"

namespace rondo::plan {

/// Where a rank's spaces lie, in blocks: `in` and `out` in one user buffer (apart, or aliased in place), and scratch.
struct Spaces {
  std::int32_t in_base = 0, in_blocks = 0;
  std::int32_t out_base = 0, out_blocks = 0;
  std::int32_t scratch_blocks = 0;
  std::int32_t user_blocks() const noexcept;
};
Spaces spaces(const Collective& collective, const Plan& plan, int rank, bool in_place);

/// Throws Broken (trees.h) for the first rule that step `index` of `strand` breaks by itself.
void check_form(const Collective& collective, const Spaces& spaces, const Strand& strand, std::size_t index);

}  // namespace rondo::plan
