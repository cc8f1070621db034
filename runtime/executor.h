// The executor: the only code that moves data.  It walks the strands of plans over links.
//
// Program binds a plan to the ends of links once; Run is one call of it.  progress() never blocks; execute() is the
// only place that waits, times out or stops.  A strand is at (tile, step, slice); a slice runs when every message and
// every credit it needs is there, and then runs whole.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "executor/shelf.h"
#include "plan/layout.h"
#include "plan/plan.h"
#include "reducer.h"
#include "transport.h"
#include "wait.h"

namespace rondo {

/// Whose turn it is at one end of a link: runs of one communicator acquire each end in call order.
struct EndOrder {
  std::uint64_t taken = 0;   // runs that asked for the end
  std::uint64_t served = 0;  // runs that are done with it
};

/// Where a program finds its links.
class Links {
 public:
  virtual ~Links() = default;
  virtual SendEnd& send_end(int peer, int lane) = 0;
  virtual ReceiveEnd& receive_end(int peer, int lane) = 0;
  virtual EndOrder& send_order(int peer, int lane) = 0;
  virtual EndOrder& receive_order(int peer, int lane) = 0;
};

/// An operand of a step: a peer's message, or (link null) the step's own source range.
struct Operand {
  ReceiveEnd* link = nullptr;
  SendEnd* reverse = nullptr;  // for the reply, where the step replies
  int peer = plan::here;
};

/// Where a step sends to, or what it waits for.
struct Destination {
  SendEnd* link = nullptr;
  ReceiveEnd* reverse = nullptr;  // for the replies to declined lends
  int peer = -1;
  int index = -1;  // among the strand's destinations
};

struct BoundStep {
  plan::Operation operation{};
  bool finish = false;
  bool reply = false;
  bool reads_raw = false;     // the source range is `in` of a collective that reduces
  bool copies = false;        // what it sends may leave from where its one operand is
  bool copies_reply = false;  // its answers may leave from where the result is stored
  bool same_piece = false;    // the target's blocks are the source's, of `in` and `out`: one piece serves both
  std::size_t lands_from = ReceiveEnd::never_lands;  // bytes from which on its one message may arrive in the target
  bool only_receipt = false;                         // and its link brings this strand nothing else
  bool only_lend = false;  // of `in` as it is, to links to which this strand sends nothing else
  plan::Range source;
  plan::Range target;
  std::vector<Operand> operands;  // in the order of reduction
  std::vector<Destination> to;
  std::vector<std::uint32_t> ends;       // of the strand's: those that it uses
  std::vector<std::uint32_t> last_ends;  // and of these, those that nothing behind it in the strand uses
};

struct BoundStrand {
  std::uint64_t first_tile = 0;
  std::vector<BoundStep> steps;
  std::vector<Destination> destinations;  // distinct
  std::vector<EndOrder*> ends;            // distinct
  std::vector<SendEnd*> senders;          // distinct: flushed before the strand ends
  std::vector<ReceiveEnd*> receivers;     // distinct
  std::vector<SendEnd*> polled_senders;   // of them, those that move only when asked
  std::vector<ReceiveEnd*> polled_receivers;
  std::vector<SendEnd*> followers;  // of copies alone: those to whom the program lends what they read
  bool local = false;               // copies alone
  bool lends = false;
  bool lands = false;   // some message may arrive in its step's target
  int replies_max = 0;  // declined lends awaiting a reply, at the most, in slices per m
};

/// A plan bound to links.  Immutable; shared by the runs of a communicator.  `shares`: of the strands, by their lanes,
/// for as many threads: so that each link end, and each strand that another one follows, is one thread's.
class Program {
 public:
  Program(const plan::Collective& collective, const plan::Plan& plan, int widest, Links& links, int shares = 1);
  const plan::Shape& shape() const noexcept { return shape_; }
  const std::vector<BoundStrand>& strands() const noexcept { return strands_; }
  std::span<const BoundStrand> strands_of(int share) const noexcept {
    const Share& s = shares_[static_cast<std::size_t>(share)];
    return std::span(strands_).subspan(s.first, s.count);
  }
  bool local() const noexcept { return local_; }                             // some strand needs no link
  bool polled() const noexcept { return polled_; }                           // some link moves only when asked
  std::size_t ahead_bytes_max() const noexcept { return ahead_bytes_max_; }  // of its links
  int operands_max() const noexcept { return operands_max_; }
  int targets_max() const noexcept { return targets_max_; }

