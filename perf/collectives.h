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
  std::size_t element_bytes = 4;
};

/// What a rank receives.
enum class Result {
  reduced,           // the reduction of all inputs
  reduced_part,      // its part of it
  reduced_at_root,   // at the root the reduction; nothing elsewhere
  gathered,          // all inputs, in the order of the ranks
  gathered_at_root,  // at the root, the same; nothing elsewhere
  root_data,         // the root's input
  root_part,         // its part of the root's input
  from_all,          // from each rank the part that is for this one, in the order of the ranks (see `part`)
  from_previous,     // the previous rank's input
};

/// Elements of an input from `first` on.
struct Part {
  std::size_t first = 0;
  std::size_t count = 0;
};

struct Collective {
  std::string_view program;
  std::string_view function;
  Result result;
  Counts (*counts)(std::size_t elements, std::size_t element_bytes, int ranks);
  double (*bus_factor)(int ranks);  // busbw / algbw
  ncclResult_t (*call)(const void* send, void* receive, const Call& call, ncclComm_t communicator);
  bool in_place = true;  // whether it may be; otherwise those columns are N/A
  /// Of from_all: which part of its input `from` has for `to`, where a call's count is `count`.
  Part (*part)(std::size_t count, int from, int to, int ranks) = nullptr;
  /// The share of a row's bytes that algbw counts; null: all.
  double (*counted)(int ranks) = nullptr;
  bool powers_of_two = false;  // ranks must be one

  bool reduces() const noexcept {
    return result == Result::reduced || result == Result::reduced_part || result == Result::reduced_at_root;
  }
  bool rooted() const noexcept { return result == Result::root_data || result == Result::root_part || only_at_root(); }
  bool only_at_root() const noexcept { return result == Result::reduced_at_root || result == Result::gathered_at_root; }
  bool same_everywhere() const noexcept {
    return result == Result::reduced || result == Result::gathered || result == Result::root_data;
  }
};

extern const Collective all_reduce, all_gather, reduce_scatter, broadcast, reduce, gather, scatter, all_to_all,
    all_to_all_v, send_receive, hypercube;

}  // namespace rondo::perf
