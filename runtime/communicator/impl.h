// The communicator behind ../communicator.h: what its two files share.  communicator.cpp: calls become plans bound to
// links, failures become sentences.  batch.cpp: calls that run together.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "communicator.h"
#include "communicator/bundle.h"
#include "communicator/choice.h"
#include "communicator/lane_helpers.h"
#include "communicator/make.h"
#include "communicator/peers.h"
#include "communicator/prepared.h"
#include "control/fork_guard.h"
#include "executor.h"
#include "memory.h"
#include "plan/plan.h"

namespace rondo {

/// How a run stands to others of its batch: see RunArguments.
struct Place {
  bool alone = true;
  bool owns_ends = false;
  bool among_others = false;
  bool continues = false;
  bool followed = false;
  bool shared = false;  // with helpers
};

class CommunicatorImpl final : public Communicator, private Overseer {
 public:
  CommunicatorImpl(const control::Membership& membership, Parts parts, const Options& options,
                   control::Deadline deadline);
  ~CommunicatorImpl() override;

  int rank() const noexcept override { return peers_.rank(); }
  int ranks() const noexcept override { return peers_.ranks(); }
  int hosts() const noexcept override { return hosts_; }
  Status status() const noexcept override {
    // A forked child has the links' memory too: a call of its would pass for its parent's.
    if (control::ForkGuard::forked()) [[unlikely]]
      return {Code::invalid_usage, -1};
    return {static_cast<Code>(peers_.failed().load()), -1};
  }
  std::string failure_sentence() const override;
  void abort() noexcept override;
  Status finalize() noexcept override;

  WaitStyle wait_style() const noexcept { return style_; }
  std::chrono::nanoseconds patience() const noexcept { return patience_; }
  Supervision supervision() noexcept { return {&peers_.failed(), nullptr, this}; }
  const std::vector<int>& siblings() const noexcept { return peers_.siblings(); }
  bool same_world(const CommunicatorImpl& other) const noexcept {
    return peers_.membership().communicator == other.peers_.membership().communicator;
  }
  Doorbell& doorbell() const noexcept { return doorbell_; }

  // ---- for whoever has the turn, or has entered

  /// The run of a collective alone, or of a batch's `index`-th; of all messages to or from one rank.  May throw
  /// std::bad_alloc.
  PreparedRun& collective_run(const Call& call, std::size_t index, bool alone) {
    if (alone) return recent_.take(call);
    while (runs_.size() <= index) runs_.push_back(std::make_unique<PreparedRun>());
    return *runs_[index];
  }
  PreparedRun& message_run(const Call& call) {
    std::unique_ptr<PreparedRun>& run = messages_of(call).run;
    if (run == nullptr) run = std::make_unique<PreparedRun>();
    return *run;
  }
  /// A run that serves a call alone, or null.
  PreparedRun* find_run(const Call& call) noexcept {
    if (call.kind != CollectiveKind::send_recv) [[likely]]
      return recent_.find(call);
    PreparedRun* const run = messages_of(call).run.get();
    return run != nullptr && run->serves(call) ? run : nullptr;
  }
  /// A number of the caller's for all messages to or from one rank.
  std::size_t& mark_of(const Call& call) noexcept { return messages_of(call).mark; }

  /// Bytes that all-reduces of a group may have together to travel as one; 0: none do.  Within them every size has the
  /// schedule that gives the same bits whatever else is reduced with it.
  std::size_t bundle_bytes_max() noexcept;

  /// Starts opening the links that `call` needs.
  void want_links(const Call& call);
  /// Makes a run serve `call`.  `together`: the siblings whose calls this thread makes, too.  Throws Error: no link, no
  /// memory.
  void lay_out(PreparedRun& prepared, const Call& call, std::span<const int> together);
  /// Starts a run that serves `call`.
  void begin(PreparedRun& prepared, const Call& call, Place place) noexcept {
    RunArguments& a = prepared.run.arguments();
    a.in = static_cast<const std::byte*>(call.in);
    a.out = static_cast<std::byte*>(call.out);
    a.reduction.scalar = call.scalar;
    a.signature.call = number(call);
    a.alone = place.alone;
    a.owns_ends = place.owns_ends;
    a.among_others = place.among_others;
    a.continues = place.continues;
    a.followed = place.followed;
    a.share = place.shared ? 0 : RunArguments::whole;
    prepared.run.start();
    if (place.shared) [[unlikely]]
      begin_others(prepared);
  }

