// The shipped table, and what the environment changes in it: see choice.h.
#include "communicator/choice.h"

namespace rondo {
namespace {

// Shared memory, measured on two cores: below this many bytes for all peers together, one hop beats fewer bytes.
constexpr std::uint64_t one_shot_bytes_max = 8 * 1024;
// Direct schedules link every rank with every other; beyond this many ranks a ring's two links a rank are enough.
constexpr int direct_ranks_max = 8;

}  // namespace

Chooser::Chooser(int ranks) : ranks_(ranks) {}

Choice Chooser::choose(CollectiveKind kind, std::uint64_t bytes) const noexcept {
  using plan::Algorithm;
  if (const auto& forced = forced_[static_cast<int>(kind)]) return {*forced, {}};
  const bool direct = ranks_ <= direct_ranks_max;
  switch (kind) {
    case CollectiveKind::all_reduce:
      if (bytes * static_cast<std::uint64_t>(ranks_ - 1) <= one_shot_bytes_max) return {Algorithm::one_shot, {}};
      return {direct ? Algorithm::two_shot : Algorithm::ring, {}};
    case CollectiveKind::reduce_scatter: return {direct ? Algorithm::direct : Algorithm::ring, {}};
    case CollectiveKind::broadcast: return {Algorithm::chain, {}};
    default: return {Algorithm::ring, {}};
  }
}

}  // namespace rondo
