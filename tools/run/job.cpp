// One attempt at a job: see job.h.  What may wait is the poll of one turn; all else looks at what is there.
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/result.h"

namespace rondo::run {

namespace {

constexpr std::size_t named_max = 16;  // ranks that a sentence lists

std::string in_words(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, seconds < 10 ? "%.1f s" : "%.0f s", seconds);
  return text;
}

std::string list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), named_max); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  }
  if (ranks.size() > named_max) text += " and " + std::to_string(ranks.size() - named_max) + " more";
  return text;
}

}  // namespace

void say(const std::string& sentence) { std::fprintf(stderr, "rondo run: %s\n", sentence.c_str()); }

Desk::Desk() {
  signal(SIGCHLD, SIG_DFL);  // inherited as ignored, the kernel would reap the ranks itself
  signal(SIGPIPE, SIG_IGN);
  signal(SIGTTIN, SIG_IGN);  // reading the terminal from the background is an error, not a stop
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
  sigprocmask(SIG_BLOCK, &set, &mask);
  signals = Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) throw_system_error("cannot wait for signals");
  input_end = input.open();
}

Job::Job(const LaunchOptions& options, const std::string& program, Desk& desk, int attempt,
         std::optional<Clock::time_point> deadline)
    : options_(options),
      program_(program),
      desk_(desk),
      attempt_(attempt),
      timeout_(deadline),
      output_(options, attempt > 0) {}

Job::~Job() {
  for (const RankProcess& rank : ranks_) kill(-rank.pid, SIGKILL);  // also what ended ranks left behind
  output_.finish();
  if (output_.lost() != 0) desk_.output_lost = output_.lost();
  desk_.guard.forget();
  for (const RankProcess& rank : ranks_) waitpid(rank.pid, nullptr, 0);
}

Job::End Job::run() {
  if (start()) {
    while (std::any_of(ranks_.begin(), ranks_.end(), [](const RankProcess& rank) { return !rank.ending; })) turn();
    if (failed_ && !timed_out_) end_.account += rest();
  }
  return end_;
}

bool Job::start() {
  Environment environment(options_, attempt_);
  std::vector<char*> arguments;
  for (const std::string& argument : options_.command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const std::vector<int> processors = usable_processors();
  const bool bound = !processors.empty() &&
                     (options_.binding == Binding::core || (options_.binding == Binding::automatic &&
                                                            options_.ranks <= static_cast<int>(processors.size())));
  Descriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null) throw_system_error("cannot open /dev/null");

  for (int local = 0; local < options_.ranks; ++local) {
    const int rank = options_.host_index * options_.ranks + local;
    environment.set("RANK=" + std::to_string(rank));
    environment.set("LOCAL_RANK=" + std::to_string(local));
    std::vector<char*> variables = environment.pointers();
    const int input = rank == 0 ? desk_.input_end : null.get();
    const Output::Ends ends = output_.open(rank);
    Launch launch{program_.c_str(), arguments.data(), variables.data(), input, ends.out, ends.error, {}, desk_.mask};
    if (bound) {
      launch.processors.emplace();
      CPU_ZERO(&*launch.processors);
      CPU_SET(processors[static_cast<std::size_t>(local) % processors.size()], &*launch.processors);
    }
    int exec_error = 0;
    ranks_.push_back(start_rank(launch, exec_error));
    ranks_.back().rank = rank;
    desk_.guard.watch(ranks_.back().pid);
    output_.close_far_ends();
    if (exec_error != 0) {
      end_.status = exec_error == ENOENT ? 127 : 126;
      end_.account = "'" + program_ + "' cannot be executed: " + strerror(exec_error);
      return false;
    }
  }
  if (options_.restarts == attempt_) desk_.input.close_far_end();
  return true;
}

int Job::patience_ms() const {
  std::optional<Clock::time_point> next = deadline_;
  if (timeout_ && !failed_) next = timeout_;
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count();
  return static_cast<int>(std::clamp<long>(left, 0, 1000 * 1000));
}

