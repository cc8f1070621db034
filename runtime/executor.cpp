// One slice at a time: wait for every message and every credit, read, reduce, store, reply, release, send.
// See executor.h for the contract and plan/plan.h for what each operation means.
#include "executor.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/limits.h"

namespace rondo {
namespace {

using plan::Operation;
using plan::Piece;
using plan::Space;

/// Bytes of a buffer; empty if `bytes` is 0.
struct Extent {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  bool overlaps(const Extent& other) const noexcept {
    return begin < other.begin + other.bytes && other.begin < begin + bytes;
  }
};

/// What a range covers in one tile: from the first to the last byte of all its slices.
Extent extent(const plan::Layout& layout, const plan::Range& range, std::uint64_t tile, const std::byte* base) {
  if (!range) return {};
  const Piece first = layout.piece(range, tile, 0);
  const Piece last = layout.piece(range, tile, layout.slices() - 1);
  const std::size_t end = last.offset + (last.segments - 1) * last.stride + last.bytes;
  return {base + first.offset, end - first.offset};
}

}  // namespace

// ---------------------------------------------------------------- one call
// The parts of advance() are inlined by force: that saves 2 of 20 ns a step.

void Run::start() {
  status_ = {};
  lent_ = lent_ && a_.continues;
  steps_walked_ = 0;
  short_ = !moves_.empty() && (a_.alone || a_.owns_ends) && a_.share == RunArguments::whole && !lent_;
  if (short_) {
    program_ = a_.program;
    moved_ = 0;
    strands_left_ = 1;
    begun_ = true;
    return;
  }
  element_shift_ = std::countr_zero(element_bytes(a_.reduction.type));
  make_room(*a_.program);
  use(a_.program, a_.layout);
  if (a_.lending.program != nullptr) {
    make_room(*a_.lending.program);
    if (can_lend()) use(a_.lending.program, a_.lending.layout);
  }
  // Not where it may begin again, and send once more.
  by_step_ = gains_ahead();
  begun_ = a_.alone || a_.owns_ends;
  if (strands_.size() < mine_.size()) strands_.resize(mine_.size());
  strands_left_ = mine_.size();
  for (std::size_t i = 0; i < strands_left_; ++i) {
    StrandState& s = strands_[i];
    s.strand = &mine_[i];
    s.tile = s.strand->first_tile;
    s.step = 0;
    s.slice = 0;
    s.done = false;
    s.holds_ends = s.begun = begun_;
    s.replies.clear();
    if (s.strand->replies_max > 0) s.replies.reserve(s.strand->replies_max * layout_->slices());
    if (!lent_) s.lent_until.assign(s.strand->destinations.size(), 0);
    s.blocked_on_message = nullptr;
    s.blocked_on_credit = nullptr;
    s.tickets.clear();
    if (!s.holds_ends) {
      for (EndOrder* end : s.strand->ends) s.tickets.push_back(end->taken++);
    }
  }
}

[[gnu::noinline]] void Run::make_room(const Program& program) {
  const auto operands = static_cast<std::size_t>(program.operands_max());
  if (sources_.size() < operands) {
    sources_.resize(operands);
    source_strides_.resize(operands);
  }
  const auto targets = static_cast<std::size_t>(program.targets_max());
  if (targets_.size() < targets) {
    targets_.resize(targets);
    target_strides_.resize(targets);
  }
}

// ---------------------------------------------------------------- calls with two programs

/// Whether all that this rank would lend can be lent.
[[gnu::noinline]] bool Run::can_lend() const noexcept {
  const std::size_t bytes = a_.layout.total_bytes();
  const auto lends = [&](const Destination& to) {
    return to.link->can_lend(a_.in, bytes) && (a_.in == a_.out || to.link->can_lend(a_.out, bytes));
  };
  const auto& destinations = a_.lending.program->strands()[0].destinations;
  return a_.may_lend && std::all_of(destinations.begin(), destinations.end(), lends);
}

/// Whether a message that this rank's program does not expect is the first one of a rank that began with the other.
[[gnu::noinline]] bool Run::begins_other(const Message& message) const noexcept {
  if (a_.lending.program == nullptr || message.signature != a_.signature) return false;
  const bool lends = program_ != a_.program;
  const Program& other = lends ? *a_.program : *a_.lending.program;
  const plan::Layout& layout = lends ? a_.layout : a_.lending.layout;
  const auto& steps = other.strands()[0].steps;
  const auto receives = [](const BoundStep& step) {
    return std::ranges::any_of(step.operands, [](const Operand& operand) { return operand.link != nullptr; });
  };
  const auto first = std::find_if(steps.begin(), steps.end(), receives);
  return first != steps.end() && message.bytes == layout.piece(first->source, 0, 0).bytes;
}

/// Begins again with the program that copies, as some rank does; nobody has touched anything yet.  The others release
/// unread what was offered, and the end waits for that.
[[gnu::noinline]] bool Run::copy_after_all(StrandState& s) noexcept {
  use(a_.program, a_.layout);
  s.strand = &mine_[0];
  s.step = 0;
  s.replies.clear();
  began_again_ = true;
  return blocked(s, nullptr, nullptr, -1);
}

bool Run::progress() noexcept {
  if (short_) return walk_moves();
  bool moved = false;
  const std::size_t count = mine_.size();
  // A strand that always finds a message would keep others of this thread from sending, and their receivers idle.  What
  // is only offered costs no time, and the more of it a receiver finds the better.
  const int turn = a_.alone && count == 1 ? std::numeric_limits<int>::max() : limits::slices_max;
  for (std::size_t i = 0; i < count; ++i) {
    StrandState& s = strands_[i];
    if (s.done || s.strand->local) continue;
    // Most looks find nothing: ask for the one missing message before working out the step again.
    if (s.blocked_on_message == nullptr || s.blocked_on_message->peek() != nullptr) {
      int left = turn;
      while (left > 0 && !s.done && status_.ok()) {
        const bool offers = s.strand->steps[s.step].operation == Operation::lend;
        if (!advance(s)) break;
        moved = true;
        left -= offers ? 0 : 1;
      }
      if (left == 0) (void)blocked(s, nullptr, nullptr, -1);  // not blocked: what it last waited for is past
    }
    if (!moved && program_->polled() && s.begun) poll(s);
  }
  if (program_->local()) moved |= walk_locals(moved);
  looks_ = moved ? 0 : looks_ + 1;
  return moved;
}

void Run::lead() noexcept {
  if (short_ || done()) return;
  StrandState& s = strands_[0];
  if (s.done || !advance(s) || s.done || s.tile >= layout_->tiles()) return;
  // The next look is for a message: not for the whole step, as it has hardly come.
  const BoundStep& step = s.strand->steps[s.step];
  const auto message =
      std::ranges::find_if(step.operands, [](const Operand& operand) { return operand.link != nullptr; });
  if (message == step.operands.end() || step.lands_from != ReceiveEnd::never_lands) return;
  (void)blocked(s, message->link, nullptr, message->peer);
}

bool Run::help() noexcept {
  if (short_) return false;
  for (std::size_t i = 0; i < mine_.size(); ++i) {
    const StrandState& s = strands_[i];
    if (s.done || (!s.strand->lends && !lent_)) continue;  // lent_: by a call that this one continues
    if (std::ranges::any_of(s.strand->senders, [](SendEnd* sender) { return sender->help(); })) return true;
  }
  for (std::size_t i = 0; i < mine_.size(); ++i) {
    const StrandState& s = strands_[i];
    if (s.done || !s.strand->lands || s.blocked_on_message == nullptr) continue;
    if (s.blocked_on_message->help()) return true;
  }
  return false;
}

std::byte* Run::base(Space space) const noexcept {
  switch (space) {
    case Space::in: return const_cast<std::byte*>(a_.in);  // never a target: the verifier's rule "write to in"
    case Space::out: return a_.out;
    default: return a_.scratch;
  }
}

bool Run::blocked(StrandState& s, ReceiveEnd* message, SendEnd* credit, int peer) noexcept {
  s.blocked_on_message = message;
  s.blocked_on_credit = credit;
  s.blocked_peer = peer;
  return false;
}

/// Whether the ends that the step uses are the strand's, or were before; without a step, all.
bool Run::acquire(StrandState& s, const BoundStep* step) noexcept {
  const auto came = [&](std::size_t end) { return s.strand->ends[end]->served >= s.tickets[end]; };
  std::size_t all = 0;
  while (all < s.tickets.size() && came(all)) ++all;
  s.holds_ends = all == s.tickets.size();
  const bool enough = s.holds_ends || (step != nullptr && by_step_ && std::ranges::all_of(step->ends, came));
  if (!enough) return blocked(s, nullptr, nullptr, -1);
  return begun_ = s.begun = true;
}

/// The calls behind this one may use what it has used last: so they send before this one's messages have come.
[[gnu::noinline]] void Run::pass_ends_on(StrandState& s) noexcept {
  if (!by_step_ || s.tile + static_cast<std::uint64_t>(program_->shape().stripes) < layout_->tiles()) return;
  for (const std::uint32_t end : s.strand->steps[s.step].last_ends) ++s.strand->ends[end]->served;
}

[[gnu::always_inline]] inline bool Run::gather_sources(StrandState& s, const BoundStep& step, const Piece& shape,
                                                       std::size_t bytes) noexcept {
  for (std::size_t i = 0; i < step.operands.size(); ++i) {
    const Operand& operand = step.operands[i];
    if (operand.link == nullptr) {
      sources_[i] = {base(step.source.space) + shape.offset, step.reads_raw};
      source_strides_[i] = shape.stride;
      continue;
    }
    if (bytes >= step.lands_from && shape.segments == 1) name_landings(s, step, shape);
    const Message* message = operand.link->peek();
    if (message != nullptr && message->bytes != bytes && begins_other(*message)) [[unlikely]] {
      if (program_ != a_.program) return copy_after_all(s);
      operand.link->release();
      message = operand.link->peek();
    }
    if (message == nullptr) return blocked(s, operand.link, nullptr, operand.peer);
    if (!matches(*message, bytes, operand.peer)) return false;
    sources_[i] = {message->data, message->raw};
    source_strides_[i] = shape.bytes;
  }
  return true;
}

/// Names where the slice and those behind it on its link should arrive: of this step and, where nothing in between
/// minds, of the same step in the tiles to come.
void Run::name_landings(const StrandState& s, const BoundStep& step, const Piece& shape) noexcept {
  ReceiveEnd& link = *step.operands[0].link;
  const int wanted = link.landings_wanted();
  if (wanted == 0) return;
  std::byte* const target = base(step.target.space);
  const std::size_t run = layout_->run(step.target, shape);
  if (run > shape.bytes && step.to.empty() && lands_ahead(s, step)) {
    link.land(target + shape.offset, shape.bytes, 0, run);
    return;
  }
  link.land(target + shape.offset, shape.bytes, 0);
  std::uint64_t tile = s.tile;
  int slice = s.slice;
  for (int ahead = 1; ahead < wanted; ++ahead) {
    if (++slice == layout_->slices()) {
      if (tile == s.tile && !lands_ahead(s, step)) return;
      tile += static_cast<std::uint64_t>(program_->shape().stripes);
      if (tile >= layout_->tiles()) return;
      slice = 0;
    }
    const Piece next = layout_->piece(step.target, tile, slice);
    if (next.segments != 1) return;
    link.land(target + next.offset, next.bytes, ahead);
  }
}

/// Whether messages for later tiles may be stored as soon as they have come.  What they depend on has happened; and
/// until its turn nothing may touch where they go.  Others touch only what this rank's steps lend.  Steps of other
/// tiles touch other bytes, but of scratch; so left are the steps of the same tile: those before it in its strand, and
/// those of other strands.  All tiles are cut alike: one tells for all.
bool Run::lands_ahead(const StrandState& s, const BoundStep& step) const noexcept {
  if (!step.only_receipt || step.target.space != Space::out) return false;
  const Extent landing = extent(*layout_, step.target, s.tile, a_.out);
  for (const BoundStrand& strand : program_->strands()) {
    for (const BoundStep& other : strand.steps) {
      if (&other == &step) break;
      for (const plan::Range& range : {other.source, other.target}) {
        if (extent(*layout_, range, s.tile, base(range.space)).overlaps(landing)) return false;
      }
    }
  }
  return true;
}

[[gnu::always_inline]] inline void Run::add_target(int index, std::byte* data, std::size_t stride) noexcept {
  targets_[index] = data;
  target_strides_[index] = stride;
}

/// Reduces sources_ to the first `target_count` of targets_, segment by segment.
[[gnu::always_inline]] inline void Run::reduce(const BoundStep& step, int target_count, const Piece& shape) noexcept {
  const int source_count = static_cast<int>(step.operands.size());
  const std::size_t elements = shape.bytes >> element_shift_;
  for (int segment = 0;; ++segment) {
    a_.reduce(a_.reduction, sources_.data(), source_count, targets_.data(), target_count, elements, step.finish);
    if (segment + 1 >= shape.segments) return;
    for (int i = 0; i < source_count; ++i) sources_[i].data += source_strides_[i];
    for (int i = 0; i < target_count; ++i) targets_[i] += target_strides_[i];
  }
}

/// Whether a copy of `in` is left for its receiver to apply the pre-operator to, as it is where `in` is lent: the
/// receiver accumulates without rounding first, so that all ranks round alike, and lent or copied gives the same bits.
bool Run::sends_raw(const BoundStep& step) const noexcept { return step.reads_raw && a_.may_lend && !step.finish; }

bool Run::advance(StrandState& s) noexcept {
  const bool past = s.tile >= layout_->tiles();
  if (!s.holds_ends && !acquire(s, past ? nullptr : &s.strand->steps[s.step])) return false;
  if (past) {
    return (a_.followed || (settle(s, s.strand->destinations) && flush(s))) && leave(s);
  }
  const BoundStep& step = s.strand->steps[s.step];
  if (step.operation == Operation::wait) {
    if (!settle(s, step.to)) return false;
    s.slice = layout_->slices() - 1;  // once a step, not once a slice
    return next(s);
  }
  const Piece source = step.source ? layout_->piece(step.source, s.tile, s.slice) : Piece{};
  const bool apart = step.target && !step.same_piece;
  const Piece other = apart ? layout_->piece(step.target, s.tile, s.slice) : Piece{};
  // Not a copy: that reads whole what was stored in parts, for which a processor waits until all it has stored before,
  // such as the last message's header, is in its cache.
  const Piece& target = step.same_piece ? source : other;
  if (step.operation == Operation::lend) return lend(s, step, source, target);

  const Piece& shape = step.source ? source : target;
  const std::size_t bytes = shape.bytes * static_cast<std::size_t>(shape.segments);
  if (!gather_sources(s, step, shape, bytes)) return std::exchange(began_again_, false);
  // `in` alone, to others alone, travels as it is: see Run::sends_raw.
  const bool raw = sends_raw(step) && step.operands.size() == 1 && !step.target && !step.reply;
  if (raw) sources_[0].raw = false;
  const std::byte* const whole = sources_[0].data;
  const bool copies = step.copies && !sources_[0].raw && (shape.segments == 1 || step.operands[0].link != nullptr);
  int targets = 0;
  if (step.target) {
    std::byte* const data = base(step.target.space) + target.offset;
    const bool in_place = step.operands.size() == 1 && sources_[0].data == data && !sources_[0].raw && !step.finish;
    if (!in_place) add_target(targets++, data, target.stride);
  }
  for (const Destination& to : step.to) {
    std::byte* const room = to.link->reserve(bytes);
    if (room == nullptr) return blocked(s, nullptr, to.link, to.peer);
    if (!copies) add_target(targets++, room, shape.bytes);
  }
  const bool answers_from_target = step.copies_reply && target.segments == 1;
  if (step.reply) {
    for (const Operand& operand : step.operands) {
      if (operand.link == nullptr) continue;
      const Message& message = *operand.link->peek();
      std::byte* const room = message.lent ? message.reply : operand.reverse->reserve_answer(message);
      if (room == nullptr) return blocked(s, nullptr, operand.reverse, operand.peer);
      if (message.lent || !answers_from_target) add_target(targets++, room, shape.bytes);
    }
  }
  if (targets > 0) reduce(step, targets, shape);
  for (const Destination& to : step.to) {
    if (copies) {
      to.link->send_copy(whole, bytes, a_.signature, {raw, false});
    } else {
      to.link->commit(bytes, a_.signature, {.raw = raw, .among_others = a_.among_others});
    }
  }
  for (const Operand& operand : step.operands) {
    if (operand.link == nullptr) continue;
    const bool answers = step.reply && !operand.link->peek()->lent;
    operand.link->release();
    if (!answers) continue;  // else behind the release, so that it tells of it
    if (answers_from_target) {
      operand.reverse->send_copy(base(step.target.space) + target.offset, bytes, a_.signature, {});
    } else {
      operand.reverse->commit(bytes, a_.signature, {});
    }
  }
  return next(s);
}

/// Whether this call lends memory that may have to be copied by the kernel.
bool Run::offers(SendEnd& link, const std::byte* source, const std::byte* reply, std::size_t bytes) const noexcept {
  return a_.by_address || (link.can_lend(source, bytes) && (reply == nullptr || link.can_lend(reply, bytes)));
}

/// Whether what a step lends goes by way of the shelf.
bool Run::shelves(const BoundStep& step, const std::byte* source, std::size_t bytes) const noexcept {
  if (a_.shelf == nullptr || !a_.alone || a_.share != RunArguments::whole) return false;
  if (!step.only_lend || step.to.size() < 2 || bytes > a_.shelf->room_bytes() || bytes <= limits::inline_bytes) {
    return false;
  }
  return !std::ranges::all_of(step.to, [&](const Destination& to) { return to.link->can_lend(source, bytes); });
}

/// Offers the source range to every destination, or copies it where the offer is declined.
bool Run::lend(StrandState& s, const BoundStep& step, const Piece& source, const Piece& target) noexcept {
  const std::size_t bytes = source.bytes * static_cast<std::size_t>(source.segments);
  for (const Destination& to : step.to) {
    if (to.link->reserve(bytes) == nullptr) return blocked(s, nullptr, to.link, to.peer);
  }
  const std::byte* from = base(step.source.space) + source.offset;
  std::byte* const reply = step.target ? base(step.target.space) + target.offset : nullptr;
  const bool may_lend = a_.may_lend && source.segments == 1 && !step.finish;
  const bool raw = sends_raw(step);
  const bool may_send_from = source.segments == 1 && !step.finish && raw == step.reads_raw;
  std::size_t run = step.only_lend ? layout_->run(step.source, source) : 0;
  const bool to_others = s.strand->destinations.size() > 1;
  const bool shelved = may_lend && shelves(step, from, bytes);
  if (shelved) {
    const SendEnd* borrowed = nullptr;
    std::byte* const room = a_.shelf->next(borrowed);
    if (room == nullptr) {
      const auto to = std::ranges::find(step.to, borrowed, &Destination::link);
      return to != step.to.end() ? blocked(s, nullptr, to->link, to->peer) : blocked(s, nullptr, nullptr, -1);
    }
    std::memcpy(room, from, bytes);
    from = room;
    run = 0;
  }
  for (const Destination& to : step.to) {
    if (may_lend && offers(*to.link, from, reply, bytes) &&
        to.link->lend(from, reply, bytes, a_.signature, {step.reads_raw, reply != nullptr, to_others, run})) {
      lent_ = true;
      s.lent_until[to.index] = to.link->sent();
      if (shelved) a_.shelf->lent(*to.link);
      continue;
    }
    if (may_send_from && to.link->send_from(from, bytes, a_.signature, {raw, reply != nullptr})) {
      lent_ = true;
      s.lent_until[to.index] = to.link->sent();
      if (reply != nullptr) s.replies.push_back({to.reverse, to.peer, reply, target});
      continue;
    }
    sources_[0] = {from, step.reads_raw && !raw};
    source_strides_[0] = source.stride;
    add_target(0, to.link->reserve(bytes), source.bytes);
    reduce(step, 1, source);
    to.link->commit(bytes, a_.signature, {raw, reply != nullptr});
    if (reply != nullptr) s.replies.push_back({to.reverse, to.peer, reply, target});
  }
  if (shelved) a_.shelf->pass();
  return next(s);
}

/// Waits until all that was lent to `to` is released; stores the replies to declined lends, in the order of the lends.
bool Run::settle(StrandState& s, std::span<const Destination> to) noexcept {
  for (Reply& reply : std::span(s.replies)) {
    const auto wanted = [&](const Destination& d) { return d.peer == reply.peer; };
    if (reply.link == nullptr || std::none_of(to.begin(), to.end(), wanted)) continue;
    const std::size_t bytes = reply.piece.bytes;
    if (reply.piece.segments == 1) reply.link->land(reply.target, bytes);
    const Message* message = reply.link->peek();
    if (message == nullptr) return blocked(s, reply.link, nullptr, reply.peer);
    if (!matches(*message, bytes * static_cast<std::size_t>(reply.piece.segments), reply.peer)) return false;
    for (int i = 0; i < reply.piece.segments && message->data != reply.target; ++i) {
      const Source source{message->data + i * bytes, false};
      std::byte* const to = reply.target + i * reply.piece.stride;
      a_.reduce(a_.reduction, &source, 1, &to, 1, bytes >> element_shift_, false);
    }
    reply.link->release();
    reply.link = nullptr;
  }
  for (const Destination& d : to) {
    const std::uint64_t until = s.lent_until[d.index];
    // Where nothing was lent, not even asked: the count is in the peer's cache.
    if (until != 0 && d.link->released() < until) return blocked(s, nullptr, d.link, d.peer);
  }
  const auto settled = [](const Reply& reply) { return reply.link == nullptr; };
  if (std::all_of(s.replies.begin(), s.replies.end(), settled)) s.replies.clear();
  return true;
}

[[gnu::always_inline]] inline bool Run::next(StrandState& s) noexcept {
  if (++s.slice < layout_->slices()) return true;
  s.slice = 0;
  if (!s.tickets.empty()) [[unlikely]]
    pass_ends_on(s);
  if (++s.step < s.strand->steps.size()) return true;
  s.step = 0;
  s.tile += static_cast<std::uint64_t>(program_->shape().stripes);
  steps_walked_ += s.strand->steps.size();
  return true;
}

/// The return rule: what this strand owes must not need this thread any more.
bool Run::flush(StrandState& s) noexcept {
  for (SendEnd* sender : s.strand->senders) {
    if (!sender->flush()) return blocked(s, nullptr, sender, -1);
  }
  return true;
}

/// Moves the ends that move only when asked.  What is not waited for may stay where it is for some looks: each is a
/// system call, and mostly in vain.
void Run::poll(const StrandState& s) const noexcept {
  for (SendEnd* sender : s.strand->polled_senders) (void)sender->flush();
  if (!s.holds_ends || (looks_ % 4 != 3 && looks_ < 16)) return;  // others may hold them, and poll
  for (ReceiveEnd* receiver : s.strand->polled_receivers) {
    if (receiver != s.blocked_on_message) receiver->poll();  // that one was just looked at
  }
}

bool Run::leave(StrandState& s) noexcept {
  for (std::size_t i = 0; i < s.tickets.size(); ++i) {
    std::uint64_t& served = s.strand->ends[i]->served;
    if (!by_step_ || served == s.tickets[i]) ++served;  // else it was passed on
  }
  s.tickets.clear();
  s.done = true;
  --strands_left_;
  return true;
}

std::vector<int> Run::waits_for() const {
  std::vector<int> peers;
  if (const Move* const move = blocked_move()) return {move->peer};
  for (std::size_t i = 0; i < mine_.size(); ++i) {
    const StrandState& s = strands_[i];
    if (s.done || s.blocked_peer < 0) continue;
    if (std::find(peers.begin(), peers.end(), s.blocked_peer) == peers.end()) peers.push_back(s.blocked_peer);
  }
  return peers;
}

Status Run::blocked_status() const noexcept {
  if (const Move* const move = blocked_move()) {
    const Status status = move->from != nullptr ? move->from->status()
                          : move->to != nullptr ? move->to->status()
                                                : Status{};
    return {status.code, move->peer};
  }
  for (std::size_t i = 0; i < mine_.size(); ++i) {
    const StrandState& s = strands_[i];
    if (s.done) continue;
    if (s.blocked_on_message != nullptr && !s.blocked_on_message->status().ok()) {
      return {s.blocked_on_message->status().code, s.blocked_peer};
    }
    if (s.blocked_on_credit != nullptr && !s.blocked_on_credit->status().ok()) {
      return {s.blocked_on_credit->status().code, s.blocked_peer};
    }
  }
  return {};
}

/// Strands that have got no end of a link yet leave them to the runs before.
void Run::stop() noexcept {
  if (short_) return;  // its links touch no memory of the call's by themselves
  for (std::size_t i = 0; i < mine_.size(); ++i) {
    const StrandState& s = strands_[i];
    if (s.done || !s.begun) continue;
    for (SendEnd* sender : s.strand->polled_senders) sender->stop();
    for (ReceiveEnd* receiver : s.strand->receivers) receiver->stop();
  }
}

void Run::add_wakeups(Wakeups& wakeups) const noexcept {
  if (short_) return wakeups.await_ring();
  for (std::size_t i = 0; i < mine_.size(); ++i) {
    const StrandState& s = strands_[i];
    if (s.done || !s.begun) continue;
    if (s.blocked_on_message != nullptr && !s.blocked_on_message->polled()) wakeups.await_ring();
    if (s.blocked_on_credit != nullptr && !s.blocked_on_credit->polled()) wakeups.await_ring();
    for (const SendEnd* sender : s.strand->polled_senders) sender->add_wakeups(wakeups);
    for (const ReceiveEnd* receiver : s.strand->polled_receivers) receiver->add_wakeups(wakeups);
  }
}

}  // namespace rondo
