// Reads the variables: see lanes.h.
#include "communicator/lanes.h"

#include <algorithm>

#include "base/env.h"
#include "base/limits.h"

namespace rondo {

LanePolicy LanePolicy::from_environment() {
  // NCCL's channels are its CTAs: of two least numbers the larger counts, of two largest the smaller.
  constexpr std::int64_t any = 1 << 20;
  const std::int64_t least =
      std::max(env::integer("NCCL_MIN_NCHANNELS", 0, any), env::integer("NCCL_MIN_CTAS", 0, any));
  const std::int64_t most = std::min(env::integer("NCCL_MAX_NCHANNELS", 1, any), env::integer("NCCL_MAX_CTAS", 1, any));
  LanePolicy policy;
  policy.lanes = static_cast<int>(std::clamp<std::int64_t>(std::min(least, most), 1, limits::lanes_max));
  policy.bytes_min = static_cast<std::uint64_t>(env::integer("RONDO_LANE_BYTES", 1, std::int64_t{1} << 40));
  policy.threads = static_cast<int>(env::integer("RONDO_NTHREADS", 0, limits::lanes_max));
  return policy;
}

int LanePolicy::threads_on(int cpus, int ranks) const noexcept {
  return std::clamp(threads > 0 ? threads : cpus / std::max(ranks, 1), 1, lanes);
}

std::string LanePolicy::settings() const {
  if (lanes == 1) return {};
  return "NCCL_MIN_NCHANNELS=" + std::to_string(lanes) + " RONDO_LANE_BYTES=" + std::to_string(bytes_min);
}

}  // namespace rondo
