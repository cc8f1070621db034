// Threads that move bytes over sockets for the thread that makes a call: NCCL_SOCKET_NTHREADS, less the caller itself.
//
// Only the bytes of large messages are handed over, as errands: one message's bytes in one direction of one socket.
// Headers, small messages, order and credits stay with the end of the link that owns the errand.  An errand has a
// helper of its own, and any other that has nothing to do takes it where that one is busy; its owner may take it, too,
// so that nothing depends on a helper getting a processor.  Where a socket would block, whoever took the errand keeps
// it and sleeps on the socket.  One set of helpers a communicator; they end with it.  They block all signals.
#pragma once

#include <poll.h>
#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "base/doorbell.h"
#include "base/limits.h"

namespace rondo::tcp {

/// One socket's direction and what is to be moved over it.  Belongs to an end of a link; handed to helpers and back.
struct Errand {
  enum class State : std::uint8_t {
    none,   // its owner's
    ready,  // anyone's who takes it
    taken,  // of the helper `holder`, or for a moment of its owner
    done,   // its owner's again: all is moved, or it has failed
  };
  int socket = -1;
  bool sends = false;
  bool failed = false;  // the stream has ended, or the errand was recalled
  iovec parts[2] = {};  // what is left of them
  std::size_t left = 0;

  std::atomic<State> state{State::none};
  std::atomic<bool> recalled{false};
  std::atomic<int> holder{-1};
  int home = 0;   // whose it is by rights
  int index = 0;  // among those of its home
  int looks = 0;  // of its owner, since it was handed over
};

/// What a helper has done so far.
struct HelperCounts {
  std::uint64_t pieces = 0;  // errands that it brought to their end
  std::uint64_t bytes = 0;
  std::uint64_t stolen = 0;  // errands of others that it took
};

class Helpers {
 public:
  /// Starts `count` threads, which ring when an errand is over.  Throws Error.
  Helpers(int count, Ringer owners);
  /// Every errand has been given back.
  ~Helpers();
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;

  int count() const noexcept { return static_cast<int>(helpers_.size()); }
  std::vector<HelperCounts> counts() const;
  /// Errands that their owners took themselves.
  std::uint64_t taken_back() const noexcept { return taken_back_.load(std::memory_order_relaxed); }

  /// An errand whose home is helper `home`, or null: that one has all it can have.  Its memory lasts as long as the
  /// helpers.  Throws Error.
  Errand* hire(int home, int socket, bool sends);
  void dismiss(Errand& errand) noexcept;  // recalls it

  // By the owner, one thread at a time.
  /// Hands the errand over: bytes at `first`, then at `second`.  It must be State::none.
  void give(Errand& errand, iovec first, iovec second) noexcept;
  /// Whether the errand is over; then it is State::none again, and `failed` tells how it went.  An owner that looks in
  /// vain for a while takes an errand that no helper has taken.
  bool over(Errand& errand) noexcept;
  /// Gets the errand back, whatever became of it: nobody touches its memory any more.  Waits for a system call of the
  /// helper that has it.
  void recall(Errand& errand) noexcept;

 private:
  static constexpr std::size_t words = limits::errands_of_helper_max / 64;
  struct Helper {
    Descriptor event;
    std::atomic<bool> asleep{false};
    std::atomic<std::uint64_t> ready[words] = {};  // errands of this home that are to be taken, as bits
    std::atomic<Errand*> errands[limits::errands_of_helper_max] = {};
    std::atomic<std::uint64_t> pieces{0};
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> stolen{0};
    std::vector<Errand*> held;  // whose sockets would block; this thread's
    std::vector<pollfd> sockets;
    std::vector<Errand*> awake;
    std::thread thread;
  };
  void run(int me) noexcept;
  Errand* take(int me) noexcept;
  Errand* take_from(int home) noexcept;
  bool anything_ready(int home) const noexcept;
  void serve(int me, Errand& errand) noexcept;
  void sleep(int me) noexcept;
  void offer(Errand& errand, int but) noexcept;
  void finish(Errand& errand) const noexcept;
  static bool wake(Helper& helper) noexcept;
  void end() noexcept;

  const int pid_;
  const Ringer owners_;
  std::atomic<bool> ending_{false};
  std::atomic<std::uint64_t> taken_back_{0};
  std::vector<std::unique_ptr<Helper>> helpers_;
  std::mutex mutex_;  // of what is hired
  std::deque<Errand> errands_;
  std::vector<Errand*> errands_free_;
};

}  // namespace rondo::tcp
