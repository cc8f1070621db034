// Strands that need no link: copies from one of the call's buffers to another.
//
// They are walked while all else waits, a part at a time, so that they keep no message from going out or being taken.
// A rank that copies a block and lends the same one would have it read twice from far away, and so has those who asked
// it to write what it lends (slots, shared_copy.h) get each part behind its own copy, while that is in this core's
// cache.
#include <algorithm>
#include <span>

#include "executor.h"

namespace rondo {
namespace {

/// How often who copies what it lends, too, looks for those who are to get it at the same time, before it begins.
constexpr unsigned looks_for_followers = 16;
/// From how many bytes on they get it at the same time.  Measured: fewer stay in a cache of 2 MiB, and go best as one.
constexpr std::size_t follow_bytes_min = 1024 * 1024;

}  // namespace

/// Does a part of what needs nobody else, if all else waits or nothing has moved.
bool Run::walk_locals(bool moved) noexcept {
  const std::span strands(strands_.data(), mine_.size());
  const auto waits = [](const StrandState& s) {
    return s.done || s.strand->local || s.blocked_on_message != nullptr || s.blocked_on_credit != nullptr;
  };
  if (moved && !std::ranges::all_of(strands, waits)) return false;
  const auto left = [](const StrandState& s) { return !s.done && s.strand->local; };
  const auto found = std::ranges::find_if(strands, left);
  return found != strands.end() && walk_local(*found);
}

/// Copies a part.  Where the same is lent, those to whom it is lent get that part while it is in this core's cache.
bool Run::walk_local(StrandState& s) noexcept {
  const std::vector<SendEnd*>& followers = s.strand->followers;
  const BoundStep& step = s.strand->steps[0];
  const auto place = [&](const plan::Range& range) { return base(range.space) + layout_->piece(range, 0, 0).offset; };
  const bool follow = !followers.empty() && layout_->total_bytes() >= follow_bytes_min &&
                      place(step.source) != place(step.target);  // in place nothing is read
  if (follow && s.tile == 0 && s.slice == 0 && looks_ < looks_for_followers) {
    if (std::ranges::any_of(followers, [](SendEnd* to) { return to->may_be_asked(); })) return false;
  }
  for (int left = limits::slices_max; left > 0 && !s.done && status_.ok(); --left) (void)advance(s);
  if (!follow) return true;
  const bool past = s.done || s.tile >= layout_->tiles();
  const std::size_t upto =
      past ? layout_->total_bytes()
           : layout_->piece(step.source, s.tile, s.slice).offset - layout_->piece(step.source, 0, 0).offset;
  for (SendEnd* const to : followers) to->follow(upto);
  return true;
}

}  // namespace rondo
