// How many lanes the plans of large calls are striped over, and how many threads walk them: what the user asked for.
#pragma once

#include <cstdint>
#include <string>

namespace rondo {

struct LanePolicy {
  int lanes = 1;                // the same on all ranks, as is the next
  std::uint64_t bytes_min = 0;  // of a call that uses them all
  int threads = 0;              // of a rank, the calling one among them; 0: as many as there are CPUs for

  /// Throws Error: a value that cannot be.
  static LanePolicy from_environment();
  /// What ranks must agree on, in words.
  std::string settings() const;
  /// Threads of a rank on a host that has so many CPUs for its ranks.
  int threads_on(int cpus, int ranks) const noexcept;
};

}  // namespace rondo
