// A table of measured choices: what `rondo tune` writes and RONDO_TUNE_FILE names.
//
// A text file.  Its first line is `rondo-tune 1`; `#` begins a comment; every other line is a row
//   COLLECTIVE RANKS HOSTS BYTES ALGORITHM
// for calls of up to BYTES bytes (`*`: any) on a communicator of so many ranks on so many hosts.  Of several rows the
// one with the least BYTES that is enough counts.  All ranks must have the same table: joining compares digests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "plan/plan.h"

namespace rondo {

class Tuning {
 public:
  /// Empty: nothing is tuned.
  Tuning() = default;
  /// The file that RONDO_TUNE_FILE names; empty where it is unset.  Throws Error(invalid_usage).
  static Tuning from_environment();
  /// `name` is for sentences.  Throws Error(invalid_usage) that names the line and what is wrong with it.
  static Tuning parse(std::string_view text, const std::string& name);

  /// The rows for communicators of this shape alone.
  Tuning of(int ranks, int hosts) const;
  /// The first row's algorithm that is enough for `bytes`; rows of another shape are gone (see `of`).
  std::optional<plan::Algorithm> find(CollectiveKind kind, std::uint64_t bytes) const noexcept;
  bool empty() const noexcept { return rows_.empty(); }
  /// Of all rows; equal tables have equal digests whatever their comments.
  std::uint64_t digest() const;

 private:
  struct Row {
    CollectiveKind kind{};
    int ranks = 0;
    int hosts = 0;
    std::uint64_t bytes = 0;
    plan::Algorithm algorithm{};
  };
  std::vector<Row> rows_;  // by kind, ranks, hosts, bytes
};

}  // namespace rondo
