// The collectives that are measured: sizes and arguments of each, as a table of plain functions.
#pragma once

#include <cstddef>
#include <string_view>

#include "runtime/nccl.h"

namespace rondo::perf {

/// How many elements a row's bytes are.  In place there is one buffer of the larger of `send` and `receive`, and the
/// smaller part begins at the rank times `count`.
struct Counts {
  std::size_t count = 0;    // the call's argument, and the table's column
  std::size_t send = 0;     // of the send buffer
  std::size_t receive = 0;  // of the receive buffer
};

/// What a call needs beside its buffers.
struct Call {
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  int root = 0;
};

/// What a rank receives.
enum class Result {
  reduced,       // the reduction of all inputs
  reduced_part,  // its part of it
  gathered,      // all inputs, in the order of the ranks
  root_data,     // the root's input
};

struct Collective {
  std::string_view program;
  std::string_view function;
  Result result;
  Counts (*counts)(std::size_t elements, std::size_t element_bytes, int ranks);
  double (*bus_factor)(int ranks);  // busbw / algbw
  ncclResult_t (*call)(const void* send, void* receive, const Call& call, ncclComm_t communicator);

  bool reduces() const noexcept { return result == Result::reduced || result == Result::reduced_part; }
  bool rooted() const noexcept { return result == Result::root_data; }
  bool same_everywhere() const noexcept { return result != Result::reduced_part; }
};

extern const Collective all_reduce, all_gather, reduce_scatter, broadcast;

}  // namespace rondo::perf
