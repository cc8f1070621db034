// The nearest right word to a wrong one: what every "did you mean" of an error message is made from.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace rondo {

/// Whether two ASCII texts are equal, ignoring case.
bool equal_ignoring_case(std::string_view one, std::string_view other) noexcept;

/// The candidate with the fewest edits (insert, drop, replace, swap of neighbours) to `word`, ignoring case; the first
/// of equals.  Empty if even that one differs in more than a third of the letters.
std::string_view closest(std::string_view word, std::span<const std::string_view> candidates);

/// The end of a sentence about a wrong word: "; did you mean X?", or "." where no candidate is near.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace rondo
