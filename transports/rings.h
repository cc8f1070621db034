// The memory of a slot ring, which both of its ends share, and what a header in it says.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/limits.h"
#include "places.h"
#include "shared_copy.h"
#include "transport.h"

namespace rondo::slots {

/// What a lent message says instead of its bytes: where they are, in the sender's regions.
struct LentRange {
  std::uint32_t region = 0;
  std::uint32_t reply_region = 0;
  std::uint64_t offset = 0;
  std::uint64_t reply_offset = 0;
  std::uint64_t run = 0;  // see MessageFlags
};

enum Kind : std::uint32_t {
  lent = 1u << 31,
  raw = 1u << 30,
  offers_reply = 1u << 29,
  by_address = 1u << 28,  // lent: the offsets are addresses in the lender's process
  to_others = 1u << 27,   // lent by address: the lender lends to others, too
};
inline constexpr std::uint32_t bytes_mask = (1u << Spot::at_shift) - 1;  // above them, of a message in a slot: its Spot

struct alignas(limits::cache_line_bytes) Header {
  std::atomic<std::uint32_t> sequence{0};  // number of the message + 1
  std::uint32_t bytes_and_kind = 0;
  Signature signature;
  std::uint32_t released = 0;  // messages of the reverse link that the sender of this one has released
  std::byte payload[limits::inline_bytes] = {};
};
static_assert(sizeof(Header) == limits::cache_line_bytes);
static_assert(sizeof(LentRange) <= limits::inline_bytes);

/// The part of a ring that both ends share: its head, and behind it the slots' payloads.
struct RingHead {
  Header headers[limits::headers];
  std::uintptr_t messages_key = reinterpret_cast<std::uintptr_t>(headers);  // see tell_release
  std::uintptr_t releases_key = reinterpret_cast<std::uintptr_t>(&headers[1]);
  alignas(limits::cache_line_bytes) std::atomic<std::uint32_t> released{0};
  std::atomic<int> lost{0};  // the receiver could not copy what the sender lent, or its answer: an errno, or -1
  SharedCopy shared_copy;
};
template <std::size_t bytes>
struct RingOf : RingHead {
  static constexpr std::size_t slot_bytes = bytes;
  alignas(limits::cache_line_bytes) std::byte payloads[limits::credits][bytes];
};
using Ring = RingOf<limits::slot_bytes>;
using SecondRing = RingOf<limits::second_slot_bytes>;  // of the second lane

/// A ring, whatever the size of its slots.
struct RingView {
  RingHead& head;
  std::byte* payloads;
  std::size_t slot_bytes;
  template <std::size_t bytes>
  RingView(RingOf<bytes>& ring) noexcept : head(ring), payloads(ring.payloads[0]), slot_bytes(bytes) {}
  std::byte* payload(std::size_t slot) const noexcept { return payloads + slot * slot_bytes; }
};

}  // namespace rondo::slots
