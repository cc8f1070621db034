// Which plan serves a call: from rank-agreed inputs and a shipped table, never from a measurement at run time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "communicator/tuning.h"
#include "plan/layout.h"
#include "plan/plan.h"

namespace rondo {

/// What links pairs of ranks, as far as schedules mind.
enum class Reach : std::uint8_t {
  near,        // memory
  far,         // networks between some, or what is as slow
  one_socket,  // TCP between all, by one socket a pair
};

/// How one call is served.
struct Choice {
  plan::Algorithm algorithm{};
  plan::Cut cut;
  std::string_view reason;  // for the log
  /// The one to run where every rank can lend its buffers; none: `algorithm` there, too.
  std::optional<plan::Algorithm> lending = {};
  /// What a rank lends to several is copied once to memory that all map (executor/shelf.h), if it is not in such.
  bool shelf = false;
};

/// What the user asked for (NCCL_ALGO, RONDO_DETERMINISTIC, RONDO_TUNE_FILE), read once per communicator; the same on
/// every rank (see `settings`).  NCCL_ALGO and RONDO_DETERMINISTIC bind the table of RONDO_TUNE_FILE, too.
class Chooser {
 public:
  /// Throws Error(invalid_usage) where NCCL_ALGO allows no algorithm for all that it speaks of, or one that cannot be
  /// deterministic where RONDO_DETERMINISTIC=1 asks for that.
  /// `crowded`: this host has fewer CPUs than ranks; heeded where it is the only host, as ranks of others may not know.
  /// `tuning`: the rows of this communicator's shape.
  Chooser(int ranks, int hosts, Reach reach, bool crowded, Tuning tuning = {});
  /// What ranks must agree on, in words: the variables above, and the digest of the whole table.
  static std::string settings(const Tuning& tuning);
  /// `bytes`: the larger of what a rank gives and gets.  `kind` must have schedules.
  Choice choose(CollectiveKind kind, std::uint64_t bytes) const noexcept;
  /// The table as lines for the log.
  std::vector<std::string> describe() const;

 private:
  static constexpr int kinds = 9;
  bool allowed(CollectiveKind kind, plan::Algorithm algorithm) const noexcept;
  std::uint64_t one_shot_bytes_max() const noexcept;
  /// Through memory, in one hop and whole.
  bool is_one_message(plan::Algorithm algorithm, std::uint64_t bytes) const noexcept;
  Choice use(CollectiveKind kind, plan::Algorithm algorithm, std::uint64_t bytes, const char* reason) const noexcept;
  plan::Cut cut_of(plan::Algorithm algorithm, std::uint64_t bytes) const noexcept;
  int ranks_;
  int hosts_;
  bool far_;
  bool one_socket_;
  bool crowded_;
  Tuning tuning_;
  std::uint32_t allowed_[kinds] = {};  // bit: plan::Algorithm
};

/// Where calls run, as far as kernel copies mind.
struct Copying {
  int ranks = 0;
  bool crowded = false;       // ranks share cores
  bool writers_wait = false;  // processor::writers_wait_for_readers()
};

/// Whether what a call lends may lie in any memory, and the kernel copies it; else in what peers map alone, and the
/// rest goes through slots.  `block_bytes`: of the buffer, or of each block where a rank's blocks are told apart. Ranks
/// need not agree.
bool gains_by_address(CollectiveKind kind, std::size_t block_bytes, const Copying& here) noexcept;

}  // namespace rondo
