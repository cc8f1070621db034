// How many lanes the plans of large calls are striped over: what the user asked for.
#pragma once

#include <cstdint>
#include <string>

namespace rondo {

struct LanePolicy {
  int lanes = 1;                // the same on all ranks, as is the next
  std::uint64_t bytes_min = 0;  // of a call that uses them all

  /// Throws Error: a value that cannot be.
  static LanePolicy from_environment();
  /// What ranks must agree on, in words.
  std::string settings() const;
};

}  // namespace rondo
