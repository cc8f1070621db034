// See report.h.  Columns, widths and footer are nccl-tests', so that its readers read ours.
#include "report.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <numeric>
#include <stdexcept>
#include <system_error>

namespace rondo::perf {

namespace {

constexpr const char* time_format = "%Y-%m-%d %H:%M:%S";

// `value` in `width` columns, with as many digits behind the point as fit, at most two.
std::string figure(double value, int width) {
  int digits = 0;
  for (double power = 1; value >= power; power *= 10) ++digits;
  char text[32];
  if (digits < width + 1) {
    std::snprintf(text, sizeof text, "%*.*f", width, digits < width - 2 ? 2 : digits < width - 1 ? 1 : 0, value);
  } else {
    std::snprintf(text, sizeof text, "%*.*e", width, width >= 7 ? 1 : 0, value);
  }
  return text;
}

// Throws where what was written has not arrived: of a full disk or a closed descriptor only the flush tells.
void must_be_written(std::FILE* file, const std::string& name) {
  if (std::fflush(file) == 0 && std::ferror(file) == 0) return;
  throw std::runtime_error("cannot write " + name + ": " + strerror(errno));
}

// Lists of processors as ranges: "0-3,8".
std::string ranges_of(const cpu_set_t& set) {
  std::string text;
  for (int first = 0; first < CPU_SETSIZE; ++first) {
    if (!CPU_ISSET(first, &set)) continue;
    int last = first;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(first) + (last > first ? "-" + std::to_string(last) : "");
    first = last;
  }
  return text;
}

void copy_text(const std::string& from, char (&to)[64]) {
  const std::size_t size = std::min(from.size(), sizeof to - 1);
  from.copy(to, size);
  to[size] = 0;
}

int library_version() {
  int version = 0;
  (void)ncclGetVersion(&version);
  return version;
}

}  // namespace

IterationTimes summarize(std::vector<double> times_us) {
  IterationTimes result;
  result.all_us = times_us;
  std::sort(times_us.begin(), times_us.end());
  const std::size_t n = times_us.size();
  const auto percentile = [&](std::size_t percent) { return times_us[std::min(n - 1, (n * percent + 99) / 100 - 1)]; };
  result.minimum_us = times_us.front();
  result.maximum_us = times_us.back();
  result.mean_us = std::accumulate(times_us.begin(), times_us.end(), 0.0) / static_cast<double>(n);
  result.p50_us = times_us[n / 2];
  result.p95_us = percentile(95);
  result.p99_us = percentile(99);
  double squares = 0;
  for (const double time : times_us) squares += (time - result.mean_us) * (time - result.mean_us);
  result.deviation_us = std::sqrt(squares / static_cast<double>(n));
  return result;
}

Place place_here(int device) {
  Place place;
  place.pid = getpid();
  place.device = device;
  char host[64] = {};
  gethostname(host, sizeof host - 1);
  copy_text(host, place.host);
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) copy_text("cpu " + ranges_of(set), place.processors);
  return place;
}

double Summary::busbw() const noexcept {
  double sum = 0;
  int halves = 0;
  for (const Row& row : rows) {
    sum += row.out_of_place.busbw + (row.in_place ? row.in_place->busbw : 0);
    halves += row.in_place ? 2 : 1;
  }
  return rows.empty() ? 0 : sum / halves;
}

std::optional<bool> verdict(const Options& options, const Summary& summary) {
  std::optional<bool> enough;
  if (options.busbw_min > 0) enough = summary.busbw() >= options.busbw_min;
  const char* nccl_tests = std::getenv("NCCL_TESTS_MIN_BW");  // with a tolerance of a tenth
  if (nccl_tests) enough = enough.value_or(true) && summary.busbw() >= 0.9 * std::atof(nccl_tests);
  return enough;
}

std::string time_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, time_format, &parts);
  return text;
}

Report::Report(const Collective& collective, const Options& options, std::vector<std::string> arguments)
    : collective_(collective), options_(options), arguments_(std::move(arguments)) {
  if (!options.csv_path.empty()) {
    csv_.reset(std::fopen(options.csv_path.c_str(), "w"));
    if (!csv_) throw std::runtime_error("cannot write --csv " + options.csv_path + ": " + strerror(errno));
    std::fputs("size,count,type,redop,root,in_place,time_us,algbw,busbw,wrong\n", csv_.get());
  }
  if (options.json_path.empty()) return;
  std::string path = options.json_path;
  std::error_code none;
  const auto there = std::filesystem::status(path, none).type();
  if (there == std::filesystem::file_type::character || there == std::filesystem::file_type::fifo) {
    json_.reset(std::fopen(path.c_str(), "w"));  // written where it is: nothing is lost
  }
  for (int attempt = 0; !json_; ++attempt) {
    json_.reset(std::fopen(path.c_str(), "wx"));
    if (!json_ && errno != EEXIST) throw std::runtime_error("cannot write -J " + path + ": " + strerror(errno));
    if (!json_) path = options.json_path + "." + std::to_string(attempt);
  }
  std::printf("# Writing JSON output to %s\n", path.c_str());
}

