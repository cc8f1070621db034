// Ranks as real processes: see processes.h.
#include "processes.h"

#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <thread>

#include "control/fork_guard.h"

namespace rondo::test {
namespace {

constexpr int patience_ms = 20000;

int entries_of(const char* path) {
  DIR* directory = ::opendir(path);
  if (directory == nullptr) throw std::runtime_error(std::string("cannot list ") + path);
  int count = 0;
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

}  // namespace

void Board::say(int rank, const std::string& text) {
  std::snprintf(texts[rank], sizeof(texts[rank]), "%s", text.c_str());
}

void Board::publish(const control::UniqueId& made, int which) {
  ids[which] = made;
  ids_ready[which].store(1);
}

control::UniqueId Board::await_id(int which) {
  for (int i = 0; i < patience_ms && ids_ready[which].load() == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return ids[which];
}

bool Board::await(int counter, int value) {
  for (int i = 0; i < patience_ms && counters[counter].load() < value; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return counters[counter].load() >= value;
}

World::World(int ranks, const Body& body) : endings_(static_cast<std::size_t>(ranks)), ended_(endings_.size()) {
  void* page = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw std::runtime_error("no memory for the board");
  board_ = new (page) Board;
  std::fflush(nullptr);
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t pid = ::fork();
    if (pid < 0) throw std::runtime_error("cannot fork");
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing is left behind by a test that is killed
      int status = 0;
      board_->pids[rank].store(::getpid());
      try {
        expect(!control::ForkGuard::forked(), "a test process that has not used Rondo itself before it forks");
        body(rank, *board_);
      } catch (const std::exception& error) {
        board_->say(rank, error.what());
        status = 1;
      }
      std::exit(status);
    }
    pids_.push_back(pid);
  }
}

World::~World() {
  for (std::size_t i = 0; i < pids_.size(); ++i) {
    if (ended_[i]) continue;
    ::kill(pids_[i], SIGKILL);
    ::waitpid(pids_[i], nullptr, 0);
  }
  ::munmap(board_, sizeof(Board));
}

void World::kill(int rank, int signal) const { ::kill(pid(rank), signal); }

Ending World::end(int rank) {
  const auto i = static_cast<std::size_t>(rank);
  if (!ended_[i]) {
    int status = 0;
    ::waitpid(pids_[i], &status, 0);
    ended_[i] = true;
    endings_[i] = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  return {endings_[i]};
}

std::string World::trouble() {
  std::string text;
  for (int rank = 0; rank < static_cast<int>(pids_.size()); ++rank) {
    const int status = end(rank).status;
    if (status != 0)
      text += "rank " + std::to_string(rank) + ": " + std::to_string(status) + " " + board_->texts[rank] + "\n";
  }
  return text;
}

void expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("expected: " + what);
}

std::string sentence_of(Code code, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    expect(error.code() == code, "code " + std::to_string(static_cast<int>(code)) + ", not " +
                                     std::to_string(static_cast<int>(error.code())) + ": " + error.what());
    return error.what();
  }
  throw std::runtime_error("expected an error");
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
int descriptors_open() { return entries_of("/proc/self/fd"); }
int threads_running() { return entries_of("/proc/self/task"); }

}  // namespace rondo::test
