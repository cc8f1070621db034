// Small all-reduces of a group that travel as one: one call over all their elements, in a place of its own.
//
// Ranks must bundle alike.  So what is bundled follows from the calls' order, counts, types and operators, which ranks
// agree on, and from settings that they compare when they join.  A call says what it bundles by a word that takes the
// place of the count in its messages' signature: ranks that bundle otherwise see it, and say so.  The digest in it
// tells apart bundles of as many calls and elements with other counts, but for one in 2^32.
#pragma once

#include <cstdint>

namespace rondo::bundle {

/// Beside the kind in Signature::collective.
inline constexpr std::uint8_t mark = 0x80;
inline constexpr std::uint64_t elements_max = 0xffff;

/// What is bundled: 0 for a call that stands for itself.
constexpr std::uint32_t calls(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word >> 48); }
constexpr std::uint32_t elements(std::uint64_t word) noexcept { return word >> 32 & 0xffff; }
constexpr std::uint32_t digest(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word); }

/// With one call more.  A bundle begins with its first call alone; no call is empty, and all have at most elements_max
/// elements.
constexpr std::uint64_t with(std::uint64_t word, std::uint64_t count) noexcept {
  const std::uint64_t mixed = (digest(word) ^ count) * 0x9e3779b97f4a7c15;
  return std::uint64_t{calls(word) + 1} << 48 | (elements(word) + count) << 32 | mixed >> 32;
}

}  // namespace rondo::bundle