void Report::banner(const std::vector<Place>& places) {
  places_ = places;
  const Options& o = options_;
  std::printf("# nccl-tests version 2.19.6-rondo nccl-headers=%d nccl-library=%d\n", NCCL_VERSION_CODE,
              library_version());
  std::printf("# Collective test starting: %s\n", collective_.program.data());
  std::printf(
      "# nThread %d nGpus %d minBytes %zu maxBytes %zu step: %zu(%s) warmup iters: %d iters: %d agg iters: %d "
      "validation: %d graph: 0 unalign: %zu\n",
      o.threads, o.ranks_per_thread, o.bytes_min, o.bytes_max, o.factor > 1 ? o.factor : o.bytes_step,
      o.factor > 1 ? "factor" : "bytes", o.warmups, o.iterations, o.aggregated, o.checks, o.unaligned);
  std::printf("# Buffers: %s; %s\n", o.memory == Memory::plain ? "plain (malloc)" : "alloc (ncclMemAlloc)",
              o.fresh ? "fresh: rewritten before every timed call, calls timed one by one after a barrier"
                      : "hot: the same data in every iteration");
  if (!o.algorithm.empty()) std::printf("# Algorithm: %s\n", o.algorithm.c_str());
  for (const std::string& flag : o.without_effect) std::printf("# %s has no effect on host memory\n", flag.c_str());
  if (o.per_iteration) std::printf("# Per-Iteration Report: steady clock; i_* uses the slowest rank of each\n");
  if (o.parallel_init) std::printf("# Parallel Init Enabled: each thread initialises its own ranks\n");
  std::printf("#\n# Using devices\n");
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const Place& place = places[rank];
    std::printf("#  Rank %2zu Group %2d Pid %6d on %10s device %2d [%s] host memory\n", rank, 0, place.pid, place.host,
                place.device, place.processors);
  }
  const char* stamp = o.timestamps ? "timestamp" : "";
  const char* stamp_format = o.timestamps ? time_format : "";
  std::printf("#\n# %10s  %12s  %8s  %6s  %6s", "", "", "", "", "");
  std::printf(o.per_iteration ? "              out-of-place (+ per-iteration)                                "
                                "in-place (+ per-iteration)\n"
                              : "           out-of-place                       in-place          \n");
  const auto line = [&](const char* first, const char* figures, const char* iterations, const char* last) {
    std::printf("%s", first);
    for (int half = 0; half < 2; ++half) std::printf("%s%s", figures, o.per_iteration ? iterations : "");
    std::printf(" %*s\n", o.timestamps ? 19 : 0, last);
  };
  line("#       size         count      type   redop    root", "     time   algbw   busbw  #wrong",
       "    i_min    i_max    i_p99    i_cv%", stamp);
  line("#        (B)    (elements)                          ", "     (us)  (GB/s)  (GB/s)        ",
       "     (us)     (us)     (us)      (%)", stamp_format);
  must_be_written(stdout, "the standard output");
}

void Report::half(const Half& half) const {
  std::printf("  %s  %s  %s", figure(half.time_us, 7).c_str(), figure(half.algbw, 6).c_str(),
              figure(half.busbw, 6).c_str());
  if (half.wrong)
    std::printf("  %6g", static_cast<double>(*half.wrong));
  else
    std::printf("     N/A");
  if (!half.iterations) return;
  const IterationTimes& times = *half.iterations;
  for (const double value : {times.minimum_us, times.maximum_us, times.p99_us, times.variation_percent()})
    std::printf("  %s", figure(value, 7).c_str());
}

void Report::row(const Row& row) {
  std::printf("%12zu  %12zu  %8s  %6s  %6d", row.bytes, row.count, row.type.data(), row.op.data(), row.root);
  half(row.out_of_place);
  if (row.in_place) {
    half(*row.in_place);
  } else {
    std::printf("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
    if (row.out_of_place.iterations) std::printf("  %7s  %7s  %7s  %7s", "N/A", "N/A", "N/A", "N/A");
  }
  if (options_.timestamps) std::printf("%21s", row.time_of_day.c_str());
  std::printf("\n");
  must_be_written(stdout, "the standard output");
  if (!csv_) return;
  for (const bool in_place : {false, true}) {
    if (in_place && !row.in_place) continue;
    const Half& half = in_place ? *row.in_place : row.out_of_place;
    const std::string wrong = half.wrong ? std::to_string(*half.wrong) : "";
    std::fprintf(csv_.get(), "%zu,%zu,%s,%s,%d,%d,%.3f,%.4f,%.4f,%s\n", row.bytes, row.count, row.type.data(),
                 row.op.data(), row.root, in_place, half.time_us, half.algbw, half.busbw, wrong.c_str());
  }
  must_be_written(csv_.get(), "--csv " + options_.csv_path);
}

void Report::footer(const Summary& summary) {
  const std::optional<bool> enough = verdict(options_, summary);
  std::printf("# %-20s : %llu %s\n", "Out of bounds values", static_cast<unsigned long long>(summary.out_of_bounds),
              summary.out_of_bounds ? "FAILED" : "OK");
  std::printf("# %-20s : %g %s\n", "Avg bus bandwidth", summary.busbw(), enough ? (*enough ? "OK" : "FAILED") : "");
  if (options_.checks > 0 && collective_.same_everywhere()) {
    std::printf("# %-20s : %llu %s\n", "Ranks that differ", static_cast<unsigned long long>(summary.different_ranks),
                summary.different_ranks ? "FAILED" : "OK");
  }
  if (options_.busbw_min > 0) {
    std::printf("# %-20s : %g GB/s %s\n", "Min bus bandwidth", options_.busbw_min,
                summary.busbw() >= options_.busbw_min ? "reached" : "not reached");
  }
  std::printf("#\n# Collective test concluded: %s\n#\n", collective_.program.data());
  must_be_written(stdout, "the standard output");
  if (json_) {
    std::fputs(json_document(options_, arguments_, start_time_, places_, summary).c_str(), json_.get());
    must_be_written(json_.get(), "-J " + options_.json_path);
    json_.reset();
  }
}

}  // namespace rondo::perf
