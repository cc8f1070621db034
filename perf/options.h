// The command line of the performance programs: nccl-tests' flags and Rondo's additions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "data.h"

namespace rondo::perf {

enum class Memory { plain, alloc };                       // malloc, ncclMemAlloc
enum class Averaging { rank_0, mean, minimum, maximum };  // of the ranks' times; -a's values

struct Options {
  int threads = 1;
  int ranks_per_thread = 1;
  std::size_t bytes_min = 32 << 20;
  std::size_t bytes_max = 32 << 20;
  std::size_t bytes_step = 1 << 20;
  std::size_t factor = 1;  // above 1: instead of the step
  int iterations = 20;
  int warmups = 1;     // before each measurement
  int aggregated = 1;  // calls a group
  int cycles = 1;      // 0: for ever
  bool parallel_init = false;
  int checks = 1;
  std::vector<Op> ops;
  std::vector<Type> types;
  int root = 0;  // -1: each rank in turn
  int timeout_s = 0;
  Averaging averaging = Averaging::mean;
  bool timestamps = false;
  std::size_t unaligned = 0;  // elements that buffers are off their alignment
  bool per_iteration = false;
  bool fresh = false;
  Memory memory = Memory::plain;
  double busbw_min = 0;  // 0: no verdict
  std::string json_path;
  std::string csv_path;
  std::vector<std::string> algorithms;      // each measured in turn; none: what the library chooses
  std::string algorithm;                    // the one in turn
  std::vector<std::string> without_effect;  // flags given that mean nothing on host memory
};

/// Parses.  Where the program must not go on, returns false, and `status` is 0 (help) or 2 (a mistake); what there is
/// to say is said on stdout or stderr by rank 0 only.
bool parse_options(std::string_view program, int argument_count, char** arguments, Options& options, int& status);

}  // namespace rondo::perf
