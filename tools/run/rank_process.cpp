// See rank_process.h.  The care is between fork and exec: everything that could allocate or fail with more than an
// errno is prepared before.
#include "rank_process.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <utility>

#include "base/descriptor.h"
#include "base/result.h"

namespace rondo::run {

std::string Ending::describe() const {
  if (!by_signal) return "exited with status " + std::to_string(number);
  return "was killed by signal " + std::to_string(number) + " (" + strsignal(number) + ")";
}

void RankProcess::look() noexcept {
  siginfo_t info{};
  if (ending || waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0) return;
  if (info.si_pid == pid) ending = Ending{info.si_code != CLD_EXITED, info.si_status, false};
}

namespace {

// Between fork and exec of a process of one thread.
[[noreturn]] void become(const Launch& launch, pid_t launcher, int report) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(128 + SIGKILL);  // it died before the line above
  if (launch.processors) sched_setaffinity(0, sizeof *launch.processors, &*launch.processors);
  dup2(launch.input, STDIN_FILENO);
  if (launch.output >= 0) dup2(launch.output, STDOUT_FILENO);
  if (launch.error >= 0) dup2(launch.error, STDERR_FILENO);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGTTIN, SIG_DFL);
  sigprocmask(SIG_SETMASK, &launch.mask, nullptr);
  execve(launch.program, launch.arguments, launch.environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t told = write(report, &error, sizeof error);
  _exit(127);
}

}  // namespace

RankProcess start_rank(const Launch& launch, int& exec_error) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw_system_error("cannot make a pipe for a rank");
  Descriptor reading(ends[0]), writing(ends[1]);  // exec closes the writing end; a failure is written to it
  const pid_t launcher = getpid();
  RankProcess rank;
  rank.pid = fork();
  if (rank.pid < 0) throw_system_error("cannot start a process for a rank");
  if (rank.pid == 0) become(launch, launcher, writing.get());
  setpgid(rank.pid, rank.pid);  // whoever comes first, so that the group exists when this function returns
  writing.reset();
  exec_error = 0;
  while (read(reading.get(), &exec_error, sizeof exec_error) < 0 && errno == EINTR) {
  }
  return rank;
}

std::vector<int> usable_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {};
  std::map<std::pair<std::string, std::string>, int> seen;  // (package, core): processors met so far
  std::map<std::pair<int, int>, int> ordered;               // (how many met before on its core, processor)
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &set)) continue;
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(processor) + "/topology/";
    std::string package, core = "processor " + std::to_string(processor);  // where unknown: a core of its own
    std::ifstream(folder + "physical_package_id") >> package;
    std::ifstream(folder + "core_id") >> core;
    ordered[{seen[{package, core}]++, processor}] = processor;
  }
  std::vector<int> processors;
  for (const auto& [order, processor] : ordered) processors.push_back(processor);
  return processors;
}

}  // namespace rondo::run
