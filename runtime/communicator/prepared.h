// Runs that stay laid out: a call like one before it need not choose, bind and cut again.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/limits.h"
#include "communicator.h"
#include "executor.h"

namespace rondo {

/// A run, and the last call it was laid out for.
struct PreparedRun {
  bool laid_out = false;
  Call call;
  std::vector<std::byte> scratch;
  std::vector<std::byte> staging;  // of a bundle
  Run run;
  std::vector<std::unique_ptr<Run>> others;  // of the same call, for helpers: a share each
  bool shared = false;                       // helpers are asked for this call
  bool serves(const Call& next) const noexcept {
    return laid_out && call.kind == next.kind && call.count == next.count && call.type == next.type &&
           call.op == next.op && call.root == next.root && call.peer == next.peer && call.receives == next.receives &&
           call.bundle == next.bundle;
  }
};

/// Those of the last few kinds and sizes of calls.
class RecentRuns {
 public:
  /// One that serves the call, or null.
  PreparedRun* find(const Call& call) noexcept {
    for (PreparedRun& run : runs_) {
      if (run.serves(call)) return &run;
    }
    return nullptr;
  }
  /// One that serves the call, or else one to lay out: by turns.
  PreparedRun& take(const Call& call) noexcept {
    PreparedRun* const found = find(call);
    return found != nullptr ? *found : runs_[replaced_++ % runs_.size()];
  }

 private:
  std::array<PreparedRun, limits::prepared_runs> runs_;
  std::size_t replaced_ = 0;
};

}  // namespace rondo
