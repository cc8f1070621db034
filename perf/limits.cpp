// What this machine allows, measured by the plainest code: copies and sums on one core and on both, and all-reduce of
// two ranks over mapped memory, through shared slots, or by the kernel's copies.  Raw TCP is duplex.cpp's.  Everything
// that is compared takes turns in the same rounds, for a virtual machine's cores move about; figures are medians over
// the rounds.
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "limits_loops.h"
#include "limits_ranks.h"

namespace {

using namespace rondo::limits_perf;

struct Options {
  std::size_t bytes_min = 4096, bytes_max = std::size_t{128} << 20, factor = 8;
  int rounds = 7;
  bool fresh = true;
  bool huge_pages = false;
  std::string csv;
};

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// `kind`: MAP_SHARED, or MAP_PRIVATE for memory of which each process has its own from its first store on.
void* map_memory(std::size_t bytes, bool huge_pages, int kind = MAP_SHARED) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::fprintf(stderr, "limits_perf: no %zu bytes of memory: %s; try a smaller --max\n", bytes, std::strerror(errno));
    std::exit(1);
  }
  if (huge_pages) madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

/// Binds this process to the `index`-th processor that it may use; with fewer, the ranks share.
void bind(int index) {
  cpu_set_t allowed, chosen;
  CPU_ZERO(&chosen);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  int left = index % CPU_COUNT(&allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) && left-- == 0) CPU_SET(cpu, &chosen);
  }
  sched_setaffinity(0, sizeof chosen, &chosen);
}

/// The work of one core: what it does with its own buffer's two halves of `count` floats.
struct Work {
  const char* name;
  void (*run)(float* first, float* second, std::size_t count);
};
const Work works[] = {
    {"memcpy", [](float* a, float* b, std::size_t count) { std::memcpy(a, b, count * sizeof(float)); }},
    {"copy", [](float* a, float* b, std::size_t count) { loops().copy(a, b, count); }},
    {"sum", [](float* a, float* b, std::size_t count) { loops().sum(a, a, b, count); }}};

class Table {
 public:
  explicit Table(const std::string& csv) : file_(csv.empty() ? nullptr : std::fopen(csv.c_str(), "w"), &std::fclose) {
    if (!csv.empty() && !file_) {
      std::fprintf(stderr, "limits_perf: cannot write %s: %s\n", csv.c_str(), std::strerror(errno));
      std::exit(1);
    }
    if (file_) std::fprintf(file_.get(), "what,cores,bytes,time_us,gbps\n");
  }
  void row(const std::string& what, int cores, std::size_t bytes, double us) {
    const double gbps = static_cast<double>(bytes) / us * 1e-3;
    std::printf("%12zu %6d %12s %12.2f %9.2f\n", bytes, cores, what.c_str(), us, gbps);
    std::fflush(stdout);
    if (file_) std::fprintf(file_.get(), "%s,%d,%zu,%.3f,%.3f\n", what.c_str(), cores, bytes, us, gbps);
  }

 private:
  std::unique_ptr<std::FILE, decltype(&std::fclose)> file_;
};

int iterations(std::size_t bytes) {
  return static_cast<int>(std::clamp<std::size_t>((std::size_t{256} << 20) / bytes, 6, 2000));
}

/// Microseconds a call on the slower rank, by rank 0's table.
double slower(Rank& rank, double us) {
  rank.shared().measured_ns[rank.rank()].value.store(static_cast<std::uint64_t>(us * 1e3));
  rank.barrier();
  const double both = static_cast<double>(
      std::max(rank.shared().measured_ns[0].value.load(), rank.shared().measured_ns[1].value.load()));
  rank.barrier();
  return both * 1e-3;
}

/// Copies and sums of `bytes` bytes: alone (`cores` 1: the other rank waits) and both at once.
void measure_cores(Rank& rank, const Options& options, Table& table, float* memory, std::size_t bytes) {
  const std::size_t count = bytes / sizeof(float);
  const int calls = iterations(bytes);
  constexpr std::size_t kinds = std::size(works);
  std::vector<double> times[2][kinds];
  for (int round = 0; round < options.rounds; ++round) {
    for (int cores = 1; cores <= 2; ++cores) {
      for (std::size_t kind = 0; kind < kinds; ++kind) {
        rank.barrier();
        const double begin = now_us();
        for (int call = 0; call < calls && rank.rank() < cores; ++call) {
          works[kind].run(memory, memory + count, count);
          asm volatile("" ::: "memory");
        }
        times[cores - 1][kind].push_back(slower(rank, (now_us() - begin) / calls));
      }
    }
  }
  if (rank.rank() != 0) return;
  for (int cores = 1; cores <= 2; ++cores) {
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      table.row(works[kind].name, cores, bytes, median(times[cores - 1][kind]));
    }
  }
}

/// Time a call of one method; with `fresh` each rank rewrites its buffer before each call, outside the time.
double time_calls(Rank& rank, const Method& method, std::size_t count, int calls, bool fresh) {
  double total = 0;
  if (!fresh) {
    method.all_reduce(rank, count);  // finds the buffers where whoever filled them left them
    rank.barrier();
    const double begin = now_us();
    for (int call = 0; call < calls; ++call) method.all_reduce(rank, count);
    total = now_us() - begin;
  } else {
    for (int call = 0; call < calls; ++call) {
      loops().fill(rank.mine(), 1.0f, count);
      rank.barrier();
      rank.barrier();
      const double begin = now_us();
      method.all_reduce(rank, count);
      total += now_us() - begin;
    }
  }
  return slower(rank, total / calls);
}

