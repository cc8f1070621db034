// Symbolic values: hash-consed expression trees with ordered operands.
//
// Two values are equal bit for bit on every machine if their trees are one node: a tree keeps which ranks' elements
// were added, in which order and with which association.  Contributors are interval lists, shared between trees.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "plan/verify.h"

namespace rondo::plan {

/// The first broken rule: thrown within the verifier, returned by `verify` as a Verdict.
struct Broken {
  Fault fault;
  std::string text;
};

/// Sets of ranks, as ascending disjoint intervals.  One set may have several ids.
class RankSets {
 public:
  std::int32_t single(std::int32_t rank);
  /// The union of disjoint sets, or -1 if they overlap.
  std::int32_t unite(std::int32_t left, std::int32_t right);
  /// Whether the set is exactly first..upto-1.
  bool is(std::int32_t set, std::int32_t first, std::int32_t upto) const;
  std::string text(std::int32_t set) const;

 private:
  struct Interval {
    std::int32_t first, upto;
  };
  struct Slice {
    std::uint32_t begin, end;
  };
  std::vector<Interval> intervals_;
  std::vector<Slice> sets_;
  std::unordered_map<std::int32_t, std::int32_t> singles_;
  std::unordered_map<std::uint64_t, std::int32_t> unions_;
};

class Trees {
 public:
  /// leaf: an element of some rank's `in`, raw.  pre, sum: partial.  post: final.
  enum class Kind : std::uint8_t { leaf, pre, sum, post };
  struct Node {
    Kind kind;
    std::int32_t left, right;  // leaf: rank, element; pre and post: operand, 0; sum: operands
    std::int32_t element;      // the element of the result that this is a value of
    std::int32_t ranks;        // contributors, a RankSets id
    std::int32_t fold;         // k if it is the left fold over ranks 0..k-1, else 0
  };

  std::int32_t leaf(std::int32_t rank, std::int32_t element);
  /// The pre-operator.  Throws Broken: the operand is not raw (`in` was overwritten).
  std::int32_t pre(std::int32_t operand);
  /// Throws Broken: operands not partial, of different elements, or with a contributor in common.
  std::int32_t sum(std::int32_t left, std::int32_t right);
  /// The post-operator.  Throws Broken: the operand is not partial.
  std::int32_t post(std::int32_t operand);

  const Node& operator[](std::int32_t tree) const { return nodes_[tree]; }
  const RankSets& sets() const { return sets_; }
  std::size_t size() const { return nodes_.size(); }
  /// `((x0 + x1) + x2)`: the contributors in order and association.
  std::string text(std::int32_t tree) const;

 private:
  std::size_t probe(Kind kind, std::int32_t left, std::int32_t right) const;
  std::int32_t find(Kind kind, std::int32_t left, std::int32_t right) const;
  std::int32_t add(const Node& node);
  void grow();
  std::vector<Node> nodes_;
  std::vector<std::int32_t> table_ = std::vector<std::int32_t>(64, -1);  // open addressing, a power of two, node ids
  RankSets sets_;
};

}  // namespace rondo::plan
