// What a rank knows of the others, and whom it tells: departures and failures along a tree that mends itself.  Pure: it
// opens nothing and reads no clock, so that a test runs thousands of ranks in virtual time.
//
//          0              Each rank has a line to its parent and to its children (tree.h).  What it learns it tells on
//        / | \            all lines but the one that it came by; news of a rank counts once, the first of departure and
//       1  2  3 ...       failure.  Whoever loses its parent looks for the next: its other ancestors from near to far,
//     / |                 then ranks 1, 2, ... below itself.  So every rank that is here but the lowest has a parent
//    9 10 ...             below it, and all are joined.  On a new line both tell all they know.
//
// Those that are here agree.  What went while it had no line, because its parent had just gone, none of them may know:
// only who has a pair channel to it, or calls it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "control/bytes.h"

namespace rondo::control {

class News {
 public:
  enum class State : std::uint8_t { here, left, failed };
  enum Kind : std::uint16_t {
    left = 33,    // a rank has left in good order: its number
    failed = 34,  // a rank has failed or died: its number, and the sentence
  };
  /// What it needs done.  None of this may call back before it returns.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// On the line of the tree to that neighbour, which stands.
    virtual void send(int to, std::uint16_t kind, View body) = 0;
    /// Opens the line to a rank below this one; attached() or unreachable() follows.
    virtual void call(int rank) = 0;
    /// mend() is to be called after a pause: the others may be leaving, too.
    virtual void mend_soon() = 0;
    /// The rank is not here any more: its lines are closed, and the user told.
    virtual void gone(int rank, State how, const std::string& sentence) = 0;
  };

  News(int rank, int ranks, Owner& owner);
  /// Calls the parent.
  void start();
  /// Whether the lines to the parent and to all children stood at some time.
  bool complete() const noexcept { return awaited_.empty(); }
  /// Whose lines have not stood yet, of the parent and the children.
  const std::set<int>& awaited() const noexcept { return awaited_; }
  State state(int rank) const { return states_[static_cast<std::size_t>(rank)]; }

  /// A frame's body.
  static Bytes encode(int rank, const std::string& sentence, State how);

  /// The line to the rank stands.
  void attached(int rank);
  /// The rank that was called has no line for this one: it is not here any more, or not for long.
  void unreachable(int rank);
  void mend();
  /// A frame on a line, the tree's or another.  False: it is malformed.
  bool receive(int from, std::uint16_t kind, View body);
  /// What this rank has found out itself.
  void note(int rank, State how, const std::string& sentence = {}) { learn(rank, how, sentence, rank); }

 private:
  void learn(int rank, State how, const std::string& sentence, int from);
  int next_parent() const;

  const int rank_;
  Owner& owner_;
  std::vector<State> states_;             // by rank
  std::map<int, std::string> sentences_;  // of those that failed, and "" of those that left
  std::set<int> lines_;                   // the neighbours
  std::set<int> awaited_;
  std::set<int> unreachable_;
  int parent_ = -1;  // whose line stands or is called; -1: none
};

}  // namespace rondo::control