void Job::turn() {
  std::vector<pollfd> entries{{desk_.signals.get(), POLLIN, 0}, desk_.input.poll_entry()};
  output_.poll_for(entries);
  if (poll(entries.data(), entries.size(), patience_ms()) < 0 && errno != EINTR) {
    throw_system_error("cannot wait for the ranks");
  }
  if (entries[1].revents != 0) desk_.input.move();
  output_.move();
  take_signals();
  see_endings();
  see_deadlines();
}

void Job::take_signals() {
  signalfd_siginfo info;
  while (read(desk_.signals.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGCHLD) continue;
    if (passed_on_ == 0) passed_on_ = static_cast<int>(info.ssi_signo);
    send(static_cast<int>(info.ssi_signo));
  }
}

void Job::send(int number) {
  for (const RankProcess& rank : ranks_) {
    if (!rank.ending) kill(-rank.pid, number);
  }
}

void Job::see_endings() {
  // Of ranks found dead at the same look, a killed one comes first: its death is why the others gave up.
  const RankProcess* first = nullptr;
  for (RankProcess& rank : ranks_) {
    if (rank.ending) continue;
    rank.look();
    if (!rank.ending) continue;
    rank.ending->by_launcher = ended_by_us_ && rank.ending->by_signal;
    if (!rank.ending->failed()) continue;
    if (!first || (rank.ending->by_signal && !first->ending->by_signal)) first = &rank;
  }
  if (first && !failed_) fail_first(*first);
}

void Job::fail_first(const RankProcess& first) {
  failed_ = true;
  end_.status = first.ending->status();
  end_.retry = passed_on_ == 0;
  deadline_ = Clock::now() + std::chrono::milliseconds(grace_ms);
  const std::string who = "rank " + std::to_string(first.rank);
  const std::string pid = "(pid " + std::to_string(first.pid) + ") ";
  const bool others = std::any_of(ranks_.begin(), ranks_.end(), [](const RankProcess& r) { return !r.ending; });
  if (others) say(who + " " + pid + first.ending->describe() + "; ending the other ranks");
  end_.account = who + " of " + std::to_string(options_.hosts * options_.ranks) + " " + pid +
                 (ranks_.size() > 1 ? "failed first" : "failed") + ", after " +
                 in_words(std::chrono::duration<double>(Clock::now() - began_).count()) + ": it " +
                 first.ending->describe();
  if (first.ending->by_signal && first.ending->number == passed_on_) end_.account += ", passed on by rondo run";
}

void Job::see_deadlines() {
  if (timeout_ && !failed_ && Clock::now() >= *timeout_) {
    std::vector<int> running;
    for (const RankProcess& rank : ranks_) {
      if (!rank.ending) running.push_back(rank.rank);
    }
    if (running.empty()) return;
    failed_ = timed_out_ = true;
    end_.status = status_of_timeout;
    end_.account = "timed out after " + in_words(*options_.timeout_s) + " (--timeout): " + list(running) + " of " +
                   std::to_string(options_.hosts * options_.ranks) + " had not ended";
    deadline_ = Clock::now();
  }
  if (!deadline_ || Clock::now() < *deadline_) return;
  ended_by_us_ = true;
  send(next_signal_);
  deadline_.reset();
  if (next_signal_ == SIGTERM) deadline_ = Clock::now() + std::chrono::milliseconds(terminate_ms);
  next_signal_ = SIGKILL;
}

/// What became of the ranks behind the first.
std::string Job::rest() const {
  int well = 0, ended = 0, failed = -1;  // the first is counted, too
  for (const RankProcess& rank : ranks_) {
    int& count = !rank.ending->failed() ? well : rank.ending->by_launcher ? ended : failed;
    ++count;
  }
  std::string text;
  const auto add = [&](int count, const char* what) {
    if (count > 0) text += (text.empty() ? "; of the others " : ", ") + std::to_string(count) + what;
  };
  add(well, " ended well");
  add(failed, " failed");
  add(ended, ended == 1 ? " was ended by rondo run" : " were ended by rondo run");
  return text;
}

}  // namespace rondo::run
