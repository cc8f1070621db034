// One attempt at a job: the ranks of this host as processes, from their start to the end of the last.
//
// One thread and one loop: it sleeps in poll on a signalfd, so that signals, deaths, deadlines and output are events
// like any other.  Ended ranks stay zombies until the whole attempt has ended: their process groups keep their numbers,
// and what is left in them can be killed without hitting a stranger.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "environment.h"
#include "guard.h"
#include "launcher.h"
#include "output.h"
#include "rank_process.h"
#include "terminal_input.h"

namespace rondo::run {

using Clock = std::chrono::steady_clock;

/// One line on stderr.
void say(const std::string& sentence);

/// What outlives an attempt: the signals that the process takes as events, the guard, the input of rank 0.
struct Desk {
  Desk();  // throws Error
  sigset_t mask{};
  Descriptor signals;
  Guard guard;
  TerminalInput input;
  int input_end = -1;
  int output_lost = 0;  // errno, of what could not be passed on
};

class Job {
 public:
  /// The references must outlive it.  `deadline` is the timeout's.
  Job(const LaunchOptions& options, const std::string& program, Desk& desk, int attempt,
      std::optional<Clock::time_point> deadline);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  struct End {
    int status = 0;
    bool retry = false;   // a rank failed of itself: another attempt may help
    std::string account;  // what happened, if it was a failure
  };
  /// Throws Error where the system refuses a process.
  End run();

 private:
  // False: the program cannot be executed; the ranks started so far are being killed.
  bool start();
  void turn();
  int patience_ms() const;
  void take_signals();
  void see_endings();
  void see_deadlines();
  void fail_first(const RankProcess& first);
  void send(int number);
  std::string rest() const;

  const LaunchOptions& options_;
  const std::string& program_;
  Desk& desk_;
  int attempt_;
  Clock::time_point began_ = Clock::now();
  std::optional<Clock::time_point> timeout_;
  Output output_;
  std::vector<RankProcess> ranks_;
  bool failed_ = false;
  bool timed_out_ = false;
  End end_;
  int passed_on_ = 0;                          // the first signal that came for the job
  std::optional<Clock::time_point> deadline_;  // of the ranks that go on after a failure
  int next_signal_ = SIGTERM;                  // what they get then
  bool ended_by_us_ = false;                   // they got it
};

}  // namespace rondo::run
