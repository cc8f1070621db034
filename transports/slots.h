// Slot rings: how a link lives in memory that both ends can reach (shared memory, one process, simulation).
//
// A ring is `headers` places for messages: one cache line each (sequence number, signature, and a payload of up to
// inline_bytes); and `credits` slots for larger payloads.  The sender fills the slot, then the header, then writes its
// sequence number; the receiver polls that number, and gives messages back in order through one counter in a line of
// its own.  A small message is one line from one cache to the other.  What fits into its header, or is lent, needs no
// slot: of such messages the sender may be `headers` ahead, so that it seldom has to fetch the counter.  Which slot a
// message goes to: places.h.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <thread>
#include <utility>

#include "base/doorbell.h"
#include "base/limits.h"
#include "lines.h"
#include "places.h"
#include "rings.h"
#include "shared_copy.h"
#include "told_order.h"
#include "transport.h"

namespace rondo::slots {

static_assert(limits::headers - copies_max >= limits::credits);
/// Of these, those that are not copied to where they belong, but to a room in the receiver's cache.
inline constexpr int rooms_max = 2;

/// How often a borrower looks for the next of several lends: for somewhat longer than one takes.
inline constexpr int looks_between_lends = 200;
/// Up to this size a sender fetches the next slot's lines, which its receiver had last, for writing; measured: more is
/// gone again before it is used.
inline constexpr std::size_t fetched_bytes_max = 8 * 1024;
/// Up to this size a sender pushes out what it gives with its slot, once the message is there: its receiver, who fills
/// that slot next, wants all of its lines now.  Measured: of longer ones it is late; where a sender fills a slot's
/// lines again itself, or ranks share cores, they would have to be fetched back.
inline constexpr std::size_t pushed_bytes_max = 4 * 1024;
/// So much of each where a thread sends on several links before it looks for an answer.  A line takes 7 ns, behind
/// which whatever is stored next waits: else an answer is waited for meanwhile.
inline constexpr std::size_t pushed_among_others_bytes_max = 1024;
/// Up to this size a receiver asks for all lines of a message at once: copying them one after another has fewer of them
/// under way.  Measured: of longer ones the processor itself fetches as many.
inline constexpr std::size_t read_at_once_bytes_max = 4 * 1024;
/// Releases of short messages that the sender is not told of at once: nobody waits for them while it has other headers,
/// and other slots, and the counter's line stays in the receiver's cache.
inline constexpr std::uint64_t releases_untold_max = limits::headers / 4;
static_assert(limits::headers - releases_untold_max >= limits::credits);

/// What the two ends of one rank tell each other: what was released, so that an answer carries the release of what it
/// answers and nobody has to fetch the counter; and which slots the rank may fill.
struct Acknowledged {
  std::uint32_t here = 0;   // messages of the incoming link that this rank has released
  std::uint32_t there = 0;  // messages of the outgoing link that the peer has released, as its last message said
  bool lends = false;       // this rank lends by address, and does not know yet that all is released
  bool wrote_all = false;   // and has written, since it asked the peer to write, all that the peer asked for
  bool lent_last = false;   // of the two ranks this one was the last to lend by address
  Places places;
  std::byte* incoming_slots = nullptr;
  std::byte* outgoing_slots = nullptr;
  std::byte* asked_data = nullptr;  // of the last message peeked that may be answered where it lies
  std::uint32_t asked = 0;          // its Spot::word()

