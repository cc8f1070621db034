// Starting threads, and the count of idle threads beside the kernel's count of all: see threads.h.
#include "base/threads.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/result.h"

namespace rondo::threads {
namespace {

constinit std::atomic<int> idle{0};

/// Threads of this process, or 0: the 20th field of /proc/self/stat (proc(5)), counted behind the program's name, which
/// is in brackets and may hold anything.
int count_all() noexcept {
  const int fd = ::open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[1024];
  const ssize_t bytes = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (bytes <= 0) return 0;
  text[bytes] = 0;
  const char* at = std::strrchr(text, ')');
  for (int field = 2; at != nullptr && field < 20; ++field) at = std::strchr(at + 1, ' ');
  return at != nullptr ? std::atoi(at) : 0;
}

}  // namespace

std::thread start(const std::string& name, const std::string& what, std::function<void()> work) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // the thread inherits it
  std::thread thread;
  std::string error;
  try {
    thread = std::thread(std::move(work));
    ::pthread_setname_np(thread.native_handle(), name.c_str());
  } catch (const std::system_error& refused) {
    error = refused.what();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!error.empty()) throw Error(Code::system_error, "cannot start " + what + ": " + error);
  return thread;
}

void idle_began() noexcept { idle.fetch_add(1); }
void idle_ended() noexcept { idle.fetch_sub(1); }

bool only_this_one_acts() noexcept {
  const int others_idle = idle.load();
  return count_all() == others_idle + 1;
}

}  // namespace rondo::threads
