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
/// In every second call what nobody else gets is copied last: what a call touches last is in this core's cache when the
/// next begins with it.  Measured: less than this stays there anyway, of more nothing is left, and what peers have
/// mapped loses by it.  Not over sockets: there the copy fills the wait.
constexpr std::size_t copy_last_bytes_min = 128 * 1024;
constexpr std::size_t copy_last_bytes_max = 1024 * 1024;
/// How often who would copy last looks for messages that bring nothing, before it copies all the same.
constexpr unsigned looks_before_copy = 300;

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
  if (found == strands.end()) return false;
  return !copies_last(*found) && walk_local(*found);
}

/// Whether the copy is to be made after all else.
bool Run::copies_last(const StrandState& s) const noexcept {
  const std::size_t bytes = layout_->total_bytes();
  const bool begun = s.tile != s.strand->first_tile || s.slice != 0;
  if (!copies_last_ || begun || bytes < copy_last_bytes_min || bytes > copy_last_bytes_max) return false;
  if (!s.strand->followers.empty() || program_->polled() || looks_ >= looks_before_copy) return false;
  const auto maps = [&](const Destination& to) { return to.link->can_lend(a_.in, bytes); };
  const std::span strands(strands_.data(), mine_.size());
  return std::ranges::any_of(strands, [](const StrandState& o) { return !o.done && !o.strand->local; }) &&
         std::ranges::none_of(strands,
                              [&](const StrandState& o) { return std::ranges::any_of(o.strand->destinations, maps); });
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
  if (s.done) copies_last_ = !copies_last_;
  if (!follow) return true;
  const bool past = s.done || s.tile >= layout_->tiles();
  const std::size_t upto =
      past ? layout_->total_bytes()
           : layout_->piece(step.source, s.tile, s.slice).offset - layout_->piece(step.source, 0, 0).offset;
  for (SendEnd* const to : followers) to->follow(upto);
  return true;
}

}  // namespace rondo