  /// Lets slots change hands: on both ranks, before the first message.
  void join(RingView outgoing, RingView to_here) noexcept {
    outgoing_slots = outgoing.payloads;
    incoming_slots = to_here.payloads;
    places.join();
  }
};

/// What both ends of one connection share: the peer's state and how to wake it.
struct Peer {
  int rank = -1;
  std::atomic<int> code{0};  // why nothing more can come from it; Code
  Ringer doorbell;
  Lender* lender = nullptr;          // null: nothing is ever lent
  bool has_core = true;              // does at once what it is asked for: it waits for no other rank to leave a core
  bool takes_lines = false;          // see take_lines(); of both ranks' processor
  std::atomic<int>* busy = nullptr;  // links by which this rank lends by address, of all peers; null: not counted
  bool is_busy() const noexcept { return busy != nullptr && busy->load(std::memory_order_relaxed) > 0; }
  void count_busy(int links) noexcept {
    if (busy != nullptr) busy->fetch_add(links, std::memory_order_relaxed);
  }
};

/// The ends begin after `first` messages (0, except in tests of the 32-bit counters' wrap).
class Sender final : public SendEnd {
 public:
  Sender(RingView ring, Peer& peer, Acknowledged& acknowledged, std::uint64_t first = 0) noexcept
      : ring_(ring), peer_(peer), acknowledged_(acknowledged), sent_(first), released_(first) {
    acknowledged_.there = static_cast<std::uint32_t>(first);
  }
  ~Sender() override {
    if (acknowledged_.lends) stop_lending();
  }

  std::byte* reserve(std::size_t bytes) noexcept override {
    const bool small = bytes <= limits::inline_bytes;
    if (run_left_ > 0) return ring_.head.headers[sent_ % limits::headers].payload;  // lent already
    // The message whose release makes room is the one that had the header before.
    const std::uint64_t past = sent_ + 1 - std::min<std::uint64_t>(sent_ + 1, limits::headers);
    const auto has_room = [&] {
      return released_ >= past && (small || acknowledged_.places.find(bytes, ring_.slot_bytes, released_));
    };
    if (!has_room()) {
      advance_to(acknowledged_.there);
      if (!has_room() && (released(), !has_room())) return nullptr;
    }
    return small ? ring_.head.headers[sent_ % limits::headers].payload : room(acknowledged_.places.found());
  }

  /// The slot of the message itself, if that was given: nobody else reads there, and its lines are here.
  std::byte* reserve_answer(const Message& message) noexcept override {
    if (message.lent || message.data != acknowledged_.asked_data) return reserve(message.bytes);
    if (reserve(limits::inline_bytes) == nullptr) return nullptr;
    answers_in_place_ = true;
    return acknowledged_.asked_data;
  }

  void commit(std::size_t bytes, const Signature& signature, MessageFlags flags) noexcept override {
    std::uint32_t kind = (flags.raw ? raw : 0u) | (flags.offers_reply ? offers_reply : 0u);
    const bool in_place = std::exchange(answers_in_place_, false);
    if (in_place) kind |= acknowledged_.places.answer(Spot::of(acknowledged_.asked), sent_ + 1).word();
    if (in_place || bytes <= limits::inline_bytes) return publish(bytes, kind, signature);
    const Spot spot = acknowledged_.places.fill(sent_ + 1, flags.offers_reply);
    publish(bytes, kind | spot.word(), signature);
    if (spot.given && bytes <= pushed_bytes_max && peer_.has_core) {
      push_room_out(spot, flags.among_others ? std::min(bytes, pushed_among_others_bytes_max) : bytes);
    }
    if (bytes <= fetched_bytes_max) fetch_room(bytes);
  }

  bool lend(const std::byte* source, std::byte* reply, std::size_t bytes, const Signature& signature,
            MessageFlags flags) noexcept override {
    if (run_left_ > 0) {
      run_left_ -= bytes;
      return true;
    }
    // What fits into the header is there already when the receiver looks; lent, it would be a miss more.
    if (peer_.lender == nullptr || bytes <= limits::inline_bytes) return false;
    LentRange range;
    std::uint32_t kind = lent | (flags.raw ? raw : 0u) | (reply != nullptr ? offers_reply : 0u);
    const bool mapped = peer_.lender->find(source, bytes, range.region, range.offset) &&
                        (reply == nullptr || peer_.lender->find(reply, bytes, range.reply_region, range.reply_offset));
    if (!mapped) {
      if (!peer_.lender->reachable_by_address(bytes)) return false;
      kind |= by_address | (flags.among_others ? to_others : 0u);
      range.offset = reinterpret_cast<std::uintptr_t>(source);
      range.reply_offset = reinterpret_cast<std::uintptr_t>(reply);
      range.run = std::max(flags.run, bytes);
      run_left_ = range.run - bytes;
      by_address_until_ = sent_ + 1;
      acknowledged_.lent_last = true;
      if (!std::exchange(acknowledged_.lends, true)) peer_.count_busy(1);
    }
    std::memcpy(ring_.head.headers[sent_ % limits::headers].payload, &range, sizeof range);
    acknowledged_.places.forget();
    publish(bytes, kind, signature);
    return true;
  }

