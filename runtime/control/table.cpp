// The table of members on its way: see table.h.
#include "control/table.h"

#include "control/root.h"
#include "control/tree.h"

namespace rondo::control {

Table::Table(int rank, int ranks, Owner& owner) : ranks_(static_cast<std::size_t>(ranks)), owner_(owner) {
  membership_.rank = rank;
  for (const int child : tree_children(rank, ranks)) unserved_.insert(child);
}

bool Table::take(View frame) {
  if (!joining::decode_members(frame, membership_) || membership_.members.size() > ranks_) return false;
  frames_.emplace_back(frame.begin(), frame.end());
  for (const int child : lines_) owner_.hand_on(child, frame);
  return true;
}

bool Table::attached(int child) {
  if (!unserved_.contains(child)) return false;
  lines_.insert(child);
  for (const Bytes& frame : frames_) owner_.hand_on(child, frame);
  return true;
}

}  // namespace rondo::control
