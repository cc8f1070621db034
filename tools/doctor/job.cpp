// Over the public interface only: what a user's program could measure too.  See job.h.
#include "tools/doctor/job.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>

namespace rondo::doctor {
namespace {

void expect(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  const char* const sentence = ncclGetLastError(nullptr);
  const bool said = sentence != nullptr && *sentence != '\0';
  throw std::runtime_error(said ? sentence : std::string(what) + ": " + ncclGetErrorString(result));
}

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(ranks[first]);
    if (last > first) text.append("-").append(std::to_string(ranks[last]));
    first = last + 1;
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + text;
}

namespace {

/// value: the ranks that have it.
std::map<std::string, std::vector<int>> by_value(const std::vector<json>& facts, auto value) {
  std::map<std::string, std::vector<int>> groups;
  for (std::size_t rank = 0; rank < facts.size(); ++rank) groups[value(facts[rank])].push_back(static_cast<int>(rank));
  return groups;
}

std::string plain(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

void compare(const std::vector<json>& facts, Finding finding, Findings& findings, auto value) {
  const auto groups = by_value(facts, value);
  if (groups.size() < 2) return;
  for (const auto& [text, ranks] : groups) {
    finding.what += &text == &groups.begin()->first ? ": " : "; ";
    finding.what += text + " on " + ranks_text(ranks);
  }
  findings.push_back(std::move(finding));
}

constexpr std::size_t small_bytes = 8;
constexpr std::size_t large_bytes = 4 << 20;
constexpr int small_rounds = 200;
constexpr int large_rounds = 8;

/// Seconds of a round trip of `bytes`, the best of `rounds`.
double round_trip_s(ncclComm_t comm, bool first, int peer, std::vector<std::byte>& buffer, std::size_t bytes,
                    int rounds) {
  double best = 1e9;
  for (int i = 0; i < rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (first) expect(ncclSend(buffer.data(), bytes, ncclInt8, peer, comm, nullptr), "ncclSend");
    expect(ncclRecv(buffer.data(), bytes, ncclInt8, peer, comm, nullptr), "ncclRecv");
    if (!first) expect(ncclSend(buffer.data(), bytes, ncclInt8, peer, comm, nullptr), "ncclSend");
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

std::string speed_text(const PairSpeed& pair) {
  char text[96];
  std::snprintf(text, sizeof text, "%.1f us, %.2f GB/s", pair.latency_us, pair.gigabytes_per_s);
  return text;
}

}  // namespace

bool in_a_job() {
  const char* const variables[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_STEP_ID"};
  return std::any_of(std::begin(variables), std::end(variables), [](const char* name) { return std::getenv(name); });
}

std::vector<json> gather(ncclComm_t comm, int rank, int ranks, const json& mine) {
  const std::string text = mine.dump();
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<std::uint64_t> sizes(count);
  const std::uint64_t size = text.size();
  expect(ncclAllGather(&size, sizes.data(), 1, ncclUint64, comm, nullptr), "ncclAllGather");
  const std::size_t widest = *std::max_element(sizes.begin(), sizes.end());
  std::vector<char> all(widest * count);
  char* const own = all.data() + widest * static_cast<std::size_t>(rank);
  std::copy(text.begin(), text.end(), own);
  expect(ncclAllGather(own, all.data(), widest, ncclChar, comm, nullptr), "ncclAllGather");
  std::vector<json> values;
  for (std::size_t i = 0; i < count; ++i) {
    const char* const begin = all.data() + i * widest;
    values.push_back(json::parse(begin, begin + sizes[i]));
  }
  return values;
}

std::vector<PairSpeed> measure_pairs(ncclComm_t comm, int rank, int ranks) {
  std::vector<PairSpeed> speeds;
  std::vector<std::byte> buffer(large_bytes);
  const long pairs = static_cast<long>(ranks) * (ranks - 1) / 2;
  const long stride = std::max(1L, (pairs + pairs_max - 1) / pairs_max);
  long number = 0;
  for (int first = 0; first < ranks; ++first) {
    for (int second = first + 1; second < ranks; ++second) {
      if (number++ % stride != 0) continue;
      if (rank == first || rank == second) {
        const bool starts = rank == first;
        const int peer = starts ? second : first;
        const double small_s = round_trip_s(comm, starts, peer, buffer, small_bytes, small_rounds);
        const double large_s = round_trip_s(comm, starts, peer, buffer, large_bytes, large_rounds);
        if (starts) speeds.push_back({first, second, small_s / 2 * 1e6, 2 * large_bytes / large_s / 1e9});
      }
      float turn = 0;  // the next pair starts when this one is done
      expect(ncclAllReduce(&turn, &turn, 1, ncclFloat, ncclSum, comm, nullptr), "ncclAllReduce");
    }
  }
  return speeds;
}

Findings compare_ranks(const std::vector<json>& facts) {
  Findings findings;
  std::string hosts;
  for (const auto& [host, ranks] : by_value(facts, [](const json& f) { return plain(f["host"]); })) {
    if (!hosts.empty()) hosts += "; ";
    hosts += host + ": " + ranks_text(ranks);
  }
  findings.push_back({Level::good, "job", std::to_string(facts.size()) + " ranks found each other (" + hosts + ")"});
  const auto same = [&](Level level, const char* what, const char* cause, const char* fix, const char* key) {
    compare(facts, {level, "job", what, cause, fix}, findings, [key](const json& f) { return plain(f[key]); });
  };
  same(Level::problem, "versions of Rondo differ", "ranks load different libraries",
       "install one version on all hosts, and look at LD_LIBRARY_PATH", "version");
  same(Level::problem, "users differ", "ranks of one job run as different users", "start all as one user", "user");
  same(Level::note, "kernels differ", "hosts are not alike", "none needed", "kernel");
  same(Level::note, "numbers of usable processors differ", "hosts or bindings are not alike",
       "all ranks wait for the slowest: bind them alike", "processors");
  std::map<std::string, bool> names;
  for (const json& one : facts) {
    for (const auto& [name, value] : one["variables"].items()) names[name] = true;
  }
  for (const auto& [name, _] : names) {
    compare(facts,
            {Level::problem, "job", name + " differs", "the variable is not set alike for all ranks",
             "pass it through the launcher: rondo run --env, mpirun -x, srun --export"},
            findings, [&name = name](const json& f) {
              const json& set = f["variables"];
              return set.contains(name) ? plain(set[name]) : std::string("(unset)");
            });
  }
  return findings;
}

Findings check_pairs(const std::vector<PairSpeed>& pairs, const std::vector<json>& facts) {
  Findings findings;
  const auto host = [&](int rank) { return plain(facts[static_cast<std::size_t>(rank)]["host"]); };
  for (const bool inside : {true, false}) {
    std::vector<PairSpeed> kind;
    for (const PairSpeed& pair : pairs) {
      if ((host(pair.first) == host(pair.second)) == inside) kind.push_back(pair);
    }
    if (kind.empty()) continue;
    const auto slower = [](const PairSpeed& a, const PairSpeed& b) { return a.gigabytes_per_s < b.gigabytes_per_s; };
    std::sort(kind.begin(), kind.end(), slower);
    const PairSpeed median = kind[kind.size() / 2];
    const std::string where = inside ? "inside a host" : "between hosts";
    findings.push_back({Level::good, "pairs",
                        std::to_string(kind.size()) + (kind.size() == 1 ? " pair " : " pairs ") + where + ": median " +
                            speed_text(median) + " (slowest: ranks " + std::to_string(kind[0].first) + " and " +
                            std::to_string(kind[0].second) + ", " + speed_text(kind[0]) + ")"});
    for (const PairSpeed& pair : kind) {
      if (pair.gigabytes_per_s * 4 > median.gigabytes_per_s) break;
      findings.push_back({Level::note, "pairs",
                          "ranks " + std::to_string(pair.first) + " (" + host(pair.first) + ") and " +
                              std::to_string(pair.second) + " (" + host(pair.second) + ") " + where + ": " +
                              speed_text(pair) + ", less than a quarter of the median",
                          "a slower interface or link, or a busy host",
                          "compare NCCL_DEBUG=INFO of both ranks: which interface, which transport"});
    }
  }
  return findings;
}

}  // namespace rondo::doctor
