// Groups and batches: calls that run together.
//
// A group is a thread's: between ncclGroupStart and ncclGroupEnd its calls are collected in batches, one a queue (or
// the calling thread), and the outermost End takes their turns in the order in which they were called and runs them.
// A communicator's calls that alternate between queues start a new batch at each change, so that the turns of a
// communicator in one batch follow each other.  Collectives precede sends and receives.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "communicator.h"
#include "nccl.h"

namespace rondo {

class Queue;

/// Calls that run at once, and a reference to each of their communicators, which is released after the run.
class Batch {
 public:
  Batch() = default;
  Batch(Batch&& other) noexcept { swap(other); }
  Batch& operator=(Batch&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Batch() { release(); }

  bool empty() const noexcept { return calls_.empty(); }
  bool uses(const ncclComm* comm) const noexcept;
  /// `held`: Abort does not wait for the communicator's reference, until the calls' places are fixed.
  /// `device_scalar`, unless null, is read when the call runs.  Throws only before it has changed anything.
  void add(ncclComm* comm, const Call& call, const void* device_scalar, bool held);
  /// The same for a call of the communicator's owner, which holds it: false, and nothing done, unless there is room.
  bool add_own(ncclComm* comm, const Call& call) noexcept;
  /// Takes the sends and receives out.  Throws only before it has changed anything.
  Batch split_messages();
  /// Fixes the places of all calls, collectives before sends and receives, so that ranks that list them in other orders
  /// use their links in one order; from now on the batch must be run.
  void take_turns() noexcept;
  /// The same for a batch that runs now, in this thread: where that owns all communicators, it enters them instead.
  void enter_or_take_turns() noexcept;
  /// Runs the calls; the code and the sentence of the first failure.  The batch is empty afterwards.
  Status run(Patience patience, std::string& sentence) noexcept;
  /// Its one call, or null where there are more or the call has a device's scalar.
  const PendingCall* only_call() const noexcept {
    return calls_.size() == 1 && calls_.front().device_scalar == nullptr ? &calls_.front() : nullptr;
  }
  /// The calls have been run elsewhere: the sentence of their failure, and the batch is empty.
  Status end(Status status, std::string& sentence) noexcept;

 private:
  enum class Hold : std::uint8_t {
    counted,  // among the references
    held,     // and among those that Abort does not wait for
    owned,    // by the calling thread, without being counted
    entered,  // and it has entered
  };
  struct Reference {
    ncclComm* comm;
    std::uint64_t calls;
    std::uint64_t turn;  // of the next call, once the calls' places are fixed
    Hold hold;
  };
  void swap(Batch& other) noexcept {
    calls_.swap(other.calls_);
    references_.swap(other.references_);
  }
  Reference& reference_to(const Communicator* communicator) noexcept;
  /// Counts one more call; there is room for another reference.
  void refer_to(ncclComm* comm, bool held) noexcept;
  void put_collectives_first() noexcept;
  void release() noexcept;
  std::vector<PendingCall> calls_;
  std::vector<Reference> references_;  // one a communicator
};

/// Reads a scalar of `type` from memory.
std::uint64_t scalar_bits(const void* scalar, DataType type) noexcept;

namespace group {

/// How many groups this thread has open.  A plain word: the fast path of every call asks for it.
extern constinit thread_local int depth __attribute__((tls_model("initial-exec")));

void start() noexcept;
/// Adds a call of End's own, while the group holds nothing else: the path of small groups.  False: it has to be added
/// as any other.
bool add_quickly(ncclComm* comm, const Call& call) noexcept;
/// Adds a call.  `queue` null: the call is End's own.  Throws Error.
void add(ncclComm* comm, const Call& call, const void* device_scalar, std::shared_ptr<Queue> queue);
/// Adds work on whole communicators: all jobs of a kind run at once, each in its own thread.  Starts come before the
/// group's calls, which they exclude; ends come after.  Throws Error.
enum class Job { start, end };
void add(Job kind, std::function<ncclResult_t()> job);
/// Ends the innermost group; the outermost one runs everything, and reports the first failure.
ncclResult_t end() noexcept;
/// Ends the innermost group; the outermost one forgets everything.
ncclResult_t drop() noexcept;

}  // namespace group
}  // namespace rondo
