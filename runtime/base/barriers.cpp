// membarrier(2), of which the C library has no wrapper.
#include "base/barriers.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace rondo::barriers {
namespace {

long membarrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0, 0); }

constexpr auto refused_for = std::chrono::milliseconds(20);

}  // namespace

bool registered() noexcept {
  static const bool done = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
  return done;
}

bool everywhere() noexcept { return membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0; }

void in_this_process() noexcept {
  if (!everywhere()) std::this_thread::sleep_for(refused_for);
}

}  // namespace rondo::barriers
