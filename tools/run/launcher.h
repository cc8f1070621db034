// Starts the ranks of a job on this machine, and sees that none outlives it.
//
// Promises: each rank gets torchrun's environment and Rondo's rendezvous; signals reach all ranks; the first rank to
// fail decides the status and ends the job; when the launcher itself is killed, by whatever signal, so are the ranks
// and the processes they started.  Leaves out: other hosts, restarts.
//
// Limit: a process that leaves its rank's process group (setsid, setpgid: a daemon, a job of an interactive shell) is
// not found; a rank that execs a setuid program loses the kernel's half of the protection, and the guard remains.
#pragma once

#include <string>
#include <vector>

namespace rondo::run {

inline constexpr int ranks_max = 1024;
inline constexpr int grace_ms = 2000;      // from the first failure to SIGTERM
inline constexpr int terminate_ms = 2000;  // from SIGTERM to SIGKILL

enum class Binding { automatic, core, none };  // automatic: core if every rank can have its own

struct LaunchOptions {
  int ranks = 1;
  Binding binding = Binding::automatic;
  std::vector<std::string> environment;  // "NAME=VALUE", on top of the caller's environment and of ours
  std::vector<std::string> command;      // program and arguments; the program is searched for in PATH
};

/// Runs the job to its end and returns its status: 0, or the first failing rank's exit status, or 128 + its signal; 127
/// where the program is not found, 126 where it cannot be executed.  Every failure is told on stderr in one line.
/// Throws Error where the system refuses a process.  Call from a process of one thread: it blocks signals, and ranks
/// die with the thread that started them.
int launch(const LaunchOptions& options);

}  // namespace rondo::run
