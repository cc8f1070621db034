// One rank as a process: what it is started with, and how it ended.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace rondo::run {

/// How a process ended.
struct Ending {
  bool by_signal = false;
  int number = 0;            // of the signal, or the exit status
  bool by_launcher = false;  // of a signal that it sent to end the job
  bool failed() const noexcept { return by_signal || number != 0; }
  int status() const noexcept { return by_signal ? 128 + number : number; }
  /// "exited with status 3" or "was killed by signal 9 (Killed)".
  std::string describe() const;
};

struct RankProcess {
  int rank = 0;
  pid_t pid = -1;
  std::optional<Ending> ending;  // set once it has ended; it is reaped only when the whole job has ended

  /// Looks whether it has ended.  The zombie stays, so that its process group's number cannot be given anew.
  void look() noexcept;
};

/// What the child needs between fork and exec, made before the fork.
struct Launch {
  const char* program = nullptr;
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
  int input = -1;                       // becomes its standard input
  int output = -1;                      // its standard output, and
  int error = -1;                       // its standard error; -1: the launcher's own
  std::optional<cpu_set_t> processors;  // to bind it to
  sigset_t mask;                        // its signal mask
};

/// Starts a rank in a process group of its own, to be killed when the calling thread dies.  `exec_error` is 0, or why
/// the program could not be executed.  Throws Error where there is no process to be had.
RankProcess start_rank(const Launch& launch, int& exec_error);

/// The processors this process may use, one of every core before any core's second.
std::vector<int> usable_processors();

}  // namespace rondo::run
