// Which plan serves a call: from rank-agreed inputs and a shipped table, never from a measurement at run time.
#pragma once

#include <cstdint>
#include <optional>

#include "base/types.h"
#include "plan/layout.h"
#include "plan/plan.h"

namespace rondo {

/// How one call is served.
struct Choice {
  plan::Algorithm algorithm{};
  plan::Cut cut;
};

/// What the user asked for (NCCL_ALGO, RONDO_DETERMINISTIC); read once per communicator, the same on every rank.
class Chooser {
 public:
  /// Throws Error(invalid_usage) where the environment allows no algorithm for a collective it names.
  explicit Chooser(int ranks);
  /// `bytes`: the larger of what a rank gives and gets.
  Choice choose(CollectiveKind kind, std::uint64_t bytes) const noexcept;

 private:
  static constexpr int kinds = 9;
  int ranks_;
  std::optional<plan::Algorithm> forced_[kinds];
};

}  // namespace rondo
