// A rank's part in handing on the table of members: from its parent in the tree to its children, frame by frame.  Pure:
// it opens nothing and reads no clock.
//
// The root of a unique id gives the table to rank 0, and tells every other rank only where its parent is.  So the root
// sends one table and N short frames, and no rank sends more than tree_fanout tables.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "control.h"
#include "control/bytes.h"

namespace rondo::control {

class Table {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    /// A frame of members for a child whose line stands.
    virtual void hand_on(int child, View frame) = 0;
  };
  Table(int rank, int ranks, Owner& owner);
  /// A frame of members, from the parent or, on rank 0, the root.  False: malformed.
  bool take(View frame);
  /// The line to a child stands.  False: it is none of this rank's.
  bool attached(int child);
  /// The child's line is gone; it may call again.
  void lost(int child) { lines_.erase(child); }
  /// The child has all of it.
  void received(int child) { unserved_.erase(child); }
  bool complete() const noexcept { return membership_.members.size() == ranks_; }
  /// Complete, here and at all children.
  bool served() const noexcept { return complete() && unserved_.empty(); }
  Membership& membership() noexcept { return membership_; }

 private:
  const std::size_t ranks_;
  Owner& owner_;
  Membership membership_;
  std::vector<Bytes> frames_;  // so far
  std::set<int> lines_;        // to children
  std::set<int> unserved_;     // children that do not have all
};

}  // namespace rondo::control
