// Ranks as real processes, for tests: forks, a page that they share, what they report, how they ended.
//
// The test process itself never uses Rondo (a fork would then make its children unusable); everything runs in children.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "control.h"

namespace rondo::test {

inline constexpr int ranks_max = 64;

/// The page that a test and its processes share.
struct Board {
  control::UniqueId ids[2];
  std::atomic<int> ids_ready[2] = {};
  std::atomic<int> counters[16] = {};
  std::atomic<int> pids[ranks_max] = {};
  char texts[ranks_max][1024] = {};  // by rank: what went wrong, or what the test asked for

  void say(int rank, const std::string& text);
  void publish(const control::UniqueId& made, int which = 0);
  control::UniqueId await_id(int which = 0);
  /// Waits until the counter has reached `value`; false after 20 s.
  bool await(int counter, int value);
};

/// How a process ended: its exit status, or minus the signal.
struct Ending {
  int status = 0;
};

/// Processes that run `body(rank, board)`.  A body that throws ends with status 1, its words in `texts[rank]`.
class World {
 public:
  using Body = std::function<void(int rank, Board& board)>;
  explicit World(int ranks, const Body& body);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  Board& board() noexcept { return *board_; }
  void kill(int rank, int signal) const;
  pid_t pid(int rank) const { return pids_[static_cast<std::size_t>(rank)]; }
  /// Waits for the process.
  Ending end(int rank);
  /// Waits for all; "" if all ended with status 0, else which did not, and their words.
  std::string trouble();

 private:
  Board* board_;
  std::vector<pid_t> pids_;
  std::vector<int> endings_;
  std::vector<bool> ended_;
};

inline control::Deadline in_seconds(double seconds) {
  return control::Clock::now() + std::chrono::milliseconds(static_cast<long>(seconds * 1000));
}

/// In a process of a World: throws if not.
void expect(bool condition, const std::string& what);
/// The sentence of the Error that `action` throws; throws if it throws none or another code.
std::string sentence_of(Code code, const std::function<void()>& action);
bool contains(const std::string& text, const std::string& part);
/// Open descriptors, and threads, of this process.
int descriptors_open();
int threads_running();

}  // namespace rondo::test
