// Binds plans to the ends of links: see executor.h for the contract.
#include <algorithm>

#include "executor.h"

namespace rondo {
namespace {

using plan::Operation;
using plan::Space;

/// From how many bytes on a message may arrive where it is stored: copied as it is, to one place.
std::size_t landing_bytes_min(const BoundStep& step) noexcept {
  const bool stored_as_it_is =
      step.operands.size() == 1 && step.operands[0].link != nullptr && step.target && !step.source && !step.finish;
  return stored_as_it_is ? step.operands[0].link->lands_from() : ReceiveEnd::never_lands;
}

/// Whether the step's one message comes from a link that brings the strand no other step's.
bool brings_only(const BoundStep& step, const BoundStrand& strand) noexcept {
  if (step.lands_from == ReceiveEnd::never_lands) return false;
  const ReceiveEnd* const link = step.operands[0].link;
  int receipts = 0;
  for (const BoundStep& other : strand.steps) {
    for (const Operand& operand : other.operands) receipts += operand.link == link;
    for (const Destination& to : other.to) receipts += to.reverse == link;
  }
  return receipts == 1;
}

/// Whether the step lends what stays as it is until the call's end, over links that carry nothing else of the strand's.
bool lends_only(const BoundStep& step, const BoundStrand& strand) noexcept {
  if (step.operation != Operation::lend || step.target || step.reads_raw || step.source.space != Space::in)
    return false;
  const auto sends_there = [&](const BoundStep& other) {
    return std::ranges::any_of(other.to, [&](const Destination& to) {
      return std::ranges::any_of(step.to, [&](const Destination& own) { return own.link == to.link; });
    });
  };
  return std::ranges::none_of(strand.steps, [&](const BoundStep& o) { return &o != &step && sends_there(o); });
}

/// Whether its one operand may leave as it is, without a copy to the link's room.
bool may_copy(const BoundStep& step) noexcept {
  const auto copies = [](const Destination& to) { return to.link->copies(); };
  return step.operands.size() == 1 && !step.finish && !step.to.empty() &&
         std::all_of(step.to.begin(), step.to.end(), copies);
}

/// Whether its answers may leave from where the result is stored.
bool may_copy_reply(const BoundStep& step) noexcept {
  const auto copies = [](const Operand& from) { return from.link == nullptr || from.reverse->copies(); };
  return step.reply && step.finish && step.target.space == Space::out && std::ranges::all_of(step.operands, copies);
}

/// Those to whom the strands lend the range.
std::vector<SendEnd*> borrowers_of(const plan::Range& source, const std::vector<BoundStrand>& strands) {
  std::vector<SendEnd*> borrowers;
  for (const BoundStrand& strand : strands) {
    for (const BoundStep& step : strand.steps) {
      if (!step.only_lend || step.source != source) continue;
      for (const Destination& to : step.to) borrowers.push_back(to.link);
    }
  }
  return borrowers;
}

template <typename T>
void add_distinct(std::vector<T*>& list, T& item) {
  if (std::find(list.begin(), list.end(), &item) == list.end()) list.push_back(&item);
}

/// Says where the strand uses each of its ends, and where last.  A reply may come whenever: its end is kept to the end.
void note_uses(BoundStrand& strand, Links& links, int lane) {
  std::vector<bool> kept(strand.ends.size());
  const auto index_of = [&](const EndOrder& end) {
    return static_cast<std::uint32_t>(std::ranges::find(strand.ends, &end) - strand.ends.begin());
  };
  for (BoundStep& step : strand.steps) {
    const auto uses = [&](const EndOrder& end) { step.ends.push_back(index_of(end)); };
    for (const Operand& operand : step.operands) {
      if (operand.link != nullptr) uses(links.receive_order(operand.peer, lane));
      if (operand.reverse != nullptr) uses(links.send_order(operand.peer, lane));
    }
    for (const Destination& to : step.to) {
      if (step.operation != Operation::wait) uses(links.send_order(to.peer, lane));
      if (const Destination& distinct = strand.destinations[to.index]; distinct.reverse != nullptr) {
        const EndOrder& reverse = links.receive_order(to.peer, lane);
        kept[index_of(reverse)] = true;
        if (step.operation == Operation::wait) uses(reverse);
      }
    }
  }
  for (std::uint32_t end = 0; end < strand.ends.size(); ++end) {
    const auto uses = [&](const BoundStep& step) { return std::ranges::find(step.ends, end) != step.ends.end(); };
    const auto last = std::find_if(strand.steps.rbegin(), strand.steps.rend(), uses);
    if (!kept[end] && last != strand.steps.rend()) last->last_ends.push_back(end);
  }
}

}  // namespace

Program::Program(const plan::Collective& collective, const plan::Plan& plan, int widest, Links& links, int shares)
    : shape_(plan::shape_of(collective, plan, widest)) {
  std::vector<plan::Strand> by_share(plan.strands);
  const auto share_of = [&](const plan::Strand& strand) { return strand.lane % shares; };
  std::ranges::stable_sort(by_share, {}, share_of);
  shares_.resize(static_cast<std::size_t>(shares));
  for (const plan::Strand& strand : by_share) {
    BoundStrand bound;
    bound.first_tile = static_cast<std::uint64_t>(strand.stripe);
    for (const plan::Step& step : strand.steps) {
      BoundStep b;
      b.operation = step.operation;
      b.finish = step.finish;
      bound.lends = bound.lends || step.operation == Operation::lend;
      b.reply = step.reply;
      b.reads_raw = collective.reduces() && step.source.space == Space::in;
      b.source = step.source;
      b.target = step.target;
      b.same_piece = step.source && step.target && step.source.space != Space::scratch &&
                     step.target.space != Space::scratch && step.source.first == step.target.first &&
                     step.source.count == step.target.count;
      for (const int peer : step.from) {
        Operand operand;
        operand.peer = peer;
        if (peer != plan::here) {
          operand.link = &links.receive_end(peer, strand.lane);
          add_distinct(bound.receivers, *operand.link);
          add_distinct(bound.ends, links.receive_order(peer, strand.lane));
          if (step.reply) {
            operand.reverse = &links.send_end(peer, strand.lane);
            add_distinct(bound.senders, *operand.reverse);
            add_distinct(bound.ends, links.send_order(peer, strand.lane));
          }
        }
        b.operands.push_back(operand);
      }
      if (b.operands.empty() && step.source) b.operands.push_back(Operand{});  // copy, copy_send, send, lend
      const bool awaits_reply = step.operation == Operation::lend && step.target;
      for (const int peer : step.to) {
        Destination to;
        to.peer = peer;
        to.link = &links.send_end(peer, strand.lane);
        add_distinct(bound.senders, *to.link);
        add_distinct(bound.ends, links.send_order(peer, strand.lane));
        if (awaits_reply) {
          to.reverse = &links.receive_end(peer, strand.lane);
          add_distinct(bound.receivers, *to.reverse);
          add_distinct(bound.ends, links.receive_order(peer, strand.lane));
          ++bound.replies_max;
        }
        const auto known = std::find_if(bound.destinations.begin(), bound.destinations.end(),
                                        [&](const Destination& d) { return d.peer == peer; });
        to.index = static_cast<int>(known - bound.destinations.begin());
        if (known == bound.destinations.end()) bound.destinations.push_back(to);
        if (to.reverse != nullptr) bound.destinations[to.index].reverse = to.reverse;
        b.to.push_back(to);
      }
      b.lands_from = landing_bytes_min(b);
      b.copies = may_copy(b);
      b.copies_reply = may_copy_reply(b);
      operands_max_ = std::max(operands_max_, static_cast<int>(b.operands.size()));
      targets_max_ = std::max(targets_max_, static_cast<int>(b.to.size() + b.operands.size()) + 1);
      bound.steps.push_back(std::move(b));
    }
    note_uses(bound, links, strand.lane);
    for (BoundStep& b : bound.steps) {
      b.only_receipt = brings_only(b, bound);
      bound.lands = bound.lands || b.lands_from != ReceiveEnd::never_lands;
      b.only_lend = lends_only(b, bound);
    }
    for (SendEnd* sender : bound.senders) {
      ahead_bytes_max_ = std::min(ahead_bytes_max_, sender->ahead_bytes_max());
      if (sender->polled()) bound.polled_senders.push_back(sender);
    }
    for (ReceiveEnd* receiver : bound.receivers) {
      if (receiver->polled()) bound.polled_receivers.push_back(receiver);
    }
    bound.local = bound.senders.empty() && bound.receivers.empty();
    local_ = local_ || bound.local;
    const bool copies = bound.local && bound.steps.size() == 1 && bound.steps[0].operation == Operation::copy;
    if (copies && shape_.stripes == 1) bound.followers = borrowers_of(bound.steps[0].source, strands_);
    polled_ = polled_ || !bound.polled_senders.empty() || !bound.polled_receivers.empty();
    if (bound.steps.empty()) continue;
    strands_.push_back(std::move(bound));
    Share& share = shares_[static_cast<std::size_t>(share_of(strand))];
    if (share.count++ == 0) share.first = strands_.size() - 1;
  }
}

}  // namespace rondo
