// See launcher.h.  One thread and one loop: it sleeps in poll on a signalfd, so that signals, deaths and deadlines are
// events like any other.  Ended ranks stay zombies until the whole job has ended: their process groups keep their
// numbers, and what is left in them can be killed without hitting a stranger.
#include "launcher.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>

#include "base/descriptor.h"
#include "base/result.h"
#include "guard.h"
#include "rank_process.h"
#include "terminal_input.h"

namespace rondo::run {

namespace {

using Clock = std::chrono::steady_clock;

void say(const std::string& sentence) { std::fprintf(stderr, "rondo run: %s\n", sentence.c_str()); }

std::string random_hex(std::size_t bytes) {
  std::string hex;
  for (std::size_t i = 0; i < bytes; ++i) {
    unsigned char byte = 0;
    if (getrandom(&byte, 1, 0) != 1) throw_system_error("cannot draw random bytes for the job's secret");
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    hex += digits;
  }
  return hex;
}

// Free now; somebody may take it before rank 0 does, as with every launcher that chooses a port.
std::string free_port() {
  Descriptor socket_fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!socket_fd || bind(socket_fd.get(), generic, size) != 0 || getsockname(socket_fd.get(), generic, &size) != 0)
    throw_system_error("cannot find a free port on 127.0.0.1 for MASTER_PORT");
  return std::to_string(ntohs(address.sin_port));
}

// Where the program is, or the status and the sentence why it cannot be run.
struct Found {
  std::string path;
  int status = 0;
  std::string why;
};

Found find_program(const std::string& name) {
  std::vector<std::string> candidates;
  if (name.find('/') != std::string::npos) {
    candidates.push_back(name);
  } else {
    const char* variable = std::getenv("PATH");
    const std::string path = variable ? variable : "/usr/local/bin:/usr/bin:/bin";
    for (std::size_t at = 0; at <= path.size();) {
      const std::size_t end = std::min(path.find(':', at), path.size());
      candidates.push_back((end == at ? "." : path.substr(at, end - at)) + "/" + name);
      at = end + 1;
    }
  }
  Found found{"", 127, "the program '" + name + "' was not found; give a path or a name that PATH knows"};
  for (const std::string& candidate : candidates) {
    struct stat info {};
    if (stat(candidate.c_str(), &info) != 0) continue;
    if (S_ISREG(info.st_mode) && access(candidate.c_str(), X_OK) == 0) return {candidate, 0, ""};
    if (found.status == 127)
      found = {"", 126,
               "'" + candidate + "' cannot be executed: " +
                   (S_ISREG(info.st_mode) ? "it is not marked executable (chmod +x)" : "it is not a file")};
  }
  return found;
}

class Environment {
 public:
  Environment() {
    for (char** entry = environ; *entry; ++entry) entries_.emplace_back(*entry);
  }
  void set(const std::string& assignment) {
    const std::string_view name = std::string_view(assignment).substr(0, assignment.find('=') + 1);
    std::erase_if(entries_, [&](const std::string& entry) { return entry.starts_with(name); });
    entries_.push_back(assignment);
  }
  std::vector<char*> pointers() {
    std::vector<char*> result;
    for (std::string& entry : entries_) result.push_back(entry.data());
    result.push_back(nullptr);
    return result;
  }

 private:
  std::vector<std::string> entries_;
};

class Job {
 public:
  Job(const LaunchOptions& options, const std::string& program) : options_(options), program_(program) {}
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() {
    for (const RankProcess& rank : ranks_) kill(-rank.pid, SIGKILL);  // also what ended ranks left behind
    guard_.reset();
    for (const RankProcess& rank : ranks_) waitpid(rank.pid, nullptr, 0);
  }
  int run() {
    take_signals();
    guard_ = std::make_unique<Guard>();
    const bool started = start();
    while (std::any_of(ranks_.begin(), ranks_.end(), [](const RankProcess& rank) { return !rank.ending; })) turn();
    return started ? status_ : exec_status_;
  }

 private:
  void take_signals() {
    signal(SIGCHLD, SIG_DFL);  // inherited as ignored, the kernel would reap the ranks itself
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTTIN, SIG_IGN);  // reading the terminal from the background is an error, not a stop
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
    sigprocmask(SIG_BLOCK, &set, &mask_);
    signals_ = Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) throw_system_error("cannot wait for signals");
  }

  // False: the program cannot be executed; told, and the ranks started so far are being killed.
  bool start();
  void turn();
  void see_endings();
  void send(int number) {
    for (const RankProcess& rank : ranks_)
      if (!rank.ending) kill(-rank.pid, number);
  }

  const LaunchOptions& options_;
  const std::string& program_;
  sigset_t mask_{};
  Descriptor signals_;
  std::unique_ptr<Guard> guard_;
  TerminalInput input_;
  std::vector<RankProcess> ranks_;
  bool failed_ = false;
  int status_ = 0;
  int exec_status_ = 0;
  std::optional<Clock::time_point> deadline_;  // of the ranks that go on after a failure
  int next_signal_ = SIGTERM;                  // what they get then
};

