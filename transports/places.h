// Which slot a message goes to that does not fit into its header: the choice of one rank for one link.
//
// A slot is the place of one message; but messages of up to packed_bytes_max of which none is answered lie side by
// side in one, so that their sender may be far ahead.  And slots change hands: whoever has read a slot has its lines
// in its cache, and so fills it with less waiting than the one that filled it before.  A message says whether its slot
// is given with it; its receiver has that slot from the release on.  Given is what answers something, and at most one
// slot more than came back: so a rank has limits::credits - 1 slots at the least, which is what every plan is proved
// with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/limits.h"

namespace rondo::slots {

/// Slots are numbered as their sender sees them: first those of the ring to the peer, then those of the ring from it.
/// What is one for this rank is the other for the peer.
inline constexpr std::uint32_t other_ring = limits::credits;
static_assert((limits::credits & (limits::credits - 1)) == 0);

/// Where a message lies, as its header says it.
struct Spot {
  std::uint32_t slot = 0;
  std::uint32_t at = 0;  // bytes from the slot's beginning
  bool given = false;

  static constexpr std::uint32_t unit_bytes = 1024;  // of `at`
  static constexpr int at_shift = 17, slot_shift = 24;
  static constexpr std::uint32_t at_mask = 0x7f, slot_mask = 0xf;

  constexpr std::uint32_t word() const noexcept {
    return slot << slot_shift | (given ? at_mask : at / unit_bytes) << at_shift;
  }
  static constexpr Spot of(std::uint32_t word) noexcept {
    const std::uint32_t at = word >> at_shift & at_mask;
    return {word >> slot_shift & slot_mask, at == at_mask ? 0 : at * unit_bytes, at == at_mask};
  }
};
static_assert(limits::slot_bytes < std::size_t{1} << Spot::at_shift && 2 * limits::credits <= Spot::slot_mask + 1);
static_assert(limits::slot_bytes <= Spot::at_mask * Spot::unit_bytes);

/// Up to here messages lie side by side: longer ones between ranks of a host are mostly lent.
inline constexpr std::size_t packed_bytes_max = limits::sent_bytes_max;

/// Up to here a receiver may put off to tell of a release.  Measured: a sender of longer ones soon waits for it.
inline constexpr std::size_t untold_bytes_max = 4 * 1024;

class Places {
 public:
  Places() noexcept {
    for (std::uint32_t slot = 0; slot < limits::credits; ++slot) places_[slot].slot = slot;
  }
  /// Lets slots change hands: on both ranks, before the first message.
  void join() noexcept { joined_ = true; }
  /// Finds a place for a message when the peer has released so many; false: there is none.  A place that was found for
  /// a message of this size stays until it is filled.
  bool find(std::size_t bytes, std::size_t slot_bytes, std::uint64_t released) noexcept {
    return (found_.bytes == bytes) || (found_.bytes = 0, look(bytes, slot_bytes, released, found_));
  }
  Spot found() const noexcept { return {places_[found_.place].slot, found_.at, false}; }
  /// What was found is not needed.
  void forget() noexcept { found_.bytes = 0; }
  /// Fills the place that was found with message `number`; `asks`: its receiver answers it, in the slot itself if that
  /// is given.
  Spot fill(std::uint64_t number, bool asks) noexcept {
    Spot spot = found();
    Place& place = places_[found_.place];
    place.until = number;
    next_ = after(found_.place);
    if (found_.packs) {
      open_ = found_.place;
      open_at_ = found_.at + (static_cast<std::uint32_t>(found_.bytes) + Spot::unit_bytes - 1) / Spot::unit_bytes *
                                 Spot::unit_bytes;
    } else {
      if (open_ == found_.place) open_ = none;
      spot.given = joined_ && (asks || owed_ > 0 || (owed_ == 0 && answers_));
      if (spot.given) {
        given_ = number;
        give(found_.place);
      }
    }
    answers_ = false;
    found_.bytes = 0;
    return spot;
  }
  /// Message `number` answers one that was given with its slot, and released since: it lies there, too, and gives the
  /// slot back.
  Spot answer(Spot asked, std::uint64_t number) noexcept {
    int place = count_ - 1;
    while (place > 0 && places_[place].slot != (asked.slot ^ other_ring)) --place;
    const Spot spot{places_[place].slot, 0, true};
    given_ = number;
    give(place);
    if (found_.place == count_) found_.place = place;
    answers_ = false;
    return spot;
  }
  /// Where a message like the last one, behind it, would go; false: there may be no room, or it should wait for a slot
  /// that comes back.
  bool next(std::size_t bytes, std::size_t slot_bytes, std::uint64_t released, Spot& spot) const noexcept {
    Found found;
    if (owed_ < 0 || !look(bytes, slot_bytes, released, found)) return false;
    spot = {places_[found.place].slot, found.at, false};
    return true;
  }
  /// A message of the peer's that lies there is released; of ours, the peer has released `there`.  Whether the peer has
  /// room enough if it does not hear of it: that is, whether it has all its other slots.
  bool release(Spot spot, std::size_t bytes, std::uint32_t there) noexcept {
    answers_ = true;
    if (given_ != 0 && static_cast<std::int32_t>(there - static_cast<std::uint32_t>(given_)) >= 0) given_ = 0;
    if (!spot.given) return owed_ <= 0 && given_ == 0 && bytes <= untold_bytes_max;
    if (count_ == static_cast<int>(places_.size())) return false;
    ++owed_;
    places_[count_] = {spot.slot ^ other_ring, 0};
    if (found_.bytes == 0) next_ = count_;
    ++count_;
    return false;
  }

 private:
  struct Place {
    std::uint32_t slot = 0;
    std::uint64_t until = 0;  // the latest message that is there
  };
  struct Found {
    std::size_t bytes = 0;  // of the message; 0: nothing is found
    int place = 0;
    std::uint32_t at = 0;
    bool packs = false;
  };
  static constexpr int none = -1;

  bool look(std::size_t bytes, std::size_t slot_bytes, std::uint64_t released, Found& found) const noexcept {
    const bool packs = bytes <= packed_bytes_max && !answers_;
    if (packs && open_ != none && open_at_ + bytes <= slot_bytes) {
      found = {bytes, open_, open_at_, true};
      return true;
    }
    for (int tries = 0, place = next_; tries < count_; ++tries, place = after(place)) {
      if (places_[place].until > released) continue;
      found = {bytes, place, 0, packs};
      return true;
    }
    return false;
  }
  int after(int place) const noexcept { return place + 1 < count_ ? place + 1 : 0; }
  void give(int place) noexcept {
    --owed_;
    --count_;
    // Number by number: they were stored so, perhaps just now, and what is read whole waits until all that its thread
    // stored before is in its cache.
    places_[place].slot = places_[count_].slot;
    places_[place].until = places_[count_].until;
    if (open_ == count_) open_ = place;
    next_ = place < count_ ? place : 0;
  }

  std::array<Place, 2 * limits::credits> places_;  // the peer's slots that were given, too
  int count_ = limits::credits;
  int next_ = 0;     // the place to look at first
  int open_ = none;  // the place where messages lie side by side, and where the next one goes
  std::uint32_t open_at_ = 0;
  int owed_ = 0;             // slots got less slots given
  std::uint64_t given_ = 0;  // the last message with which one was given, if the peer may not have released it
  bool joined_ = false;      // not where a rank has both ends of a ring
  bool answers_ = false;     // since the last message in a slot one of the peer's was released
  Found found_;
};

}  // namespace rondo::slots
