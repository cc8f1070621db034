// All ranks of a launch: do they find each other, where do they differ, how fast is each pair.
#pragma once

#include <string>
#include <vector>

#include "nccl.h"
#include "tools/doctor/finding.h"

namespace rondo::doctor {

/// "rank 3", "ranks 0-2, 5"
std::string ranks_text(const std::vector<int>& ranks);

/// Whether a launcher started this process.
bool in_a_job();

/// Every rank's value, by rank.  Throws std::runtime_error with the library's sentence.
std::vector<json> gather(ncclComm_t comm, int rank, int ranks, const json& mine);

/// One-way time of 8 bytes and bandwidth of 4 MiB between two ranks.
struct PairSpeed {
  int first = 0;
  int second = 0;
  double latency_us = 0;
  double gigabytes_per_s = 0;
};

/// Pair after pair, while the others wait; at most pairs_max of them, evenly chosen.  Every rank calls it and gets the
/// speeds of the pairs in which it is the first.  Throws std::runtime_error.
inline constexpr int pairs_max = 500;
std::vector<PairSpeed> measure_pairs(ncclComm_t comm, int rank, int ranks);

/// What differs between ranks that should be alike.  Pure functions, both.
Findings compare_ranks(const std::vector<json>& facts);
Findings check_pairs(const std::vector<PairSpeed>& pairs, const std::vector<json>& facts);

}  // namespace rondo::doctor
