// A communicator: its ranks, its links, its cache of plans, the order of its calls, and its first failure.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "base/types.h"
#include "communicator/order.h"
#include "control.h"

namespace rondo {

/// One collective call, checked.  Sizes are in elements; `count` is per rank where the collective has a block a rank.
struct Call {
  CollectiveKind kind = CollectiveKind::all_reduce;
  const void* in = nullptr;
  void* out = nullptr;
  std::uint64_t count = 0;
  DataType type = DataType::float32;
  Operator op = Operator::sum;
  std::uint64_t scalar = 0;  // premul_sum: bits of this rank's scalar
  int root = 0;              // send_recv: the sender
  int peer = 0;              // send_recv: the receiver
  bool receives = false;     // send_recv: this rank's side, as both may be one rank
  std::uint64_t bundle = 0;  // the communicator's (communicator/bundle.h)
};

class Communicator;

/// A call and the communicator it is for.
struct PendingCall {
  Communicator* communicator = nullptr;
  Call call;
  std::uint64_t turn = 0;               // from CallOrder::take_turns(), or CallOrder::entered
  const void* device_scalar = nullptr;  // whoever runs the call reads its scalar from here, unless null
};

class Communicator {
 public:
  struct Options {
    std::string name;
    bool blocking = true;
  };
  /// Joins; blocks until every rank has.  Throws Error.
  static std::unique_ptr<Communicator> create(const control::UniqueId& id, int rank, int ranks, const Options& options);
  virtual ~Communicator() = default;

  virtual int rank() const noexcept = 0;
  virtual int ranks() const noexcept = 0;
  virtual int hosts() const noexcept = 0;
  /// Every taken turn must be run, in any thread; a run ends the turns of its calls.
  CallOrder& order() noexcept { return order_; }
  /// The first failure (sticky), or success.  Cheap; any thread.
  virtual Status status() const noexcept = 0;
  /// The sentence of the first failure, or empty.  Any thread.
  virtual std::string failure_sentence() const = 0;
  /// Makes every call on this communicator, here and on every other rank, return an error.  Any thread; never waits.
  virtual void abort() noexcept = 0;
  /// Says goodbye and drains; waits for taken turns first.  Bounded by RONDO_TIMEOUT.  Idempotent.
  virtual Status finalize() noexcept = 0;

 protected:
  CallOrder order_;
};

/// Runs calls to completion on this thread, all at once (a group), by the return rule of blocking calls.  The turns of
/// one communicator follow each other, or all its calls have entered; and its collectives precede its messages.
/// `patience`: how this thread may wait.
enum class Patience { caller, worker };  // a worker never spins while computation may want the core
Status run_calls(std::span<const PendingCall> calls, Patience patience) noexcept;

/// Told of calls that are done, in their order.
class Progress {
 public:
  virtual ~Progress() = default;
  virtual void done(std::size_t calls) noexcept = 0;  // so many of the first ones; all of them went well
};
inline constexpr std::size_t calls_ahead_max = 32;
/// The same for calls that are alike, on one communicator, of which none reads or writes what another one writes, and
/// which other ranks may make one by one: each sends before the ones before it are done.  False: nothing was done, as
/// that gains nothing here, or these are not calls like earlier ones.
bool run_ahead(std::span<const PendingCall> calls, Patience patience, Progress& progress, Status& status) noexcept;

/// One call, blocking: run_calls without the detours.
Status run_call(Communicator& communicator, const Call& call, std::uint64_t turn) noexcept;

}  // namespace rondo
