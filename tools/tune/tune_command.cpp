// Every rank of a job runs it; rank 0 writes the file, keeping what it says of other numbers of ranks and hosts.  Each
// algorithm gets a communicator of its own (NCCL_ALGO); a time is the least over rounds of the slowest rank's.
// Statuses: 0; 1: the job or the file failed; 2: a wrong command line.
#include "tools/tune/tune_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "rondo.h"

namespace {

using namespace rondo;
using Clock = std::chrono::steady_clock;

struct Request {
  std::string output = "rondo.tune";
  std::size_t bytes_max = 64 << 20;
  int round_ms = 5;
};

constexpr const char* first_line = "rondo-tune 1";
constexpr std::size_t bytes_min = 8;
constexpr std::size_t factor = 4;
constexpr int rounds = 3;
constexpr double better = 0.95;  // of the time before, or the algorithm of the smaller size stays

void expect(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  const char* const sentence = ncclGetLastError(nullptr);
  const bool said = sentence != nullptr && *sentence != '\0';
  throw std::runtime_error(said ? sentence : std::string(what) + ": " + ncclGetErrorString(result));
}

/// A communicator of all ranks, and buffers for calls whose larger side has up to `bytes` bytes.
class Bench {
 public:
  explicit Bench(std::size_t bytes) : in_(bytes, std::byte{1}), out_(bytes) {
    expect(rondoCommInitFromEnv(&comm_), "rondoCommInitFromEnv");
    (void)ncclCommUserRank(comm_, &rank_);
    (void)ncclCommCount(comm_, &ranks_);
    (void)rondoCommHosts(comm_, &hosts_);
  }
  ~Bench() { (void)ncclCommDestroy(comm_); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int hosts() const { return hosts_; }

  /// Seconds of a call; the same on every rank.
  double time(CollectiveKind kind, std::size_t bytes, double round_s) {
    call(kind, bytes);
    const double once_s = slowest([&] { call(kind, bytes); });
    const int calls = std::clamp(static_cast<int>(round_s / std::max(once_s, 1e-9)), 1, 10'000);
    double best = once_s;
    for (int round = 0; round < rounds; ++round) {
      best = std::min(best, slowest([&] {
                              for (int i = 0; i < calls; ++i) call(kind, bytes);
                            }) / calls);
    }
    return best;
  }

 private:
  /// Seconds of the slowest rank.
  double slowest(auto&& work) {
    double seconds = 0;
    agree(seconds);  // all begin together
    const auto start = Clock::now();
    work();
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
    agree(seconds);
    return seconds;
  }
  void agree(double& value) {
    expect(ncclAllReduce(&value, &value, 1, ncclDouble, ncclMax, comm_, nullptr), "ncclAllReduce");
  }
  /// `bytes`: of the larger of what a rank gives and gets.
  void call(CollectiveKind kind, std::size_t bytes) {
    const std::size_t whole = std::max<std::size_t>(bytes / 4, 1);
    const std::size_t part = std::max<std::size_t>(whole / static_cast<std::size_t>(ranks_), 1);
    expect(call(kind, whole, part), "a call");
  }
  ncclResult_t call(CollectiveKind kind, std::size_t whole, std::size_t part) {
    const void* const in = in_.data();
    void* const out = out_.data();
    switch (kind) {
      case CollectiveKind::all_reduce: return ncclAllReduce(in, out, whole, ncclFloat, ncclSum, comm_, nullptr);
      case CollectiveKind::reduce: return ncclReduce(in, out, whole, ncclFloat, ncclSum, 0, comm_, nullptr);
      case CollectiveKind::broadcast: return ncclBroadcast(in, out, whole, ncclFloat, 0, comm_, nullptr);
      case CollectiveKind::all_gather: return ncclAllGather(in, out, part, ncclFloat, comm_, nullptr);
      case CollectiveKind::reduce_scatter: return ncclReduceScatter(in, out, part, ncclFloat, ncclSum, comm_, nullptr);
      case CollectiveKind::gather: return ncclGather(in, out, part, ncclFloat, 0, comm_, nullptr);
      case CollectiveKind::scatter: return ncclScatter(in, out, part, ncclFloat, 0, comm_, nullptr);
      case CollectiveKind::all_to_all: return ncclAlltoAll(in, out, part, ncclFloat, comm_, nullptr);
      default: throw std::runtime_error("a collective without a call");
    }
  }

  std::vector<std::byte> in_;
  std::vector<std::byte> out_;
  ncclComm_t comm_ = nullptr;
  int rank_ = 0;
  int ranks_ = 1;
  int hosts_ = 1;
};

/// Seconds, by collective, size and algorithm.
using Times = std::map<CollectiveKind, std::map<std::size_t, std::map<plan::Algorithm, double>>>;

/// Every algorithm of a collective, once.
std::vector<plan::Algorithm> algorithms() {
  std::vector<plan::Algorithm> all;
  for (const plan::Schedule& schedule : plan::schedules()) {
    if (schedule.kind == CollectiveKind::send_recv) continue;
    if (std::find(all.begin(), all.end(), schedule.algorithm) == all.end()) all.push_back(schedule.algorithm);
  }
  return all;
}

/// The rows of this shape: one a change of algorithm, whose size is the mean (of logarithms) of the sizes around it.
std::vector<std::string> rows(const Times& times, int ranks, int hosts) {
  std::vector<std::string> rows;
  for (const auto& [kind, by_size] : times) {
    const std::string start = std::string(plan::name(kind)) + " " + std::to_string(ranks) + " " + std::to_string(hosts);
    plan::Algorithm held{};
    std::size_t before = 0;
    for (const auto& [bytes, by_algorithm] : by_size) {
      const auto faster = [](const auto& a, const auto& b) { return a.second < b.second; };
      const auto best = std::min_element(by_algorithm.begin(), by_algorithm.end(), faster);
      if (before == 0) held = best->first;
      if (best->first != held && best->second < better * by_algorithm.at(held)) {
        const double middle = std::sqrt(static_cast<double>(before) * static_cast<double>(bytes));
        const auto up_to = std::to_string(static_cast<std::size_t>(middle));
        rows.push_back(start + " " + up_to + " " + std::string(plan::name(held)));
        held = best->first;
      }
      before = bytes;
    }
    rows.push_back(start + " * " + std::string(plan::name(held)));
  }
  return rows;
}

/// Lines of an older table about other shapes; nothing where there is no such file.
std::vector<std::string> kept(const std::string& path, int ranks, int hosts) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream stream(line.substr(0, line.find('#')));
    std::string kind;
    int row_ranks = 0;
    int row_hosts = 0;
    if (stream >> kind >> row_ranks >> row_hosts && (row_ranks != ranks || row_hosts != hosts)) lines.push_back(line);
  }
  return lines;
}

[[noreturn]] void cannot_write(const std::string& path, const std::string& draft, int error) {
  std::remove(draft.c_str());
  throw std::runtime_error("cannot write " + path + ": " + std::strerror(error));
}

std::string draft_of(const std::string& path) { return path + ".new"; }

/// Before the measurement, which may take minutes: a place that cannot be written is told at once, and so is what the
/// table would take the place of: a device, or a file of another kind.
void check_place(const std::string& path) {
  std::error_code ignored;
  const auto there = std::filesystem::status(path, ignored).type();
  if (there == std::filesystem::file_type::directory) cannot_write(path, draft_of(path), EISDIR);
  if (there == std::filesystem::file_type::regular) {
    std::ifstream old(path);
    std::string line;
    const bool empty = !std::getline(old, line);
    if (!empty && !line.starts_with(first_line) && !line.starts_with('#')) {
      throw std::runtime_error(path + " is there and no table of `rondo tune`; it stays as it is: name another file");
    }
  } else if (there != std::filesystem::file_type::not_found) {
    throw std::runtime_error("cannot write " + path + ": it is not a file");
  }
  std::ofstream file(draft_of(path));
  if (!file) cannot_write(path, draft_of(path), errno);
  std::remove(draft_of(path).c_str());
}

void write(const std::string& path, const std::vector<std::string>& lines) {
  const std::string draft = draft_of(path);
  std::ofstream file(draft);
  file << first_line << "\n# collective ranks hosts bytes-up-to algorithm; written by `rondo tune`, "
       << rondoGetVersion() << "\n";
  for (const std::string& line : lines) file << line << "\n";
  file.close();
  if (!file) cannot_write(path, draft, errno);
  std::error_code trouble;
  std::filesystem::rename(draft, path, trouble);
  if (trouble) cannot_write(path, draft, trouble.value());
}

void measure(const Request& request, Bench& bench, plan::Algorithm algorithm, Times& times) {
  for (const plan::Schedule& schedule : plan::schedules()) {
    if (schedule.algorithm != algorithm || schedule.kind == CollectiveKind::send_recv) continue;
    for (std::size_t bytes = bytes_min; bytes <= request.bytes_max; bytes *= factor) {
      times[schedule.kind][bytes][algorithm] = bench.time(schedule.kind, bytes, request.round_ms / 1e3);
    }
  }
}

void tune(Request request) {
  // The file that a link names is written, not put in the link's place.
  std::error_code no_link;
  const std::filesystem::path named = std::filesystem::canonical(request.output, no_link);
  if (!no_link && std::filesystem::is_symlink(request.output)) request.output = named;
  Times times;
  int rank = 0;
  int ranks = 1;
  int hosts = 1;
  unsetenv("RONDO_TUNE_FILE");
  setenv("RONDO_DETERMINISTIC", "0", 1);  // every algorithm is measured; it binds the table's use
  for (const plan::Algorithm algorithm : algorithms()) {
    const std::string name(plan::name(algorithm));
    setenv("NCCL_ALGO", name.c_str(), 1);
    // Room for a part of an element a rank at the smallest sizes, too.
    Bench bench(request.bytes_max + 4 * 65536);
    rank = bench.rank();
    ranks = bench.ranks();
    hosts = bench.hosts();
    if (rank == 0 && times.empty()) check_place(request.output);
    if (rank == 0) std::fprintf(stderr, "rondo tune: %s\n", name.c_str());
    measure(request, bench, algorithm, times);
  }
  if (rank != 0) return;
  std::vector<std::string> lines = kept(request.output, ranks, hosts);
  for (std::string& line : rows(times, ranks, hosts)) lines.push_back(std::move(line));
  write(request.output, lines);
  std::printf("wrote %s: use it with RONDO_TUNE_FILE=%s on every rank\n", request.output.c_str(),
              std::filesystem::absolute(request.output).c_str());
}

}  // namespace

void add_tune_command(CLI::App& app) {
  auto request = std::make_shared<Request>();  // shared with the callback, which CLI11 copies
  CLI::App* const command = app.add_subcommand("tune", "Measure every algorithm on these ranks, write which to use");
  command->add_option("-o,--output", request->output, "The table (rondo.tune); rows of other shapes in it are kept");
  command->add_option("--bytes-max", request->bytes_max, "The largest size (64 MiB)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::size_t{8}, std::size_t{1} << 32));
  command->add_option("--round-ms", request->round_ms, "About how long each algorithm is timed at each size (5)")
      ->check(CLI::Range(1, 10'000));
  command->callback([request] {
    try {
      tune(*request);
    } catch (const std::exception& trouble) {
      std::fprintf(stderr, "rondo tune: %s\n", trouble.what());
      throw CLI::RuntimeError(1);
    }
  });
}