  bool can_lend(const std::byte* data, std::size_t bytes) noexcept override {
    LentRange range;
    return peer_.lender != nullptr && peer_.lender->find(data, bytes, range.region, range.offset);
  }

  std::uint64_t sent() const noexcept override { return sent_; }
  std::uint64_t released() noexcept override {
    advance_to(ring_.head.released.load(std::memory_order_acquire));
    tell_acquire(ring_.head.releases_key);
    return released_;
  }
  bool help() noexcept override {
    return acknowledged_.lends && tell(ring_.head.shared_copy.write_part(*peer_.lender));
  }
  void follow(std::size_t upto) noexcept override {
    if (acknowledged_.lends) (void)tell(ring_.head.shared_copy.write_front(*peer_.lender, upto));
  }
  bool may_be_asked() noexcept override { return acknowledged_.lends && !ring_.head.shared_copy.posted(); }
  int capacity() const noexcept override { return limits::credits; }
  std::size_t slot_bytes() const noexcept override { return ring_.slot_bytes; }
  /// Slots change hands where a message answers one.
  std::size_t ahead_bytes_max() const noexcept override { return limits::inline_bytes; }
  Status status() const noexcept override {
    const auto code = static_cast<Code>(peer_.code.load(std::memory_order_acquire));
    return {code == Code{} && refused() != 0 ? Code::remote_error : code, peer_.rank};
  }
  /// Why the receiver could not copy what was lent by address, or its answer: an errno, or -1; 0: it could.
  int refused() const noexcept { return ring_.head.lost.load(std::memory_order_acquire); }

 private:
  /// Whether something was written for the peer, who hears of it then.
  bool tell(SharedCopy::Wrote wrote) noexcept {
    if (wrote == SharedCopy::Wrote::nothing) return false;
    acknowledged_.wrote_all = wrote == SharedCopy::Wrote::last;
    ring(peer_.doorbell);
    return true;
  }

  void publish(std::size_t bytes, std::uint32_t kind, const Signature& signature) noexcept {
    Header& header = ring_.head.headers[sent_ % limits::headers];
    header.bytes_and_kind = static_cast<std::uint32_t>(bytes) | kind;
    write(header.signature, signature);
    header.released = acknowledged_.here;
    ++sent_;
    tell_release(ring_.head.messages_key);
    header.sequence.store(static_cast<std::uint32_t>(sent_), std::memory_order_release);
    ring(peer_.doorbell);
    // The receiver has had the next header in its cache since it looked last: fetch it while nobody waits for it.
    fetch_for_writing(&ring_.head.headers[sent_ % limits::headers]);
  }

  /// In parts: the call's number was stored by itself, just now, and a processor that is to read both at once waits
  /// until all that it has stored before is in its cache.
  static void write(Signature& to, const Signature& from) noexcept {
    to.count = from.count;
    to.call = from.call;
    std::memcpy(&to.collective, &from.collective, sizeof(Signature) - offsetof(Signature, collective));
  }

  /// Fetches the room for a message like the last one, unless the receiver may still read what is there.
  void fetch_room(std::size_t bytes) noexcept {
    advance_to(acknowledged_.there);
    Spot spot;
    if (!acknowledged_.places.next(bytes, ring_.slot_bytes, released_, spot)) return;
    std::byte* const next = room(spot);
    for (std::size_t at = 0; at < bytes; at += limits::cache_line_bytes) fetch_for_writing(next + at);
  }

  void push_room_out(Spot spot, std::size_t bytes) const noexcept {
    const std::byte* const filled = room(spot);
    for (std::size_t at = 0; at < bytes; at += limits::cache_line_bytes) push_out(filled + at);
  }

