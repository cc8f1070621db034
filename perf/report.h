// What a run tells: nccl-tests' table on stdout, and on request CSV and JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives.h"
#include "options.h"

namespace rondo::perf {

/// The iterations of a measurement, each as slow as its slowest rank.
struct IterationTimes {
  double minimum_us = 0, maximum_us = 0, mean_us = 0, p50_us = 0, p95_us = 0, p99_us = 0, deviation_us = 0;
  std::vector<double> all_us;
  double variation_percent() const noexcept { return mean_us > 0 ? deviation_us / mean_us * 100 : 0; }
};
IterationTimes summarize(std::vector<double> times_us);

/// Out of place or in place.
struct Half {
  double time_us = 0;
  double algbw = 0;  // GB/s
  double busbw = 0;
  std::optional<std::uint64_t> wrong;  // elements, of all ranks, if checked
  std::optional<IterationTimes> iterations;
};

struct Row {
  std::size_t bytes = 0;
  std::size_t count = 0;
  std::string_view type, op;
  int root = -1;
  Half out_of_place;
  std::optional<Half> in_place;  // none where the collective can't be
  std::string time_of_day;
};

/// Where a rank runs.
struct Place {
  int pid = 0;
  int device = 0;  // its number within the host, as nccl-tests would number devices
  char host[64] = {};
  char processors[64] = {};  // those it may use, as a list of ranges
};
Place place_here(int device);

/// Everything that the end of a run knows.
struct Summary {
  std::vector<Row> rows;
  std::uint64_t out_of_bounds = 0;    // bytes next to buffers that were changed
  std::uint64_t different_ranks = 0;  // results that were not bit for bit rank 0's, added up over rows
  std::uint64_t wrong = 0;
  double busbw() const noexcept;  // the average of all halves of all rows
};
/// Whether the average bus bandwidth is enough; nothing where nothing was demanded.
std::optional<bool> verdict(const Options& options, const Summary& summary);

/// "2026-01-31 13:05:00", now.
std::string time_of_day();

/// Rank 0's voice.
class Report {
 public:
  /// Opens the files asked for.  Throws std::runtime_error with a sentence.
  Report(const Collective& collective, const Options& options, std::vector<std::string> arguments);
  void banner(const std::vector<Place>& places);
  void row(const Row& row);
  void footer(const Summary& summary);

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Close>;
  void half(const Half& half) const;
  const Collective& collective_;
  const Options& options_;
  std::vector<std::string> arguments_;
  std::string start_time_ = time_of_day();
  std::vector<Place> places_;
  File csv_;
  File json_;
};

/// The JSON document of a run, in nccl-tests' schema 3.  Of the environment it holds only variables that matter here
/// and hold no secret.
std::string json_document(const Options& options, const std::vector<std::string>& arguments,
                          const std::string& start_time, const std::vector<Place>& places, const Summary& summary);

}  // namespace rondo::perf
