// Calls of every kind mixed at random: collectives and messages, alone and in groups, on two communicators, blocking
// and on two queues, with ranks that come late.  All ranks make the same calls in the same order, as a seed that they
// share says; what memory each has and when it comes is its own.
//
// MIXTURE_SEEDS: how many seeds (3), from MIXTURE_SEED (1) on.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "cases.h"
#include "ranks.h"

namespace rondo::test {
namespace {

constexpr int steps = 25;
constexpr int queue_count = 3;  // the first is none: the call blocks

/// Bytes of messages at which the library does something else.
constexpr std::size_t borders[] = {36, 4096, 8192, 96 << 10, 112 << 10, 256 << 10, 512 << 10, 1 << 20};

/// A message from each rank, or from one alone, to the one `distance` behind it.
struct Message {
  std::size_t bytes = 0;
  int distance = 0;
  int only_from = -1;
  unsigned tag = 0;
};

class MessageOnRank {
 public:
  MessageOnRank(const Message& m, int rank, int ranks, bool in_mapped, bool out_mapped)
      : m_(m),
        to_((rank + m.distance) % ranks),
        from_((rank + ranks - m.distance) % ranks),
        sends_(m.only_from < 0 || m.only_from == rank),
        receives_(m.only_from < 0 || m.only_from == from_),
        in_(m.bytes, in_mapped),
        out_(m.bytes, out_mapped) {
    fill(in_.data(), rank);
    out_.scribble();
  }
  ncclResult_t run(ncclComm_t comm, cudaStream_t queue) {
    if (sends_) {
      const ncclResult_t sent = ncclSend(in_.data(), m_.bytes, ncclInt8, to_, comm, queue);
      if (sent != ncclSuccess) return sent;
    }
    return receives_ ? ncclRecv(out_.data(), m_.bytes, ncclInt8, from_, comm, queue) : ncclSuccess;
  }
  void check() const {
    std::vector<std::byte> wanted(m_.bytes);
    if (receives_) fill(wanted.data(), from_);
    if (receives_ && std::memcmp(wanted.data(), out_.data(), m_.bytes) != 0) throw std::runtime_error("wrong bytes");
    if (!in_.untouched_outside() || !out_.untouched_outside()) throw std::runtime_error("bytes outside");
  }

 private:
  void fill(std::byte* data, int rank) const {
    const unsigned first = m_.tag + 13 * static_cast<unsigned>(rank);
    for (std::size_t i = 0; i < m_.bytes; ++i) {
      data[i] = static_cast<std::byte>((first + static_cast<unsigned>(i)) * 2654435761u >> 24);
    }
  }
  Message m_;
  int to_;
  int from_;
  bool sends_;
  bool receives_;
  Buffer in_;
  Buffer out_;
};

class Player {
 public:
  Player(unsigned seed, int rank, int ranks, ncclComm_t one, ncclComm_t other)
      : shared_(seed), own_(seed * 77 + static_cast<unsigned>(rank)), rank_(rank), ranks_(ranks), comms_{one, other} {
    for (int i = 1; i < queue_count; ++i) expect_success(rondoStreamCreate(&queues_[i]), "rondoStreamCreate");
  }
  ~Player() {
    for (int i = 1; i < queue_count; ++i) rondoStreamDestroy(queues_[i]);
  }
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  void step() {
    story_.clear();
    for (int batches = 1 + below(4); batches > 0; --batches) batch();
    for (int i = 1; i < queue_count; ++i) must(rondoStreamSynchronize(queues_[i]));
    try {
      for (const auto& each : cases_) each->check();
      for (const auto& each : messages_) each->check();
    } catch (const std::exception& error) {
      throw std::runtime_error(error.what() + story_);
    }
    cases_.clear();
    messages_.clear();
  }

 private:
  int below(int bound) { return static_cast<int>(shared_() % static_cast<unsigned>(bound)); }
  bool now_and_then(int every) { return own_() % static_cast<unsigned>(every) == 0; }
  void must(ncclResult_t result) const {
    if (result != ncclSuccess) throw std::runtime_error(ncclGetLastError(nullptr) + story_);
  }

