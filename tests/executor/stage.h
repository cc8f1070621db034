// A stage for the executor: all ranks of a world, their programs and buffers, in one thread over simulated links.
//
// A scene is one or more collective calls of all ranks, under seeds; play() runs it to the end and says what was wrong.
// Inputs are exactly representable, so that results do not depend on the order of reduction (Values::exact), or round
// at every step, so that all ranks must agree on how (Values::rounding).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "executor.h"
#include "transports/simulated.h"

namespace stage {

using rondo::Code;
using rondo::DataType;
using rondo::Operator;
using rondo::Status;

enum class Values { exact, rounding };

/// One collective call, as every rank makes it.
struct Call {
  const rondo::plan::Schedule* schedule = nullptr;
  const rondo::plan::Schedule* lending = nullptr;  // the one to run where all ranks can lend, if another
  int root = 0;
  std::uint64_t count = 0;
  DataType type = DataType::float32;
  Operator op = Operator::sum;
  bool in_place = false;
  Values values = Values::exact;
  rondo::plan::Cut cut;
  bool by_address = true;
  int stripes = 1;  // on lanes of their own
  int shares = 1;   // runs that walk the call's strands
  int shelf = 0;    // rooms of each rank's shelf
};

struct Scene {
  int ranks = 1;
  std::vector<std::int32_t> hosts;  // by rank; empty: all on one
  rondo::simulated::Options links;
  std::uint64_t seed = 1;   // of whose turn it is
  std::vector<Call> calls;  // all under way at once, in this order on every rank
  int odd_rank = -1;        // this rank calls odd_call in place of calls[0]
  Call odd_call;
  int victim = -1;               // this rank dies
  std::uint64_t dies_after = 0;  // turns
};

/// How one rank's run of one call ended.
struct Ending {
  Status status;
  rondo::Mismatch mismatch;
  rondo::Signature signature;
  bool over = false;
};

struct Outcome {
  std::string wrong;                         // what must not be; empty where all is well
  std::vector<std::vector<Ending>> endings;  // by rank, by call
  std::uint64_t messages = 0;
  std::uint64_t lends = 0;
  std::uint64_t tiles = 0;  // the most of any call
  bool ok() const { return wrong.empty(); }
};

rondo::plan::Topology topology_of(const Scene& scene);
std::string describe(const Scene& scene);
/// Plays the scene.  Without a victim and an odd rank every result is checked: values, bits across ranks, bytes
/// outside, `in` unchanged, nothing left in links, nothing still lent.  Always: no hang, no broken rule of the links.
Outcome play(const Scene& scene);

/// The smallest number of credits with which all calls of the scene are proved.
int credits_needed(const Scene& scene);

}  // namespace stage
