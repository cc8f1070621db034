// The control thread and the control plane of a communicator: who is there, who is alive, channels to peers.
//
// One control thread per process, the sole global: it starts with the first communicator, blocks all signals, sleeps in
// epoll, and carries set-up, descriptors, liveness and failure; never user data.  A child after fork has none of it:
// its calls get an Error.  One listener (an abstract Unix socket with a random name) serves every communicator of the
// process, and one TCP port does where ranks may be on other hosts; a connection proves knowledge of the communicator's
// secret (HMAC both ways) before it is believed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/doorbell.h"
#include "base/result.h"
#include "control/address.h"
#include "transport.h"

namespace rondo::control {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

/// What ncclUniqueId holds: 128 bytes, opaque to users.
struct UniqueId {
  std::byte bytes[128] = {};
};

/// Starts a root on this process's control thread: it gathers the ranks that join with this id and tells each of all.
/// Ranks of other hosts reach it by the addresses in the id.  Throws Error.
UniqueId create_unique_id();

/// What all ranks agree on where no id is passed: rank 0 serves it, the others call.
struct Rendezvous {
  std::string name;    // an abstract socket's, without the leading zero: 1 to 64 characters, 47 with addresses
  std::string secret;  // what the id's own is made of
  /// Where rank 0 listens, for ranks of other hosts: a name or numbers, and a port.  0: all are on one host.
  std::string host;
  std::uint16_t port = 0;
  std::string variable;  // that names the host, for errors
};
/// Starts a root whose id both sides derive (rank 0, on that host).  The others derive it by `derived_unique_id`, which
/// may ask for the host's addresses, and join.  Throws Error.
UniqueId create_derived_root(const Rendezvous& rendezvous);
UniqueId derived_unique_id(const Rendezvous& rendezvous);

struct Member {
  int rank = 0;
  std::int64_t pid = 0;
  std::string host;                // for messages only; whether memory is shared is found by a probe
  std::uint64_t host_key = 0;      // equal on one host, or where NCCL_HOSTID is
  std::string listener;            // abstract socket name of its process's control thread
  std::vector<Address> addresses;  // of the same, for other hosts; none where all ranks are on one host
  std::uint64_t cpus_key = 0;      // equal in ranks of a host that may use the same CPUs
  std::uint16_t cpus = 0;          // how many the thread that joined may use
};

/// What every rank knows after joining.
struct Membership {
  int rank = 0;
  std::uint64_t communicator = 0;  // agreed, random
  std::byte secret[32] = {};       // of this communicator
  std::vector<Member> members;     // by rank
};

/// Joins as `rank` of `ranks`; blocks until all have joined.  `settings`: in words, what all must have set alike.
/// Throws Error: timeout (names the missing ranks), a rank outside the world, a rank joined twice, ranks that disagree
/// on `ranks` or `settings`, an id that nobody serves.
Membership join(const UniqueId& id, int rank, int ranks, Deadline deadline, const std::string& settings = {});

/// The first failure a communicator saw.
struct Failure {
  Code code = Code::remote_error;
  int rank = -1;
  std::string sentence;
};

/// A communicator's control plane.  All hooks run on the control thread, must not throw, and must not wait for
/// a thread that waits for the mesh.  After each, the process's doorbell is rung.
class Mesh {
 public:
  struct Hooks {
    /// A pair channel to `peer` is open (the lower rank initiated it).  The wire lives as long as the mesh.
    std::function<void(int peer, Wire& wire)> opened;
    std::function<void(int peer, Frame& frame)> frame;
    /// A rank died, failed or aborted.  News of a rank counts once: the first of failed and left.
    std::function<void(const Failure& failure)> failed;
    /// A rank destroyed its communicator or ended its process in good order: only calls that need it fail.
    std::function<void(int rank)> left;
  };
  /// No hook runs before start().
  static std::unique_ptr<Mesh> create(const Membership& membership, Hooks hooks);
  virtual ~Mesh() = default;

  /// Opens this rank's lines of the tree along which ranks tell of departures and deaths (pidfd or end of file), and
  /// blocks until they stand; once.  Each rank knows within a second.  Throws Error: timeout (names who is missing), or
  /// one of those is gone.
  virtual void start(Deadline deadline) = 0;

  /// Starts opening the pair channel to `peer` if this rank is the lower one; otherwise the peer will.  Idempotent.
  virtual void want(int peer) = 0;
  /// Tells every rank that this one failed or aborted; they fail with remote_error naming this rank and `sentence`.
  virtual void tell_failure(const std::string& sentence) = 0;
  /// Returns when the control thread has done what it was asked for before, tell_failure above all; at once on that
  /// thread; after limits::tell_timeout_ms at the latest.  For callers that may end their process next.  Holds no lock
  /// that a hook takes.
  virtual void await_told() noexcept = 0;
  /// Says goodbye, flushes what is queued, closes; afterwards no hook runs.  Bounded by `deadline`.
  virtual void close(Deadline deadline) noexcept = 0;
};

/// This process's doorbell: rung by peers that sent a message or released one, and by the control thread.
Doorbell& doorbell();

/// Throws Error(invalid_usage, forked_sentence) in a child that was forked after the control thread had started.
void check_not_forked();
inline constexpr const char* forked_sentence =
    "this process was forked from one that uses Rondo, and a forked child cannot use it: create communicators after "
    "the fork, or start the child as a program of its own (exec)";

}  // namespace rondo::control
