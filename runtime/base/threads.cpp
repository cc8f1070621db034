// The count of idle threads beside the kernel's count of all: see threads.h.
#include "base/threads.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

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

void idle_began() noexcept { idle.fetch_add(1); }
void idle_ended() noexcept { idle.fetch_sub(1); }

bool only_this_one_acts() noexcept {
  const int others_idle = idle.load();
  return count_all() == others_idle + 1;
}

}  // namespace rondo::threads
