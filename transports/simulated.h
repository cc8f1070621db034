// Simulated links: all ranks of a world in one thread, in ordinary memory, in virtual time, under one seed.
//
// Each message and each returned credit takes a random time, links overtake each other (never a message its
// predecessor), lends are granted or declined, ranks die.  The same seed and the same calls give the same run.  The
// world watches the rules of transport.h: what breaks one is a complaint, and memory that may not be read any more is
// overwritten.  Faults damage one message on purpose, to prove that a test can fail.  One thread; calls may allocate.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "base/limits.h"
#include "transport.h"

namespace rondo::simulated {

/// Random numbers that are the same everywhere (SplitMix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(seed) {}
  std::uint64_t next() noexcept {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t bound) noexcept { return next() % bound; }
  bool percent(unsigned chance) noexcept { return below(100) < chance; }

 private:
  std::uint64_t state_;
};

enum class Lending { none, all, mixed };

/// What may be done to the world's nth message.
enum class Fault {
  none,
  flip_bit,      // of its bytes
  swap,          // its bytes with those of the message before it on the link
  lose,          // it never arrives
  stale_credit,  // a slot is given back one message too early
  drop_reply,    // its reply range is not the lender's (counts only lends that offer one)
};

struct Options {
  std::uint64_t seed = 1;
  int credits = limits::credits;
  std::size_t slot_bytes = limits::slot_bytes;
  std::uint32_t delay_max = 100;       // ticks a message or credit takes
  unsigned stall_percent = 2;          // of messages and credits take
  std::uint32_t stall_ticks = 10'000;  // this long
  Lending lending = Lending::mixed;
  int landings = 0;  // messages brought at once, at the most, to where the receiver names; 0: none is
  Fault fault = Fault::none;
  std::uint64_t fault_at = 0;  // number of the message that the fault hits
};

class World {
 public:
  World(int ranks, const Options& options);
  ~World();

  /// The link from `from` to `to`, which may be the same rank; made when first asked for.
  SendEnd& send_end(int from, int to, int lane = 0);
  ReceiveEnd& receive_end(int to, int from, int lane = 0);

  int ranks() const noexcept { return ranks_; }
  std::uint64_t now() const noexcept { return now_; }
  /// Moves the clock to the next event (an arrival, a credit, news of a death); false: nothing is on its way.
  bool advance();
  /// The rank stops: what it sent arrives up to some message, and after a while its peers' ends say remote_error.
  /// The caller no longer uses its ends.
  void kill(int rank);
  bool dead(int rank) const noexcept { return killed_[rank]; }

  /// Rules that somebody broke, in order; at most 100.
  const std::vector<std::string>& complaints() const noexcept { return complaints_; }
  /// What is still in links or lent, one line a link; empty at the end of every complete run.
  std::string leftovers() const;
  /// Lends by this rank that their borrower has not released.
  int lent_out(int rank) const noexcept { return lent_out_[rank]; }
  /// Messages sent so far, of all links; of them, lends granted.
  std::uint64_t messages() const noexcept { return messages_; }
  std::uint64_t lends() const noexcept { return lends_; }
  /// Runs of which more was brought than the first message.
  std::uint64_t runs() const noexcept { return runs_; }

 private:
  class Link;
  Link& link(int from, int to, int lane);
  void complain(const std::string& what) noexcept;
  Status status_seen(int observer, int peer) const noexcept;
  /// When something sent now arrives: after a random time, on one link never before what was sent earlier.
  std::uint64_t arrival(std::uint64_t not_before) noexcept;
  /// Whether the fault hits now; counts messages of the fault's kind.
  bool strikes(Fault fault) noexcept;

  const int ranks_;
  const Options options_;
  Random random_;
  std::uint64_t now_ = 0;
  std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> events_;
  std::map<std::tuple<int, int, int>, std::unique_ptr<Link>> links_;
  std::vector<bool> killed_;
  std::vector<std::uint64_t> death_known_at_;  // by observer * ranks + victim
  std::vector<int> lent_out_;
  std::vector<std::string> complaints_;
  std::uint64_t messages_ = 0;
  std::uint64_t lends_ = 0;
  std::uint64_t runs_ = 0;
  std::uint64_t fault_count_ = 0;
};

}  // namespace rondo::simulated
