// Symbolic values: interning of expression trees and of rank sets.
#include "plan/verify/trees.h"

#include <algorithm>

namespace rondo::plan {

std::int32_t RankSets::single(std::int32_t rank) {
  const auto [at, added] = singles_.try_emplace(rank, static_cast<std::int32_t>(sets_.size()));
  if (added) {
    const auto begin = static_cast<std::uint32_t>(intervals_.size());
    intervals_.push_back({rank, rank + 1});
    sets_.push_back({begin, begin + 1});
  }
  return at->second;
}

std::int32_t RankSets::unite(std::int32_t left, std::int32_t right) {
  const auto key = static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  if (const auto known = unions_.find(key); known != unions_.end()) return known->second;
  const Slice a = sets_[left], b = sets_[right];
  const auto begin = static_cast<std::uint32_t>(intervals_.size());
  for (std::uint32_t i = a.begin, j = b.begin; i < a.end || j < b.end;) {
    const bool from_left = j == b.end || (i < a.end && intervals_[i].first < intervals_[j].first);
    const Interval next = intervals_[from_left ? i++ : j++];
    if (intervals_.size() == begin || intervals_.back().upto < next.first) {
      intervals_.push_back(next);
    } else if (intervals_.back().upto == next.first) {
      intervals_.back().upto = next.upto;
    } else {
      intervals_.resize(begin);
      return unions_[key] = -1;
    }
  }
  sets_.push_back({begin, static_cast<std::uint32_t>(intervals_.size())});
  return unions_[key] = static_cast<std::int32_t>(sets_.size()) - 1;
}

bool RankSets::is(std::int32_t set, std::int32_t first, std::int32_t upto) const {
  const Slice s = sets_[set];
  return s.end - s.begin == 1 && intervals_[s.begin].first == first && intervals_[s.begin].upto == upto;
}

std::string RankSets::text(std::int32_t set) const {
  std::string result;
  for (std::uint32_t i = sets_[set].begin; i < sets_[set].end; ++i) {
    if (!result.empty()) result += ", ";
    result += std::to_string(intervals_[i].first);
    if (intervals_[i].upto - intervals_[i].first > 1) result += ".." + std::to_string(intervals_[i].upto - 1);
  }
  return result;
}

std::size_t Trees::probe(Kind kind, std::int32_t left, std::int32_t right) const {
  std::uint64_t hash = (static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right)) * 4 +
                       static_cast<std::uint64_t>(kind);
  hash *= 0x9e3779b97f4a7c15u;
  hash ^= hash >> 32;
  const std::size_t mask = table_.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    if (table_[at] < 0) return at;
    const Node& node = nodes_[table_[at]];
    if (node.kind == kind && node.left == left && node.right == right) return at;
  }
}

std::int32_t Trees::find(Kind kind, std::int32_t left, std::int32_t right) const {
  return table_[probe(kind, left, right)];
}

std::int32_t Trees::add(const Node& node) {
  if (nodes_.size() * 2 >= table_.size()) grow();
  const auto id = static_cast<std::int32_t>(nodes_.size());
  table_[probe(node.kind, node.left, node.right)] = id;
  nodes_.push_back(node);
  return id;
}

void Trees::grow() {
  table_.assign(table_.size() * 2, -1);
  for (std::size_t id = 0; id < nodes_.size(); ++id)
    table_[probe(nodes_[id].kind, nodes_[id].left, nodes_[id].right)] = static_cast<std::int32_t>(id);
}

std::int32_t Trees::leaf(std::int32_t rank, std::int32_t element) {
  if (const std::int32_t known = find(Kind::leaf, rank, element); known >= 0) return known;
  return add({Kind::leaf, rank, element, element, sets_.single(rank), rank == 0});
}

std::int32_t Trees::pre(std::int32_t operand) {
  const Node node = nodes_[operand];
  if (node.kind != Kind::leaf) throw Broken{Fault::stale, "`in` was overwritten before it was read"};
  if (const std::int32_t known = find(Kind::pre, operand, 0); known >= 0) return known;
  return add({Kind::pre, operand, 0, node.element, node.ranks, node.fold});
}

std::int32_t Trees::sum(std::int32_t left, std::int32_t right) {
  if (const std::int32_t known = find(Kind::sum, left, right); known >= 0) return known;
  const Node x = nodes_[left], y = nodes_[right];
  const auto partial = [](const Node& node) { return node.kind == Kind::pre || node.kind == Kind::sum; };
  if (!partial(x) || !partial(y))
    throw Broken{Fault::stage, "reduces " + text(left) + " with " + text(right) + ", not both partial"};
  if (x.element != y.element)
    throw Broken{Fault::misplaced, "reduces values of different elements, " + text(left) + " and " + text(right)};
  const std::int32_t ranks = sets_.unite(x.ranks, y.ranks);
  if (ranks < 0)
    throw Broken{Fault::doubled, "contributors " + sets_.text(x.ranks) + " and " + sets_.text(y.ranks) + " overlap"};
  const std::int32_t fold = x.fold != 0 && sets_.is(y.ranks, x.fold, x.fold + 1) ? x.fold + 1 : 0;
  return add({Kind::sum, left, right, x.element, ranks, fold});
}

std::int32_t Trees::post(std::int32_t operand) {
  const Node node = nodes_[operand];
  if (node.kind != Kind::pre && node.kind != Kind::sum)
    throw Broken{Fault::stage, "finishes " + text(operand) + ", not partial"};
  if (const std::int32_t known = find(Kind::post, operand, 0); known >= 0) return known;
  return add({Kind::post, operand, 0, node.element, node.ranks, node.fold});
}

std::string Trees::text(std::int32_t tree) const {
  const Node& node = nodes_[tree];
  switch (node.kind) {
    case Kind::leaf: return std::string("x").append(std::to_string(node.left));
    case Kind::sum: return std::string("(").append(text(node.left)).append(" + ").append(text(node.right)).append(")");
    case Kind::pre:
    case Kind::post: break;
  }
  return text(node.left);
}

}  // namespace rondo::plan
