// A helper process that outlives the launcher's violent death, for one purpose: to kill what the ranks started.
//
// The kernel kills a rank whose launcher dies (PR_SET_PDEATHSIG), but not the rank's own children.  The guard holds the
// reading end of a pipe whose only writer is the launcher; at end of file it kills the process groups it was told of.
#pragma once

#include <sys/types.h>

#include "base/descriptor.h"

namespace rondo::run {

class Guard {
 public:
  /// Forks the guard.  Throws Error.
  Guard();
  /// Dismisses and reaps it; the groups are then left alone.
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// From now on the death of the launcher is the death of process group `group`, which must exist, or be a zombie not
  /// yet reaped, until the guard is dismissed.
  void watch(pid_t group) noexcept;
  /// Leaves all groups alone that it was told of, before their numbers can be given anew.
  void forget() noexcept;

 private:
  void tell(pid_t word) noexcept;
  Descriptor pipe_;
  pid_t pid_ = -1;
};

}  // namespace rondo::run