/// One call of each method at one size; the number of wrong elements.
std::size_t verify_methods(Rank& rank, std::size_t count, int usable) {
  std::size_t wrong = 0;
  for (int k = 0; k < usable; ++k) {
    rank.use_plain(methods[k].plain);
    loops().fill(rank.mine(), static_cast<float>(1 + rank.rank()), count);
    rank.barrier();
    methods[k].all_reduce(rank, count);
    rank.barrier();
    for (std::size_t i = 0; i < count; ++i) wrong += rank.mine()[i] != 3.0f;
    rank.barrier();
  }
  return wrong;
}

/// The first `usable` methods at one size; the number of wrong elements.
std::size_t measure_methods(Rank& rank, const Options& options, Table& table, std::size_t bytes, int usable) {
  const std::size_t count = bytes / sizeof(float);
  std::vector<double> times[method_count];
  const std::size_t wrong = verify_methods(rank, count, usable);
  for (int round = 0; round < options.rounds; ++round) {
    for (int k = 0; k < usable; ++k) {
      rank.use_plain(methods[k].plain);
      loops().fill(rank.mine(), 0.0f, count);
      times[k].push_back(time_calls(rank, methods[k], count, iterations(bytes), options.fresh));
    }
  }
  if (rank.rank() == 0) {
    for (int k = 0; k < usable; ++k) table.row(std::string(methods[k].name), 2, bytes, median(times[k]));
  }
  return wrong;
}

/// How many methods both ranks can use: all, or all but the last, kernel copies.
int usable_methods(Rank& rank) {
  static_assert(method_count == 6, "kernel copies come last");
  rank.shared().process[rank.rank()] = getpid();
  rank.barrier();
  rank.use_plain(true);
  const bool allowed = kernel_copies(rank);
  if (!allowed) std::fprintf(stderr, "limits_perf: no kernel copies: %s: left out\n", std::strerror(errno));
  return slower(rank, allowed ? 0 : 1) == 0 ? method_count : method_count - 1;
}

int run(Rank& rank, const Options& options) {
  Table table(rank.rank() == 0 ? options.csv : std::string());
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = options.bytes_min; bytes <= options.bytes_max; bytes *= options.factor) {
    sizes.push_back(bytes / 128 * 128);
  }
  if (rank.rank() == 0) {
    std::printf("# limits_perf: loops by hand: %s; %s buffers, %s pages; medians of %d rounds\n", loops().name,
                options.fresh ? "fresh" : "hot", options.huge_pages ? "huge" : "normal", options.rounds);
    std::printf("#%11s %6s %12s %12s %9s\n", "size(B)", "cores", "what", "time(us)", "GB/s");
  }
  const std::size_t own_bytes = 2 * sizes.back();
  auto* memory = static_cast<float*>(map_memory(own_bytes, options.huge_pages));
  loops().fill(memory, 0.0f, own_bytes / sizeof(float));
  for (std::size_t bytes : sizes) measure_cores(rank, options, table, memory, bytes);
  munmap(memory, own_bytes);
  const int usable = usable_methods(rank);
  std::size_t wrong = 0;
  for (std::size_t bytes : sizes) wrong += measure_methods(rank, options, table, bytes, usable);
  if (rank.rank() == 0) std::printf("# wrong: %zu\n", wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Measures what this machine allows: copies, sums, and all-reduce of two ranks by hand.");
  const auto size = CLI::AsSizeValue(false);
  app.add_option("-b,--min", options.bytes_min, "smallest size")->transform(size)->check(CLI::Range(128ul, 1ul << 32));
  app.add_option("-e,--max", options.bytes_max, "largest size")->transform(size)->check(CLI::Range(128ul, 1ul << 32));
  app.add_option("-f,--factor", options.factor, "factor between sizes")->check(CLI::Range(2ul, 1024ul));
  app.add_option("-n,--rounds", options.rounds, "rounds")->check(CLI::Range(1, 1000));
  app.add_option("--fresh", options.fresh, "1: each rank rewrites its buffer before each all-reduce");
  app.add_option("--huge", options.huge_pages, "1: ask for huge pages");
  app.add_option("--csv", options.csv, "also write the table to this file");
  CLI11_PARSE(app, argc, argv);
  if (options.bytes_min > options.bytes_max) {
    std::fprintf(stderr, "limits_perf: --min is larger than --max\n");
    return 1;
  }
  auto* shared = new (map_memory(sizeof(Shared), false)) Shared;
  float* buffers[2];
  for (float*& buffer : buffers) buffer = static_cast<float*>(map_memory(options.bytes_max, options.huge_pages));
  auto* plain = static_cast<float*>(map_memory(options.bytes_max, options.huge_pages, MAP_PRIVATE));
  const pid_t parent = getpid(), child = fork();
  if (child < 0) {
    std::fprintf(stderr, "limits_perf: fork: %s\n", std::strerror(errno));
    return 1;
  }
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) return 1;
  }
  Rank rank(child == 0 ? 1 : 0, *shared, buffers, plain);
  bind(rank.rank());
  const int result = run(rank, options);
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  return result != 0 || status != 0;
}
