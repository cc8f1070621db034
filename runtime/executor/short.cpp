// Short calls: a few small messages, one after another, whose bytes are worked out once and not at each call.
//
// What stands in the way of small messages is not their bytes but tiles, slices and strands: 40 of 75 ns.  So a program
// that is a row of copies, sends and receipts, of one small message each, is run as a row of moves.  It makes the same
// messages in the same order on each link; strands follow one another, as all but the last only send and copy, which
// waits for nothing but credits.  What cannot be done yet is left for the next look, as in other calls.
#include <algorithm>
#include <bit>
#include <cstring>

#include "executor.h"

namespace rondo {
namespace {

using plan::Operation;
using plan::Space;

/// 16 bytes at most, by two of N that may overlap.
template <std::size_t N>
void copy_ends(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  std::byte head[N], tail[N];
  std::memcpy(head, from, N);
  std::memcpy(tail, from + bytes - N, N);
  std::memcpy(to, head, N);
  std::memcpy(to + bytes - N, tail, N);
}

/// What fits into a header.  A call of memcpy would take longer.
void copy_few(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  static_assert(limits::inline_bytes <= 64);
  if (bytes > 32) return copy_ends<32>(to, from, bytes);
  if (bytes >= 16) return copy_ends<16>(to, from, bytes);
  if (bytes >= 8) return copy_ends<8>(to, from, bytes);
  if (bytes >= 4) return copy_ends<4>(to, from, bytes);
  for (std::size_t i = 0; i < bytes; ++i) to[i] = from[i];
}

/// Whether a step is a copy, a send or a receipt of one small message.
bool is_move(const BoundStep& step, std::size_t bytes) noexcept {
  if (step.finish || step.reply || step.reads_raw || step.operands.size() != 1 || step.to.size() > 1) return false;
  switch (step.operation) {
    case Operation::lend: return bytes <= limits::inline_bytes && !step.target;  // any lend may be declined
    case Operation::send:
    case Operation::recv_copy:
    case Operation::copy: return bytes <= limits::sent_bytes_max;
    default: return false;
  }
}

}  // namespace

void Run::prepare() {
  element_shift_ = std::countr_zero(element_bytes(a_.reduction.type));
  moves_.clear();
  const std::vector<BoundStrand>& strands = a_.program->strands();
  const bool simple =
      a_.layout.tiles() == 1 && a_.layout.slices() == 1 && a_.lending.program == nullptr && !a_.program->polled();
  const auto receives = [](const BoundStrand& strand) { return !strand.receivers.empty(); };
  if (!simple || strands.empty() || std::any_of(strands.begin(), strands.end() - 1, receives)) return;
  if (!std::ranges::all_of(strands, [this](const BoundStrand& strand) { return add_moves(strand); })) moves_.clear();
}

/// False: some step is none.
bool Run::add_moves(const BoundStrand& strand) {
  if (strand.first_tile != 0) return false;
  for (const BoundStep& step : strand.steps) {
    const plan::Piece source = step.source ? a_.layout.piece(step.source, 0, 0) : plan::Piece{};
    const plan::Piece target = step.target ? a_.layout.piece(step.target, 0, 0) : plan::Piece{};
    const plan::Piece& shape = step.source ? source : target;
    if (step.source && (step.source.space != Space::in || source.segments != 1)) return false;
    if (step.target && (step.target.space != Space::out || target.segments != 1)) return false;
    if (!is_move(step, shape.bytes)) return false;
    Move move{.bytes = shape.bytes, .source = source.offset, .target = target.offset};
    if (step.operands[0].link != nullptr) {
      move.from = step.operands[0].link;
      move.peer = step.operands[0].peer;
    }
    if (!step.to.empty()) {
      move.to = step.to[0].link;
      move.peer = step.to[0].peer;
    }
    moves_.push_back(move);
  }
  return true;
}

bool Run::walk_moves() noexcept {
  const std::size_t before = moved_;
  while (moved_ < moves_.size()) {
    if (!make(moves_[moved_])) return moved_ != before;
    ++moved_;
  }
  steps_walked_ = moves_.size();
  strands_left_ = 0;
  return true;
}

bool Run::make(const Move& move) noexcept {
  const std::byte* from = a_.in + move.source;
  if (move.from != nullptr) {
    const Message* const message = move.from->peek();
    if (message == nullptr || !matches(*message, move.bytes, move.peer)) return false;
    from = message->data;
  }
  std::byte* const to = move.to != nullptr ? move.to->reserve(move.bytes) : a_.out + move.target;
  if (to == nullptr) return false;
  if (move.bytes <= limits::inline_bytes) {
    copy_few(to, from, move.bytes);
  } else {
    const Source source{from, false};
    a_.reduce(a_.reduction, &source, 1, &to, 1, move.bytes >> element_shift_, false);
  }
  if (move.to != nullptr) move.to->commit(move.bytes, a_.signature, {.among_others = a_.among_others});
  if (move.from != nullptr) move.from->release();
  return true;
}

}  // namespace rondo