bool Job::start() {
  Environment environment;
  environment.set("WORLD_SIZE=" + std::to_string(options_.ranks));
  environment.set("LOCAL_WORLD_SIZE=" + std::to_string(options_.ranks));
  environment.set("MASTER_ADDR=127.0.0.1");
  environment.set("MASTER_PORT=" + free_port());
  environment.set("RONDO_JOB_NAME=rondo-" + std::to_string(getpid()) + "-" + random_hex(8));
  environment.set("RONDO_JOB_SECRET=" + random_hex(32));
  for (const std::string& assignment : options_.environment) environment.set(assignment);

  std::vector<char*> arguments;
  for (const std::string& argument : options_.command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const std::vector<int> processors = usable_processors();
  const bool bound = !processors.empty() &&
                     (options_.binding == Binding::core || (options_.binding == Binding::automatic &&
                                                            options_.ranks <= static_cast<int>(processors.size())));
  Descriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null) throw_system_error("cannot open /dev/null");
  const int first_input = input_.open();

  for (int rank = 0; rank < options_.ranks; ++rank) {
    environment.set("RANK=" + std::to_string(rank));
    environment.set("LOCAL_RANK=" + std::to_string(rank));
    std::vector<char*> variables = environment.pointers();
    const int input = rank == 0 ? first_input : null.get();
    Launch launch{program_.c_str(), arguments.data(), variables.data(), input, {}, mask_};
    if (bound) {
      launch.processors.emplace();
      CPU_ZERO(&*launch.processors);
      CPU_SET(processors[static_cast<std::size_t>(rank) % processors.size()], &*launch.processors);
    }
    int exec_error = 0;
    ranks_.push_back(start_rank(launch, exec_error));
    guard_->watch(ranks_.back().pid);
    if (exec_error != 0) {
      say("'" + program_ + "' cannot be executed: " + strerror(exec_error));
      exec_status_ = exec_error == ENOENT ? 127 : 126;
      failed_ = true;
      send(SIGKILL);
      return false;
    }
  }
  input_.close_far_end();
  return true;
}

void Job::turn() {
  int timeout_ms = -1;
  if (deadline_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - Clock::now()).count();
    timeout_ms = static_cast<int>(std::max<long>(0, left));
  }
  pollfd entries[2] = {{signals_.get(), POLLIN, 0}, input_.poll_entry()};
  if (poll(entries, 2, timeout_ms) < 0 && errno != EINTR) throw_system_error("cannot wait for the ranks");
  if (entries[1].revents != 0) input_.move();
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info))
    if (info.ssi_signo != SIGCHLD) send(static_cast<int>(info.ssi_signo));
  see_endings();
  if (deadline_ && Clock::now() >= *deadline_) {
    send(next_signal_);
    deadline_ =
        next_signal_ == SIGTERM ? std::optional(Clock::now() + std::chrono::milliseconds(terminate_ms)) : std::nullopt;
    next_signal_ = SIGKILL;
  }
}

void Job::see_endings() {
  // Of ranks found dead at the same look, a killed one comes first: its death is why the others gave up.
  const RankProcess* first = nullptr;
  for (RankProcess& rank : ranks_) {
    if (rank.ending) continue;
    rank.look();
    if (!rank.ending || !rank.ending->failed()) continue;
    if (!first || (rank.ending->by_signal && !first->ending->by_signal)) first = &rank;
  }
  if (!first || failed_) return;
  failed_ = true;
  status_ = first->ending->status();
  deadline_ = Clock::now() + std::chrono::milliseconds(grace_ms);
  const auto others = std::count_if(ranks_.begin(), ranks_.end(), [](const RankProcess& r) { return !r.ending; });
  say("rank " + std::to_string(first - ranks_.data()) + " (pid " + std::to_string(first->pid) + ") " +
      first->ending->describe() + (others > 0 ? "; ending the other ranks" : ""));
}

}  // namespace

int launch(const LaunchOptions& options) {
  const Found found = find_program(options.command.at(0));
  if (found.status != 0) {
    say(found.why);
    return found.status;
  }
  return Job(options, found.path).run();
}

}  // namespace rondo::run
