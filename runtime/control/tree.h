// The shape of the tree in which ranks hand on news and tables: rank r's parent is (r - 1) / tree_fanout.
#pragma once

#include <algorithm>
#include <vector>

#include "base/limits.h"

namespace rondo::control {

using limits::tree_fanout;  // a table leaves a rank eight times; 1,000 ranks are four steps deep

inline int tree_parent(int rank) { return rank == 0 ? -1 : (rank - 1) / tree_fanout; }

inline std::vector<int> tree_children(int rank, int ranks) {
  std::vector<int> children;
  const long first = static_cast<long>(rank) * tree_fanout + 1;
  for (long child = first; child < std::min<long>(first + tree_fanout, ranks); ++child) {
    children.push_back(static_cast<int>(child));
  }
  return children;
}

}  // namespace rondo::control