  /// Whether helpers are to walk lanes of a call; of a batch that has such a call, lanes of all its collectives.
  bool shares(const Call& call) const noexcept {
    return threads_ > 1 && call.kind != CollectiveKind::send_recv && bytes_of(call) >= lanes_.bytes_min;
  }
  /// None before the first such call is laid out.
  LaneHelpers* lane_helpers() const noexcept { return lane_helpers_.get(); }
  /// Counts what the calling thread did of such a batch.
  void count_steps(std::uint64_t steps) noexcept { steps_walked_ += steps; }

  void fail(const Error& error) noexcept { peers_.fail(error.code(), error.what(), true); }

 private:
  /// Turns the failure of a run into the communicator's, with a sentence.
  void run_failed(const Run& run, const Status& status) noexcept override;
  /// All messages to one rank, or from it.
  struct Messages {
    std::uint32_t begun = 0;
    std::size_t mark = 0;
    std::unique_ptr<PreparedRun> run;  // none before the first
  };
  Messages& messages_of(const Call& call) noexcept {
    return call.receives ? messages_[call.root][1] : messages_[call.peer][0];
  }

  /// The call's number, the same on all ranks that take part: among collectives, or among the messages of two ranks.
  std::uint32_t number(const Call& call) noexcept {
    if (call.kind != CollectiveKind::send_recv) [[likely]]
      return std::exchange(collectives_, collectives_ + std::max(bundle::calls(call.bundle), 1u));
    return messages_of(call).begun++;
  }

  /// Starts the shares of a call that are not the calling thread's.
  void begin_others(PreparedRun& prepared) noexcept;

  /// Once per communicator: what was agreed and what it will use.
  void announce() const;

  /// Kind; algorithm, or a message's side; root, or a message's other rank; stripes.
  using ProgramKey = std::tuple<CollectiveKind, int, int, int>;
  enum Side : int { receives, sends, lends };  // of a message

  /// Which program a call needs.
  struct Blueprint {
    ProgramKey key;
    const plan::Schedule* schedule = nullptr;  // null: one side of a send and a receive
    std::string_view reason;
    plan::Cut cut;
    const plan::Schedule* lending = nullptr;  // the one to run where all ranks can lend, if another; of the same links
    int stripes = 1;
    bool shelf = false;  // see Choice
  };

  /// Of the larger of a rank's buffers.
  std::uint64_t bytes_of(const Call& call) const noexcept;
  Blueprint choose(const Call& call) const;
  plan::Plan draw(const Blueprint& blueprint, const Call& call) const;
  const Program& bind(const Blueprint& blueprint, const Call& call, std::span<const int> together);
  Alternative alternative(Blueprint blueprint, const Call& call, std::span<const int> together);
  /// Made at first use; null where there is no memory or descriptor for it: broadcasts do without.
  Shelf* shelf();

  /// A forked child leaves it: it is its parent's.
  struct FreeMemory {
    void operator()(std::byte* memory) const noexcept {
      if (!control::ForkGuard::forked()) memory_free(memory);
    }
  };

  const Reducer& reducer_;
  const plan::Topology topology_;
  const int hosts_;
  const Host host_;  // this rank's
  const Chooser chooser_;
  const std::string transports_;  // in words
  const LanePolicy lanes_;
  std::unique_ptr<std::byte, FreeMemory> shelf_memory_;  // peers map it
  Peers peers_;
  const std::size_t group_bytes_;  // RONDO_GROUP_BYTES
  const std::chrono::nanoseconds patience_;
  const int threads_;  // that walk lanes
  const WaitStyle style_;
  const std::string name_;
  Doorbell& doorbell_;

  // Used by whoever has the turn.
  std::vector<std::unique_ptr<PreparedRun>> runs_;  // of collectives in a group
  RecentRuns recent_;                               // of collectives alone
  std::map<ProgramKey, std::unique_ptr<Program>> programs_;
  std::unique_ptr<LaneHelpers> lane_helpers_;
  std::unique_ptr<Shelf> shelf_;
  std::uint64_t steps_walked_ = 0;
  std::optional<std::size_t> bundle_bytes_max_;
  std::uint32_t collectives_ = 0;                                                                  // begun
  std::vector<std::array<Messages, 2>> messages_ = std::vector<std::array<Messages, 2>>(ranks());  // to, from

  std::mutex finalize_mutex_;
  bool finalized_ = false;
};

}  // namespace rondo