 private:
  struct Share {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  plan::Shape shape_;
  std::vector<BoundStrand> strands_;  // by share
  std::vector<Share> shares_;
  bool local_ = false;
  bool polled_ = false;
  std::size_t ahead_bytes_max_ = SendEnd::any_bytes;
  int operands_max_ = 1;
  int targets_max_ = 1;
};

/// A program that does the same as another, by lending; of the same links, one strand, and so cut that it makes one
/// slice of one tile.
struct Alternative {
  const Program* program = nullptr;
  plan::Layout layout;
};

/// What one call gives a run.
struct RunArguments {
  const Program* program = nullptr;
  plan::Layout layout;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::byte* scratch = nullptr;  // layout.scratch_bytes()
  Reduction reduction;
  ReduceFunction reduce = nullptr;
  Signature signature;
  bool may_lend = true;       // false where the pre-operator differs by rank
  bool by_address = true;     // memory that its receiver has not mapped is lent, too
  bool alone = true;          // no other run of this communicator is under way in this thread
  bool owns_ends = false;     // or none that uses the same ends
  bool among_others = false;  // others of other communicators begin by sending, too
  bool continues = false;     // after a call of one message to or from the same peer, which had `followed` set
  bool followed = false;      // a call that continues comes next, and waits for what is lent here
  static constexpr int whole = -1;
  int share = whole;  // of the program's shares, where other runs of the same call walk the others
  /// Where a copy of what is lent to several goes, if not all of them have mapped it; null: nowhere.  Used where alone.
  Shelf* shelf = nullptr;
  /// Run in place of `program` where every rank can lend its buffers.  Each rank begins with the one or the other, as
  /// its own buffers are, and sees from the first message of every other rank, which differ in size, whether all began
  /// like it.  If not, all run `program`, and what was offered is given back unread.  Both must begin by a message from
  /// each rank to every other, and store nothing before they have all; each end of a link has a credit more than they
  /// need.
  Alternative lending;
};

/// Why a run cannot go on.
struct Mismatch {
  int peer = -1;
  Signature theirs;
  std::uint32_t bytes_expected = 0;
  std::uint32_t bytes_found = 0;
};

/// One call under way, or one thread's share of it.  Reusable; allocates in start() only when a program is larger than
/// those before.
class Run {
 public:
  Run() = default;
  Run(const Run&) = delete;
  void start(const RunArguments& arguments) {
    a_ = arguments;
    prepare();
    start();
  }
  /// After a change of arguments() to a call unlike the one before: other program, layout, type or operator.
  void prepare();
  /// The call of arguments(), like the one before.
  void start();
  RunArguments& arguments() noexcept { return a_; }
  /// Moves every strand as far as it can.  True if anything moved.
  bool progress() noexcept;
  /// The first step alone.  For calls that a thread makes together: what all send leaves before it looks at what has
  /// come, which takes as long as a line comes from another core.
  void lead() noexcept;
  /// For a thread that has nothing else to do: does a part of what brings releases that the run waits for.
  bool help() noexcept;
  bool done() const noexcept { return strands_left_ == 0; }
  /// Whether an end of a link has been its since start().  Until then only runs of its communicator before it move it.
  bool begun() const noexcept { return begun_; }
  /// Since start(); those of a tile count at its end.
  std::uint64_t steps_walked() const noexcept { return steps_walked_; }
  bool polled() const noexcept { return program_->polled(); }
  /// Whether the call is run as a row of moves: what it waits for takes no longer than a message.
  bool is_short() const noexcept { return short_; }
  /// Whether a call like the last one gains where it sends before the one before it has its messages.
  bool gains_ahead() const noexcept {
    return program_ == a_.program && a_.layout.total_bytes() <= a_.program->ahead_bytes_max();
  }
  const Status& status() const noexcept { return status_; }  // not ok: the run is over and its links are unusable
  const Mismatch& mismatch() const noexcept { return mismatch_; }
  const Signature& signature() const noexcept { return a_.signature; }
  /// The peers whose message, credit or release the run waits for.
  std::vector<int> waits_for() const;
  /// Adds the sockets that can move the run, and says where it waits for what rings the doorbell.
  void add_wakeups(Wakeups& wakeups) const noexcept;
  /// The run is over before it is done: its links touch none of its memory any more.
  void stop() noexcept;
  /// Not ok where a link that the run waits on can bring nothing more.
  Status blocked_status() const noexcept;

