// Starts the ranks of a job on this host, and sees that none outlives it.
//
// Promises: each rank gets torchrun's environment and Rondo's rendezvous; signals reach all ranks; the first rank to
// fail decides the status and ends the job; when the launcher itself is killed, by whatever signal, so are the ranks
// and the processes they started.  A job of several hosts has a launcher on each, and nothing connects them but the
// ranks: a rank that fails makes the others' calls fail, and each launcher ends its own.
//
// Limit: a process that leaves its rank's process group (setsid, setpgid: a daemon, a job of an interactive shell) is
// not found; a rank that execs a setuid program loses the kernel's half of the protection, and the guard remains.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace rondo::run {

inline constexpr int ranks_max = 1024;  // on one host
inline constexpr int hosts_max = 65536;
inline constexpr int grace_ms = 2000;      // from the first failure to SIGTERM
inline constexpr int terminate_ms = 2000;  // from SIGTERM to SIGKILL
inline constexpr int status_of_timeout = 124;

enum class Binding { automatic, core, none };  // automatic: core if every rank can have its own

struct LaunchOptions {
  int ranks = 1;  // on this host, and on every other of the job
  Binding binding = Binding::automatic;
  std::vector<std::string> environment;  // "NAME=VALUE", on top of the caller's environment and of ours
  std::vector<std::string> command;      // program and arguments; the program is searched for in PATH
  bool tag_output = false;
  std::string output_folder;  // empty: none
  std::optional<double> timeout_s;
  int restarts = 0;  // how often a job that failed is started again
  int hosts = 1;
  int host_index = 0;
  std::string master_address;  // of the host with rank 0, where there are several
  int master_port = 0;         // 0: a free one, on one host
};

/// Runs the job to its end and returns its status: 0, or the first failing rank's exit status, or 128 + its signal; 127
/// where the program is not found, 126 where it cannot be executed, 124 after the timeout.  A failure is told on
/// stderr, and the last line says what it was.  Throws Error where the system refuses a process.  Call from a process
/// of one thread: it blocks signals, and ranks die with the thread that started them.
int launch(const LaunchOptions& options);

}  // namespace rondo::run
