// Rank 0's standard input.  A file or a pipe is handed over as it is.  A terminal stays with the launcher, whose
// process group is in the foreground: it carries what is typed through a pipe, so that ^C and ^Z keep their meaning for
// the whole job and rank 0 is not stopped for reading from the background.
#pragma once

#include <poll.h>

#include "base/descriptor.h"

namespace rondo::run {

class TerminalInput {
 public:
  /// What rank 0 reads from.  Throws Error where there is no pipe to be had.
  int open();
  /// Closes this process's copy of it, once rank 0 has its own.
  void close_far_end() noexcept { far_end_.reset(); }
  /// What to poll for: something typed, or first some room for it; fd -1 where there is nothing to carry.
  pollfd poll_entry() const noexcept;
  /// Carries what was typed.  At its end, or when rank 0 reads no more, the pipe is closed.
  void move() noexcept;

 private:
  Descriptor pipe_;
  Descriptor far_end_;
};

}  // namespace rondo::run
