// Starting threads, and the count of idle threads beside the kernel's count of all: see threads.h.
#include "base/threads.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
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

constexpr std::uint64_t short_slice_ns = 100'000;  // the least that Linux gives

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

namespace {

constinit thread_local bool modest = false;

/// What the kernel takes as struct sched_attr, which C libraries do not have: its first version, of 48 bytes.
struct Attributes {
  std::uint32_t bytes = 48;
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0;
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};
static_assert(sizeof(Attributes) == 48);

/// SCHED_BATCH never interrupts another thread as it is woken; SCHED_OTHER does, and from Linux 6.12 on the sooner the
/// shorter the slices it asks for are.
void set_policy(int policy) noexcept {
  Attributes attributes;
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH) return;
  attributes.policy = static_cast<std::uint32_t>(policy);
  attributes.runtime_ns = short_slice_ns;  // older kernels look at it for SCHED_DEADLINE alone
  (void)::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

void be_modest() noexcept {
  if (!std::exchange(modest, true)) set_policy(SCHED_BATCH);
}
void be_prompt() noexcept {
  if (std::exchange(modest, false)) set_policy(SCHED_OTHER);
}

void idle_began() noexcept { idle.fetch_add(1); }
void idle_ended() noexcept { idle.fetch_sub(1); }

bool only_this_one_acts() noexcept {
  const int others_idle = idle.load();
  const int all = count_all();
  return all == others_idle + 1 && idle.load() == others_idle;  // else some thread began or ended meanwhile
}

}  // namespace rondo::threads
