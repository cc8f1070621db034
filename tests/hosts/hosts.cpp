// Hosts for tests: see hosts.h.
#include "hosts.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace rondo::test {

Hosts::Hosts(int count) {
  try {
    for (int i = 0; i <= count; ++i) holders_.push_back(hold());
    const pid_t hub = holders_.back();
    command(hub, "link add br0 type bridge");
    command(hub, "link set br0 up");
    for (int i = 0; i < count; ++i) {
      const std::string port = "port" + std::to_string(i);
      const std::string number = std::to_string(i + 1);
      command(hub, "link add " + port + " type veth peer name eth0 netns " +
                       std::to_string(holders_[static_cast<std::size_t>(i)]));
      command(hub, "link set " + port + " master br0 up");
      ip(i, "link set lo up");
      ip(i, "addr add 10.77.0." + number + "/24 dev eth0");
      ip(i, "addr add fd77::" + number + "/64 dev eth0 nodad");
      ip(i, "link set eth0 up");
    }
  } catch (...) {
    this->~Hosts();
    throw;
  }
}

Hosts::~Hosts() {
  for (const pid_t holder : holders_) ::kill(holder, SIGKILL);
  for (const pid_t holder : holders_) ::waitpid(holder, nullptr, 0);
  holders_.clear();
}

pid_t Hosts::hold() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw Unavailable("no pipe");
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char error = ::unshare(CLONE_NEWNET) == 0 ? 0 : static_cast<char>(errno);
    (void)!::write(ends[1], &error, 1);
    for (;;) ::pause();
  }
  char error = EIO;
  if (pid > 0) (void)!::read(ends[0], &error, 1);
  ::close(ends[0]);
  ::close(ends[1]);
  if (pid < 0) throw Unavailable("no process");
  if (error == 0) return pid;
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  throw Unavailable(std::string("network namespaces cannot be made here (run as root): ") + std::strerror(error));
}

void Hosts::command(pid_t holder, const std::string& words) const {
  const std::string line = "nsenter --net=/proc/" + std::to_string(holder) + "/ns/net ip " + words;
  if (std::system(line.c_str()) != 0) throw Unavailable("this failed, see above: " + line);
}

void Hosts::ip(int host, const std::string& arguments) const {
  command(holders_[static_cast<std::size_t>(host)], arguments);
}

void Hosts::enter(int host) const {
  const std::string path = "/proc/" + std::to_string(holders_[static_cast<std::size_t>(host)]) + "/ns/net";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || ::setns(fd, CLONE_NEWNET) != 0) throw std::runtime_error("cannot enter " + path);
  ::close(fd);
}

}  // namespace rondo::test
