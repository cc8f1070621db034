// Taking from this process what a container or an administrator may take: system calls, descriptors, memory.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cstddef>
#include <stdexcept>

namespace rondo::test {

/// From now on the kernel answers the system call so, in this thread and those that it starts.
inline void answer(long call, unsigned action) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    throw std::runtime_error("cannot install a filter of system calls");
  }
}

/// From now on the system call fails with `error`.
inline void deny(long call, int error) { answer(call, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)); }
/// From now on the system call ends the process, by SIGSYS.
inline void forbid(long call) { answer(call, SECCOMP_RET_KILL_PROCESS); }

/// Lowers a limit of the process for a while.
class Limit {
 public:
  Limit(decltype(RLIMIT_AS) what, std::size_t value) : what_(what) {
    if (::getrlimit(what_, &before_) != 0) throw std::runtime_error("cannot read a limit");
    rlimit lower = before_;
    lower.rlim_cur = value;
    if (::setrlimit(what_, &lower) != 0) throw std::runtime_error("cannot set a limit");
  }
  ~Limit() { ::setrlimit(what_, &before_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  decltype(RLIMIT_AS) what_;
  rlimit before_;
};

}  // namespace rondo::test
