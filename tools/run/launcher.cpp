// The launcher: see launcher.h.  Here are the attempts; one attempt is a Job.
#include "launcher.h"

#include <cstring>

#include "job.h"
#include "program.h"

namespace rondo::run {

int launch(const LaunchOptions& options) {
  const Program program = find_program(options.command.at(0));
  if (program.status != 0) {
    say(program.why);
    return program.status;
  }
  std::optional<Clock::time_point> deadline;
  if (options.timeout_s) {
    deadline =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*options.timeout_s));
  }
  Desk desk;
  const std::string attempts = std::to_string(options.restarts + 1);
  for (int attempt = 0;; ++attempt) {
    Job::End end;
    {
      Job job(options, program.path, desk, attempt, deadline);
      end = job.run();
    }  // what the ranks left behind is gone and told, before the last line
    const bool again = end.status != 0 && end.retry && attempt < options.restarts;
    if (!end.account.empty()) say(end.account);
    if (!again && desk.output_lost != 0) {
      say(std::string("what the ranks wrote could not be passed on: ") + std::strerror(desk.output_lost));
      if (end.status == 0) return 1;
    }
    if (!again) return end.status;
    say("starting the job again: attempt " + std::to_string(attempt + 2) + " of " + attempts);
  }
}

}  // namespace rondo::run
