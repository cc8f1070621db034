// The links of a communicator and its first failure: connections are opened when first used, over the mesh's wires.
//
// Each pair agrees on its transport: both sides offer those that reach the other, and the first that both offer it is.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "communicator/choice.h"
#include "control.h"
#include "executor.h"
#include "transport.h"

namespace rondo {

/// How pairs of ranks are linked.  The same on all ranks.  Ranks of different hosts (Member::host_key) are linked as if
/// they shared no memory, unless `only` says otherwise.
struct LinkPolicy {
  std::string only;  // the transport of all pairs; "": the first that reaches
  Reach reach = Reach::near;
  int lanes = 1;  // that plans are striped over, where there are more than a schedule's own
};

/// Ranks by their place in the communicator.  The calling thread binds plans; the control thread opens connections.
class Peers final : public Links {
 public:
  /// `transports` in order of preference; the first that can links this rank to itself.
  Peers(const control::Membership& membership, std::vector<std::unique_ptr<Transport>> transports, LinkPolicy policy,
        control::Deadline deadline);
  ~Peers() override;

  int rank() const noexcept { return membership_.rank; }
  int ranks() const noexcept { return static_cast<int>(membership_.members.size()); }
  const control::Membership& membership() const noexcept { return membership_; }
  std::string describe(int rank) const;  // "rank 2 (host, pid 123)"
  /// The other ranks of this very process.
  const std::vector<int>& siblings() const noexcept { return siblings_; }
  /// Why a call that needs `sibling` cannot go on, and what to do.
  std::string stranded(int sibling) const;
  bool has_left(int rank) const;
  /// Why its links report an error, where they found it themselves; else empty.
  std::string trouble(int rank) const { return peers_[rank].connection ? peers_[rank].connection->trouble() : ""; }

  /// Starts opening what is not open yet, as far as it is for this rank to start.
  void want(std::span<const int> peers);
  /// The same, and blocks until all are open, the communicator fails, or `deadline`.  `together`: the siblings whose
  /// calls this thread is making, too.  Throws Error.
  void connect(std::span<const int> peers, std::span<const int> together, control::Deadline deadline);

  SendEnd& send_end(int peer, int lane) override { return peers_[peer].connection->send_end(lane); }
  ReceiveEnd& receive_end(int peer, int lane) override { return peers_[peer].connection->receive_end(lane); }
  EndOrder& send_order(int peer, int lane) override { return order(peer, lane, 0); }
  EndOrder& receive_order(int peer, int lane) override { return order(peer, lane, 1); }

  /// The code of the first failure, 0 while there is none.  Sticky.
  const std::atomic<int>& failed() const noexcept { return failed_; }
  std::string failure_sentence() const;
  /// Records a failure unless there is one; wakes everyone; tells the other ranks if `tell`.
  void fail(Code code, const std::string& sentence, bool tell) noexcept;
  /// Says goodbye and closes the control plane; links stay mapped until the end of this object.
  void close(control::Deadline deadline) noexcept;

 private:
  struct Peer {
    Wire* wire = nullptr;            // the control thread's
    Transport* transport = nullptr;  // the control thread's
    std::unique_ptr<Connection> connection;
    bool left = false;
  };
  EndOrder& order(int peer, int lane, int end) noexcept {
    return orders_[static_cast<std::size_t>((lane * ranks() + peer) * 2 + end)];
  }
  void opened(int peer, Wire& wire);
  void agree(int peer, const Frame& offer);
  void received(int peer, Frame& frame);
  void left(int peer);
  /// The sibling that is to start opening its pair with this rank and has no thread to do so, or -1.
  int unopened_sibling(std::span<const int> peers, std::span<const int> together) const;
  /// Runs `action` on the control thread's behalf: what it throws fails the communicator.
  void guard(int peer, const std::function<void()>& action) noexcept;

  const control::Membership membership_;
  std::vector<std::unique_ptr<Transport>> transports_;
  const LinkPolicy policy_;
  std::vector<int> siblings_;
  mutable std::mutex mutex_;  // guards peers_' pointers and flags while they are set, and sentence_
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  std::vector<EndOrder> orders_;  // by lane, peer and end
  std::atomic<int> failed_{0};
  std::string sentence_;
  std::unique_ptr<control::Mesh> mesh_;  // last: its hooks use all of the above
};

}  // namespace rondo