 private:
  struct Reply {       // a declined lend: the peer's answer comes as a message
    ReceiveEnd* link;  // null once it is stored
    int peer;
    std::byte* target;
    plan::Piece piece;
  };
  struct StrandState {
    const BoundStrand* strand = nullptr;
    std::uint64_t tile = 0;
    std::uint32_t step = 0;
    int slice = 0;
    bool holds_ends = false;  // all have come
    bool begun = false;       // some have
    bool done = false;
    std::vector<std::uint64_t> tickets;     // one per strand->ends
    std::vector<std::uint64_t> lent_until;  // per destination: `sent` after the last accepted lend, or 0
    std::vector<Reply> replies;             // in order
    ReceiveEnd* blocked_on_message = nullptr;
    SendEnd* blocked_on_credit = nullptr;
    int blocked_peer = -1;
  };
  /// A step of a short call (executor/short.cpp), with its bytes worked out beforehand.
  struct Move {
    ReceiveEnd* from = nullptr;  // null: `in`
    SendEnd* to = nullptr;       // null: `out`
    int peer = -1;
    std::size_t bytes = 0;
    std::size_t source = 0;  // in `in`
    std::size_t target = 0;  // in `out`
  };
  bool add_moves(const BoundStrand& strand);
  bool walk_moves() noexcept;
  bool make(const Move& move) noexcept;
  const Move* blocked_move() const noexcept { return short_ && !done() ? &moves_[moved_] : nullptr; }

  void use(const Program* program, const plan::Layout& layout) noexcept {
    program_ = program;
    layout_ = &layout;
    mine_ = a_.share == RunArguments::whole ? std::span(program->strands()) : program->strands_of(a_.share);
  }
  void make_room(const Program& program);
  bool can_lend() const noexcept;
  bool begins_other(const Message& message) const noexcept;
  bool copy_after_all(StrandState& s) noexcept;
  bool advance(StrandState& s) noexcept;
  bool walk_locals(bool moved) noexcept;
  bool walk_local(StrandState& s) noexcept;
  bool copies_last(const StrandState& s) const noexcept;
  bool sends_raw(const BoundStep& step) const noexcept;
  bool lend(StrandState& s, const BoundStep& step, const plan::Piece& source, const plan::Piece& target) noexcept;
  bool offers(SendEnd& link, const std::byte* source, const std::byte* reply, std::size_t bytes) const noexcept;
  bool shelves(const BoundStep& step, const std::byte* source, std::size_t bytes) const noexcept;
  bool settle(StrandState& s, std::span<const Destination> to) noexcept;
  bool acquire(StrandState& s, const BoundStep* step) noexcept;
  void pass_ends_on(StrandState& s) noexcept;
  bool next(StrandState& s) noexcept;
  bool leave(StrandState& s) noexcept;
  bool flush(StrandState& s) noexcept;
  void poll(const StrandState& s) const noexcept;
  bool blocked(StrandState& s, ReceiveEnd* message, SendEnd* credit, int peer) noexcept;
  bool matches(const Message& message, std::size_t bytes, int peer) noexcept;
  bool gather_sources(StrandState& s, const BoundStep& step, const plan::Piece& shape, std::size_t bytes) noexcept;
  void name_landings(const StrandState& s, const BoundStep& step, const plan::Piece& shape) noexcept;
  bool lands_ahead(const StrandState& s, const BoundStep& step) const noexcept;
  void add_target(int index, std::byte* data, std::size_t stride) noexcept;
  void reduce(const BoundStep& step, int target_count, const plan::Piece& shape) noexcept;
  std::byte* base(plan::Space space) const noexcept;

