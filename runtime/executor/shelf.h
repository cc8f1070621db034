// A shelf: memory that all ranks of a host map, where one copy of what is lent to several of them lies.
//
// Who lends plain memory to several ranks has each of them copy it by the kernel, from far away.  Copied to a room of
// the shelf first, it is in a cache when they read it, and needs no system call.  Rooms are used in turns; one is free
// again when all that borrow from it have released it.  Of one thread, like the run that uses it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport.h"

namespace rondo {

class Shelf {
 public:
  /// `memory`: `rooms` of `room_bytes` each, good until nothing is lent from it any more; to so many at once, at most.
  Shelf(std::byte* memory, std::size_t room_bytes, int rooms, std::size_t borrowers_max)
      : memory_(memory), room_bytes_(room_bytes), lends_(static_cast<std::size_t>(rooms)) {
    for (std::vector<Lend>& room : lends_) room.reserve(borrowers_max);
  }
  std::size_t room_bytes() const noexcept { return room_bytes_; }

  /// The next room; null: it is still borrowed, over `waits_for` at least.
  std::byte* next(const SendEnd*& waits_for) noexcept {
    std::vector<Lend>& room = lends_[at_];
    const auto borrowed = [](const Lend& lend) { return lend.link->released() < lend.until; };
    const auto found = std::ranges::find_if(room, borrowed);
    if (found != room.end()) {
      waits_for = found->link;
      return nullptr;
    }
    room.clear();
    return memory_ + at_ * room_bytes_;
  }
  /// The next room is lent by the last message of `link`.
  void lent(SendEnd& link) noexcept { lends_[at_].push_back({&link, link.sent()}); }
  /// Goes on to the room after it.
  void pass() noexcept { at_ = (at_ + 1) % lends_.size(); }

 private:
  struct Lend {
    SendEnd* link;
    std::uint64_t until;  // released() from which on it is over
  };
  std::byte* const memory_;
  const std::size_t room_bytes_;
  std::vector<std::vector<Lend>> lends_;  // by room
  std::size_t at_ = 0;
};

}  // namespace rondo
