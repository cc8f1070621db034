// NCCL_ALGO: which algorithms each collective may use.
//
// The grammar is NCCL's, ignoring case: `[func:][^]a,b;func:[^]a;...`.  `^` excludes what follows; only the first entry
// may omit func and then speaks for every collective; a later entry replaces what an earlier one said for its func.
// The names are NCCL's (ring, tree, collnetdirect, collnetchain, nvls, nvlstree, pat) and Rondo's.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/types.h"

namespace rondo {

class AlgorithmList {
 public:
  /// Everything is allowed.
  AlgorithmList() = default;
  /// Throws Error(invalid_usage) that names the wrong token and the closest right one.
  static AlgorithmList parse(std::string_view text);

  /// Whether the user said anything about this collective.  If so, what is allowed is an order, not a hint: there is no
  /// fallback to another algorithm.
  bool restricts(CollectiveKind kind) const noexcept { return set_[index(kind)]; }
  /// Whether an entry names this collective, so that it is not one of all that a list without a function speaks of.
  bool names_function(CollectiveKind kind) const noexcept { return named_[index(kind)]; }
  /// Whether what is said is what not to use.
  bool excludes(CollectiveKind kind) const noexcept { return excludes_[index(kind)]; }
  /// `algorithm` as in names().
  bool allows(CollectiveKind kind, std::string_view algorithm) const noexcept;

  /// Every name the grammar knows, in lower case.
  static std::span<const std::string_view> names() noexcept;

 private:
  static constexpr int kinds = 9;
  static constexpr int index(CollectiveKind kind) noexcept { return static_cast<int>(kind); }
  std::array<std::uint32_t, kinds> allowed_{};  // bit i: names()[i]
  std::array<bool, kinds> set_{};
  std::array<bool, kinds> named_{};
  std::array<bool, kinds> excludes_{};
};

}  // namespace rondo