  RunArguments a_;
  const Program* program_ = nullptr;  // the one of a_ that is run
  const plan::Layout* layout_ = nullptr;
  std::span<const BoundStrand> mine_;  // of its strands
  bool began_again_ = false;           // with the program that copies: something moved
  bool begun_ = false;
  bool by_step_ = true;    // ends are acquired for the first step that uses them and passed on behind the last
  int element_shift_ = 0;  // elements are 1 << this bytes: a division a slice would cost as much as the links
  std::vector<StrandState> strands_;
  std::size_t strands_left_ = 0;
  std::vector<Move> moves_;  // of a call that may be run as a short one
  std::size_t moved_ = 0;    // of these, made
  bool short_ = false;       // the call is run as a short one
  bool lent_ = false;        // something, since the first of the calls that continue one another
  std::uint64_t steps_walked_ = 0;
  unsigned looks_ = 0;        // in vain, since something moved
  bool copies_last_ = false;  // in this call; changes from call to call, see executor/local.cpp
  std::vector<Source> sources_;
  std::vector<std::byte*> targets_;
  std::vector<std::size_t> source_strides_;  // bytes from one segment to the next
  std::vector<std::size_t> target_strides_;
  Status status_;
  Mismatch mismatch_;
};

[[gnu::always_inline]] inline bool Run::matches(const Message& message, std::size_t bytes, int peer) noexcept {
  if (message.signature == a_.signature && message.bytes == bytes) [[likely]]
    return true;
  mismatch_ = {peer, message.signature, static_cast<std::uint32_t>(bytes), message.bytes};
  status_ = {Code::invalid_usage, peer};
  return false;
}

/// Knows what a run cannot: whether anything that it waits for can still come.
class Watch {
 public:
  virtual ~Watch() = default;
  /// Asked by the thread that runs it, before it sleeps.  Not ok: end the run with this.
  virtual Status hopeless(const Run& run) const noexcept = 0;
};

/// Hears of a run that failed, at once: others, here and on other ranks, may wait for what it will not do any more.
class Overseer {
 public:
  virtual void run_failed(const Run& run, const Status& status) noexcept = 0;

 protected:
  ~Overseer() = default;
};

/// What execute() needs to know of one run's communicator.
struct Supervision {
  const std::atomic<int>* failed = nullptr;  // Code of the communicator's first failure, 0 while there is none
  const Watch* watch = nullptr;
  Overseer* overseer = nullptr;
};

/// Calls that follow each other in one run.
class Feed {
 public:
  virtual ~Feed() = default;
  /// The run is done: starts it again with the next call.  False: there is none, or, if `status` says so, it failed.
  virtual bool next(Status& status) noexcept = 0;
};

struct Execution {
  Run* run = nullptr;
  Supervision supervision;
  Feed* feed = nullptr;
  std::size_t behind = 0;  // so many of those that follow it need no look before its run has begun
  Status status;           // set by execute()
};

/// Runs all to the end; each execution gets its own status.  Returns when every run is done or failed; null runs are
/// passed over.
void execute(std::span<Execution> executions, Waiter& waiter) noexcept;

}  // namespace rondo
