// What the ranks of a job find in their environment: torchrun's names, and Rondo's rendezvous.
#pragma once

#include <string>
#include <vector>

#include "launcher.h"

namespace rondo::run {

class Environment {
 public:
  /// The caller's environment, on top of it what all ranks of this attempt share, on top of that the options' own.  On
  /// one host the job has a fresh name and secret; on several hosts all launchers give the same name, and the secret is
  /// the caller's: RONDO_JOB_SECRET or RONDO_PSK_FILE.  `attempt` counts from 0.  Throws Error.
  Environment(const LaunchOptions& options, int attempt);
  /// "NAME=VALUE", in place of what was there.
  void set(const std::string& assignment);
  /// For execve; valid until the next set().
  std::vector<char*> pointers();

 private:
  std::vector<std::string> entries_;
};

}  // namespace rondo::run