  std::byte* room(Spot spot) const noexcept {
    if (spot.slot < other_ring) return ring_.payload(spot.slot) + spot.at;
    return acknowledged_.incoming_slots + (spot.slot - other_ring) * ring_.slot_bytes + spot.at;
  }

  void stop_lending() noexcept {
    acknowledged_.lends = false;
    peer_.count_busy(-1);
  }

  /// Either count may be the older one.
  void advance_to(std::uint32_t count) noexcept {
    const std::uint32_t step = count - static_cast<std::uint32_t>(released_);
    if (step > limits::headers) return;
    released_ += step;
    if (acknowledged_.lends && released_ >= by_address_until_) stop_lending();
  }

  const RingView ring_;
  Peer& peer_;
  Acknowledged& acknowledged_;
  std::uint64_t sent_;
  std::uint64_t released_;
  std::uint64_t by_address_until_ = 0;  // released() from which on nothing is lent by address
  std::size_t run_left_ = 0;            // bytes of messages to come that the last one lent with its own
  bool answers_in_place_ = false;       // what is committed next, after the release of what it answers
};

class Receiver final : public ReceiveEnd {
 public:
  /// `landing`: room for rooms_max messages, slot_bytes each, where what is lent by address is copied to unless land()
  /// named a place; null: the peer's addresses are good here, as it is this process.
  Receiver(RingView ring, Peer& peer, Acknowledged& acknowledged, std::uint64_t first = 0,
           std::byte* landing = nullptr) noexcept
      : ring_(ring), peer_(peer), acknowledged_(acknowledged), received_(first), told_(first), landing_(landing) {
    acknowledged_.here = static_cast<std::uint32_t>(first);
  }

  const Message* peek() noexcept override {
    if (peeked_) return &message_;
    if (run_left_ > 0) return next_lent();
    if (!arrived(received_)) return nullptr;
    tell_acquire(ring_.head.messages_key);
    return open(header_of(received_));
  }

  void land(std::byte* target, std::size_t bytes, int ahead = 0, std::size_t run = 0) noexcept override {
    if (ahead >= copies_max) return;
    landings_[ahead] = {target, 0, bytes};
    named_ = ahead + 1;
    named_run_ = run;
  }
  int landings_wanted() const noexcept override { return read_ == 0 ? copies_max : 0; }
  std::size_t lands_from() const noexcept override {
    return landing_ != nullptr ? limits::inline_bytes + 1 : never_lands;
  }

  void release() noexcept override {
    peeked_ = false;
    named_ = 0;
    named_run_ = 0;
    if (run_left_ > message_.bytes) return pass_of_run();
    run_left_ = landed_left_ = 0;
    ++received_;
    if (read_ != 0) {
      if (++opened_ < read_) return;
      if (!give_back_copies()) return (void)lost();  // unreleased: who waits for the answers must not believe in them
    }
    acknowledged_.here = static_cast<std::uint32_t>(received_);
    if (!message_.lent && may_wait(header_of(received_ - 1)) && received_ - told_ < releases_untold_max) return;
    told_ = received_;
    untold_slot_ = none;
    tell_release(ring_.head.releases_key);
    ring_.head.released.store(acknowledged_.here, std::memory_order_release);
    ring(peer_.doorbell);
  }

  /// Of what the lender is to write, reads a part, once there is nothing to be written here.
  bool help() noexcept override {
    if (shared_bytes_ == 0 || !acknowledged_.wrote_all || !may_read_) return false;
    const std::uint64_t before = own_bytes_;
    return read_shared(&SharedCopy::read_part) && own_bytes_ > before;
  }

