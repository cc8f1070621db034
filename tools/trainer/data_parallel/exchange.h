// What ranks tell each other besides gradients: the descriptions of their models, values from one rank to all, and
// hashes of values.  All of it blocks, on the caller's thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "handles.h"
#include "layer.h"

namespace rondo::data_parallel {

/// Throws on every rank unless all have the same lines; the sentence names the first line that differs, of the lowest
/// rank that differs from rank 0.  `what` says what the lines are ("the models of the ranks differ").
void require_same(ncclComm_t comm, std::span<const std::string> lines, const std::string& what);

/// Sends values from one rank to all.  Small ranges travel together.
class Broadcaster {
 public:
  Broadcaster(ncclComm_t comm, int rank) : comm_(comm), rank_(rank) {}
  /// The same ranges on every rank.
  void send(std::span<const Parameter> ranges, int root);

 private:
  void flush(int root);
  ncclComm_t comm_;
  int rank_;
  Memory staging_;
  std::vector<std::span<std::byte>> waiting_;
  std::size_t waiting_bytes_ = 0;
};

/// Throws on every rank unless the ranges have the same bits on all.
void require_agreement(ncclComm_t comm, int ranks, std::span<const Parameter> ranges);

}  // namespace rondo::data_parallel
