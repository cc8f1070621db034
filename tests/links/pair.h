// A pair of connected ranks in one process, for the conformance suite: what every kind of link must offer to be tested.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport.h"

namespace links {

/// Two ranks, 0 and 1, with a link each way.
class Pair {
 public:
  virtual ~Pair() = default;
  virtual rondo::SendEnd& send_end(int rank) = 0;
  virtual rondo::ReceiveEnd& receive_end(int rank) = 0;
  /// Lets time pass: frames are delivered, clocks move.
  virtual void pass() = 0;
  /// Memory of `rank` that it can lend, once time has passed; freed with the pair or by give_back.
  virtual std::byte* lendable(int rank, std::size_t bytes) = 0;
  virtual void give_back(std::byte* memory) = 0;
  /// Rank dies: the other's ends say so once time has passed.  From any thread, unless the links have one.
  virtual void kill(int rank) = 0;
  /// Rank sends no more, and the other has the news.
  virtual void leave(int rank) { kill(rank); }
};

struct Kind {
  std::string name;
  std::function<std::unique_ptr<Pair>()> make;
  bool shares = true;  // memory: it lends, and a credit comes back when its message is released, not when it is copied
};

std::unique_ptr<Pair> simulated_pair();
std::unique_ptr<Pair> slots_pair(std::uint64_t first, bool takes_lines = false);  // after that many messages
std::unique_ptr<Pair> shm_pair();
std::unique_ptr<Pair> tcp_pair(int sockets, int threads = 1);

/// Every kind of link.
std::vector<Kind> kinds();

}  // namespace links