  void stop() noexcept override {
    if (shared_bytes_ == 0) return;
    SharedCopy& shared = ring_.head.shared_copy;
    const std::uint64_t taken = unread_ ? shared_bytes_ - own_bytes_ : shared.withdraw(own_bytes_);
    for (int ms = 0; ms < limits::stop_timeout_ms && status().ok(); ++ms) {
      if (shared.outcome(taken) != SharedCopy::Outcome::unfinished) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  Status status() const noexcept override {
    return {static_cast<Code>(peer_.code.load(std::memory_order_acquire)), peer_.rank};
  }
  /// Whether it could not copy what was lent, or its answer: nothing more comes then.
  bool refused() const noexcept { return lost_; }

 private:
  const Header& header_of(std::uint64_t message) const noexcept {
    return ring_.head.headers[message % limits::headers];
  }
  bool arrived(std::uint64_t message) const noexcept {
    return header_of(message).sequence.load(std::memory_order_acquire) == static_cast<std::uint32_t>(message + 1);
  }

  /// Takes note of the release of a message that was not lent; whether the sender need not hear of it at once.
  bool may_wait(const Header& header) noexcept {
    if (message_.bytes <= limits::inline_bytes) return true;
    const Spot spot = Spot::of(header.bytes_and_kind);
    // A slot that was given is filled here next.
    if (peer_.takes_lines && !spot.given) take_lines(slot(spot), message_.bytes);
    const bool room_enough = acknowledged_.places.release(spot, message_.bytes, acknowledged_.there);
    if (!room_enough || (untold_slot_ != none && untold_slot_ != spot.slot)) return false;
    untold_slot_ = spot.slot;
    return true;
  }

  const Message* open(const Header& header) noexcept {
    const std::uint32_t word = header.bytes_and_kind;
    message_.bytes = word & bytes_mask;
    message_.lent = (word & lent) != 0;
    message_.raw = (word & raw) != 0;
    message_.offers_reply = (word & offers_reply) != 0;
    message_.signature = header.signature;
    acknowledged_.there = header.released;
    message_.reply = nullptr;
    if (!message_.lent) {
      const bool inside = message_.bytes <= limits::inline_bytes;
      const Spot spot = Spot::of(word);
      message_.data = inside ? header.payload : slot(spot);
      // Not its parts: they would be stored one by one and read as one, see MessageFlags.
      acknowledged_.asked = word;
      const bool may_stay = !inside && spot.given && message_.offers_reply;
      acknowledged_.asked_data = may_stay ? const_cast<std::byte*>(message_.data) : nullptr;
      if (!inside && message_.bytes <= read_at_once_bytes_max) read_at_once(message_.data, message_.bytes);
    } else {
      LentRange range;
      std::memcpy(&range, header.payload, sizeof range);
      if ((word & by_address) != 0) return begin_run(range, (word & to_others) != 0);
      message_.data = peer_.lender->at(range.region, range.offset);
      if (message_.offers_reply) message_.reply = peer_.lender->at(range.reply_region, range.reply_offset);
      if (message_.data == nullptr && !lost()) return nullptr;
    }
    peeked_ = true;
    return &message_;
  }

  static void read_at_once(const std::byte* data, std::size_t bytes) noexcept {
    for (std::size_t at = 0; at < bytes; at += limits::cache_line_bytes) __builtin_prefetch(data + at);
  }
  std::byte* slot(Spot spot) const noexcept {
    if (spot.slot < other_ring) return ring_.payload(spot.slot) + spot.at;
    return acknowledged_.outgoing_slots + (spot.slot - other_ring) * ring_.slot_bytes + spot.at;
  }

  /// What a header lends by address: its message, and maybe those behind it, which have no headers then.
  const Message* begin_run(const LentRange& range, bool is_lent_to_others) noexcept {
    lent_to_others_ = is_lent_to_others;
    run_there_ = range.offset;
    run_reply_ = range.reply_offset;
    run_bytes_ = message_.bytes;
    run_left_ = range.run;
    return next_lent();
  }

  /// The next message of what is lent by address (read into the landing, and the reply written from there).  Null: it
  /// is not all there yet, or the peer is lost.
  const Message* next_lent() noexcept {
    if (lost_) return nullptr;
    message_.bytes = static_cast<std::uint32_t>(std::min(run_bytes_, run_left_));
    if (landing_ == nullptr) {
      message_.data = reinterpret_cast<const std::byte*>(run_there_);
      message_.reply = reinterpret_cast<std::byte*>(run_reply_);
    } else {
      if (read_ == 0) read_copies();
      if (shared_bytes_ > 0 && !finish_shared()) return nullptr;
      message_.data = copies_[opened_].here;
      if (message_.offers_reply) message_.reply = copies_[opened_].here;
    }
    peeked_ = true;
    return &message_;
  }

  /// Goes on in what is lent by address.
  void pass_of_run() noexcept {
    run_there_ += message_.bytes;
    run_left_ -= message_.bytes;
    if (landed_left_ > message_.bytes) {
      landed_left_ -= message_.bytes;
      copies_[0].here += message_.bytes;
    } else {
      landed_left_ = 0;
      read_ = opened_ = 0;
    }
  }

  /// Returns when all messages that are named have come, or the sender, who lends one after another, has paused: what
  /// is copied together costs less.
  void wait_for_lends() const noexcept {
    int come = 1;
    for (int looks = 0; come < named_ && looks < looks_between_lends; ++looks) {
      if (arrived(received_ + come)) ++come, looks = 0;
    }
  }

  /// Copies the message and those behind it: of a run, as many as are named; else those that have come, while they are
  /// lent by address.  They go to where land() said, or into the landing.  What waits for a reply is changed before it
  /// is stored, and raw elements still are to be.  What cannot be read here (any more) the lender is to write.
  void read_copies() noexcept {
    int rooms = 0;
    std::size_t total = message_.bytes;
    const bool stored_as_it_is = !message_.raw && !message_.offers_reply;
    const bool named = stored_as_it_is && named_ > 0 && landings_[0].bytes == total;
    const bool run = run_left_ > total;
    if (named && run && named_run_ > total) {
      total = landed_left_ = std::min({run_left_, named_run_, SharedCopy::bytes_max / total * total});
    }
    copies_[0] = {named ? landings_[0].here : landing_ + rooms++ * limits::slot_bytes, run_there_, total};
    replies_[0] = message_.offers_reply ? run_reply_ : 0;
    read_ = 1;
    if (!run) total = add_copies(total, rooms);
    const std::span copies(copies_, read_);
    // Where the peer borrows from here, too, both are busy, and lines that both write go to and fro between their
    // caches: each writes what it lends.
    const bool crossing = acknowledged_.lends;
    const std::size_t least = crossing ? SharedCopy::crossing_bytes_min : SharedCopy::bytes_min;
    // Nor where ranks share cores and either of the two lends to others: the lender has them to serve, and a part that
    // it has taken waits for its core.  Nor if both lend in turn, each after the other's: another rank has the core
    // while one waits for its answer.
    const bool in_turn = std::exchange(acknowledged_.lent_last, false);
    const bool occupied = peer_.is_busy() || lent_to_others_ || in_turn;
    const bool busy = crossing || (total < SharedCopy::busy_bytes_max && occupied);
    const bool alone = rooms > 0 || total < least || (busy && !peer_.has_core);
    if (alone && may_read_ && (may_read_ = peer_.lender->read(copies))) return;
    const bool both = !crossing && may_read_;
    post(total, both ? SharedCopy::Makers::both : SharedCopy::Makers::lender);
    if (both) (void)read_shared(&SharedCopy::read_parts);
  }

  void post(std::uint64_t total, SharedCopy::Makers makers) noexcept {
    ring_.head.shared_copy.post(std::span(copies_, read_), makers);
    ring(peer_.doorbell);
    acknowledged_.wrote_all = false;
    shared_bytes_ = total;
    own_bytes_ = 0;
  }

  /// Reads of what is posted; false: it can't, and so takes the post back.
  bool read_shared(bool (SharedCopy::*read)(Lender&, std::uint64_t&)) noexcept {
    SharedCopy& shared = ring_.head.shared_copy;
    may_read_ = (shared.*read)(*peer_.lender, own_bytes_);
    unread_ = !may_read_;
    if (unread_) own_bytes_ = shared_bytes_ - shared.withdraw(own_bytes_);
    return may_read_;
  }

  /// Adds what has come behind the first message to its copies, its rooms and its bytes, which it returns.
  std::size_t add_copies(std::size_t total, int& rooms) noexcept {
    if (peer_.has_core) wait_for_lends();
    while (read_ < copies_max && arrived(received_ + read_)) {
      const Header& header = header_of(received_ + read_);
      const std::uint32_t word = header.bytes_and_kind;
      const std::size_t bytes = word & bytes_mask;
      LentRange range;
      std::memcpy(&range, header.payload, sizeof range);
      if ((word & by_address) == 0 || range.run > bytes) break;
      const bool follows = rooms == 0 && total + bytes <= named_run_;
      const bool named =
          (word & (raw | offers_reply)) == 0 && (follows || (read_ < named_ && landings_[read_].bytes == bytes));
      // What is not named yet may be when its turn comes, and then needs no room.
      if (!named && (rooms == rooms_max || named_ > 0)) break;
      std::byte* const place = follows ? landings_[0].here + total : landings_[read_].here;
      copies_[read_] = {named ? place : landing_ + rooms++ * limits::slot_bytes, range.offset, bytes};
      replies_[read_] = (word & offers_reply) != 0 ? range.reply_offset : 0;
      total += bytes;
      ++read_;
    }
    return total;
  }

  /// Whether what the lender took of the copies is there, too.
  bool finish_shared() noexcept {
    SharedCopy& shared = ring_.head.shared_copy;
    const std::uint64_t taken = shared_bytes_ - own_bytes_;
    const SharedCopy::Outcome outcome = shared.outcome(taken);
    if (outcome == SharedCopy::Outcome::unfinished) return false;
    if (std::exchange(unread_, false)) {
      post(shared_bytes_, SharedCopy::Makers::lender);
      return false;
    }
    shared_bytes_ = 0;
    return outcome == SharedCopy::Outcome::finished || shared.read_all(*peer_.lender) || lost();
  }

  /// Writes the replies of the messages in the landing, which are done.
  bool give_back_copies() noexcept {
    std::size_t count = 0;
    for (int i = 0; i < read_; ++i) {
      if (replies_[i] != 0) copies_[count++] = {copies_[i].here, replies_[i], copies_[i].bytes};
    }
    read_ = opened_ = 0;
    return count == 0 || peer_.lender->write(std::span(copies_, count));
  }

  /// Nothing more comes, and the sender is told so.  False.
  bool lost() noexcept {
    lost_ = true;
    run_left_ = 1;  // so that every look asks next_lent
    const int error = peer_.lender->error();
    ring_.head.lost.store(error != 0 ? error : -1, std::memory_order_release);
    ring(peer_.doorbell);
    int none = 0;
    peer_.code.compare_exchange_strong(none, static_cast<int>(Code::remote_error), std::memory_order_acq_rel);
    return false;
  }

  const RingView ring_;
  Peer& peer_;
  Acknowledged& acknowledged_;
  std::uint64_t received_;
  std::uint64_t told_;  // of the messages released, those that the sender can see
  static constexpr std::uint32_t none = ~0u;
  std::uint32_t untold_slot_ = none;  // where such messages lie, if they do in one
  std::byte* const landing_;
  bool peeked_ = false;
  // Of the header that lends the oldest message by address: where that lies and its reply goes, the bytes of each
  // message but the last, and the bytes from it on; of these, those that go to copies_[0] as one.
  std::uint64_t run_there_ = 0;
  std::uint64_t run_reply_ = 0;
  std::size_t run_bytes_ = 0;
  std::size_t run_left_ = 0;
  std::size_t landed_left_ = 0;
  bool lent_to_others_ = false;     // by the same lender, too
  int read_ = 0;                    // messages from the oldest on that are copied
  int opened_ = 0;                  // of these, how many are done
  std::uint64_t shared_bytes_ = 0;  // of a copy that the lender may still take part in
  std::uint64_t own_bytes_ = 0;     // of these, what was read here
  bool may_read_ = true;            // until the kernel refuses to read the lender's memory
  bool unread_ = false;             // what is posted was taken back, but for what the lender had taken
  bool lost_ = false;               // see refused()
  Message message_;
  Copy copies_[copies_max];
  Copy landings_[copies_max];  // as land() named them, for the `named_` oldest messages
  int named_ = 0;
  std::size_t named_run_ = 0;
  std::uint64_t replies_[copies_max] = {};  // where each goes; 0: nowhere
};

}  // namespace rondo::slots
