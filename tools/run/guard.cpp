// See guard.h.  The protocol on the pipe: process group numbers; 0 dismisses, -1 forgets.
#include "guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "base/result.h"

namespace rondo::run {

namespace {

[[noreturn]] void stand_guard(int pipe) {
  setpgid(0, 0);  // a signal for the launcher's group is not for the guard
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  prctl(PR_SET_NAME, "rondo-guard");
  // Whoever reads the job's output until end of file must not wait for the guard.
  const int null = open("/dev/null", O_RDWR);
  if (null >= 0) {
    for (int fd = 0; fd <= 2; ++fd) dup2(null, fd);
  }
  std::vector<pid_t> groups;
  for (;;) {
    pid_t group = 0;
    if (read(pipe, &group, sizeof group) != static_cast<ssize_t>(sizeof group)) break;  // the launcher is dead
    if (group == 0) _exit(0);
    if (group < 0) {
      groups.clear();
    } else {
      groups.push_back(group);
    }
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  _exit(0);
}

}  // namespace

Guard::Guard() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw_system_error("cannot make a pipe for the guard process");
  Descriptor reading(ends[0]);
  pipe_ = Descriptor(ends[1]);
  pid_ = fork();
  if (pid_ < 0) throw_system_error("cannot start the guard process");
  if (pid_ == 0) {
    pipe_.reset();
    stand_guard(reading.get());
  }
}

Guard::~Guard() {
  tell(0);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guard::watch(pid_t group) noexcept { tell(group); }

void Guard::forget() noexcept { tell(-1); }

void Guard::tell(pid_t word) noexcept {
  // A pipe takes a few bytes whole.  The only failure is a guard that somebody killed: the ranks then have the kernel's
  // half of the protection, and the job goes on.
  while (write(pipe_.get(), &word, sizeof word) < 0 && errno == EINTR) {
  }
}

}  // namespace rondo::run