  /// Some calls, alone or in a group.
  void batch() {
    const bool grouped = below(2) == 0, small = below(2) == 0, alike = below(3) == 0, spread = below(4) == 0;
    const int usual = below(queue_count);
    std::vector<std::function<ncclResult_t()>> calls;
    Case last;
    for (int i = 0, count = 1 + below(grouped ? 8 : 3); i < count; ++i) {
      const int queue = spread ? below(queue_count) : usual, which = below(2);
      std::string words;
      if (grouped && below(4) == 0) {
        // Spread over queues, what one rank alone sends would part all-reduces that others have as one.
        calls.push_back(message(comms_[which], queues_[queue], !spread && below(2) == 0, words));
      } else {
        if (i == 0 || !alike) last = draw_call(small);
        if (now_and_then(4)) last.memory = static_cast<unsigned>(own_());
        words = last.text();
        cases_.push_back(std::make_unique<CaseOnRank>(last, rank_, ranks_, comms_[which]));
        cases_.back()->prepare();
        calls.push_back([call = cases_.back().get(), to = queues_[queue]] { return call->run(to); });
      }
      story_ += "\n  " + words + ", communicator " + std::to_string(which) + " queue " + std::to_string(queue);
    }
    if (now_and_then(5)) ::usleep(own_() % 3000);
    if (grouped) must(ncclGroupStart());
    for (const auto& call : calls) must(call());
    if (grouped) must(ncclGroupEnd());
    story_ += grouped ? "\n  (a group)" : "\n  (alone)";
    if (now_and_then(4)) must(rondoStreamSynchronize(queues_[1 + own_() % 2]));
  }

  Case draw_call(bool small) {
    Case c = draw(shared_, ranks_, false);
    if (small) {
      c.count = static_cast<std::size_t>(below(300));
      if (below(2) == 0) c.collective = Collective::all_reduce;
      if (c.collective == Collective::all_reduce && c.kind == Kind::move) c.kind = Kind::sum;
    } else if (below(4) == 0) {
      c.count = static_cast<std::size_t>(below(below(4) == 0 ? 600'000 : 60'000) / ranks_);
    }
    return c;
  }

  std::function<ncclResult_t()> message(ncclComm_t comm, cudaStream_t queue, bool one_way, std::string& words) {
    const std::size_t near = borders[below(std::size(borders))] - 1 + static_cast<std::size_t>(below(3));
    const std::size_t any = static_cast<std::size_t>(below(below(8) == 0 ? 2'000'000 : 20'000));
    const Message m{below(3) == 0 ? near : any, below(ranks_), one_way ? below(ranks_) : -1, shared_()};
    words = "message of " + std::to_string(m.bytes) + " bytes to the rank " + std::to_string(m.distance) +
            " behind, from " + (one_way ? std::to_string(m.only_from) + " alone" : "all");
    messages_.push_back(std::make_unique<MessageOnRank>(m, rank_, ranks_, now_and_then(2), now_and_then(2)));
    return [call = messages_.back().get(), comm, queue] { return call->run(comm, queue); };
  }

  std::mt19937 shared_;
  std::mt19937 own_;
  const int rank_;
  const int ranks_;
  const ncclComm_t comms_[2];
  cudaStream_t queues_[queue_count] = {};
  std::vector<std::unique_ptr<CaseOnRank>> cases_;
  std::vector<std::unique_ptr<MessageOnRank>> messages_;
  std::string story_;
};

void play(Ranks how, int ranks, int seed) {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(how, ranks, [&](int rank) {
    const ncclComm_t one = meeting->join(0, rank, ranks), other = meeting->join(1, rank, ranks);
    {
      Player player(static_cast<unsigned>(seed), rank, ranks, one, other);
      for (int step = 0; step < steps; ++step) player.step();
    }
    for (const ncclComm_t comm : {one, other}) expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
  });
  INFO("MIXTURE_SEED=" << seed << ", " << ranks << " ranks");
  REQUIRE(trouble == "");
}

TEST_CASE("calls of every kind, mixed, are exact, and nobody waits for ever") {
  const int first = environment_number("MIXTURE_SEED", 1), count = environment_number("MIXTURE_SEEDS", 3);
  for (int seed = first; seed < first + count; ++seed) {
    for (const int ranks : {2, 3}) play(Ranks::processes, ranks, seed);
    play(Ranks::threads, 2, seed);
  }
}

}  // namespace
}  // namespace rondo::test
