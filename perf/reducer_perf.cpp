// Measures the reduction kernels alone: every type and operator, beside memcpy of the same bytes and, for the sums, the
// hand-written float32 loop of limits_loops.h.  One thread.  GB/s are bytes of one target per second; each figure is
// the fastest of several rounds, in which kernel, memcpy and loop take turns.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/host_reducer.h"
#include "limits_loops.h"

namespace {

using namespace rondo;

constexpr const char* type_names[data_type_count] = {"int8", "uint8", "int32",  "uint32",   "int64",  "uint64",
                                                     "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"};
constexpr const char* operator_names[operator_count] = {"sum", "prod", "max", "min", "avg", "mulsum"};

struct Options {
  std::vector<std::size_t> sizes{8, 64, 4096, 61440, 1 << 20, 64 << 20};
  std::vector<std::string> types;
  std::vector<std::string> operators;
  std::string instruction_set;
  std::string csv;
  int sources = 2;
  int targets = 1;
  int unalign = 0;
  int rounds = 7;
  int round_us = 1000;
};

struct Buffers {
  std::vector<std::byte*> sources, targets;
  std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> memory;

  /// Each buffer is aligned to a page, then moved by `unalign` bytes and by some cache lines of its own.
  Buffers(const Options& options, std::size_t bytes) {
    for (int k = 0; k < options.sources + options.targets; ++k) {
      const std::size_t shift = 1344 * static_cast<std::size_t>(k) + static_cast<std::size_t>(options.unalign);
      const std::size_t all = (bytes + shift + 8191) / 4096 * 4096;
      memory.emplace_back(static_cast<std::byte*>(std::aligned_alloc(4096, all)), &std::free);
      std::memset(memory.back().get(), k + 1, all);
      (k < options.sources ? sources : targets).push_back(memory.back().get() + shift);
    }
  }
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds a call, over enough calls to fill a round.
template <class Function>
double time_round(Function&& function, int calls) {
  const double begin = seconds_now();
  for (int i = 0; i < calls; ++i) {
    function();
    asm volatile("" ::: "memory");
  }
  return (seconds_now() - begin) / calls;
}

struct Row {
  double kernel = 1e9, memory_copy = 1e9, loop = 1e9;  // seconds a call
};

Row measure(const Options& options, const Reducer& reducer, DataType type, Operator op, std::size_t bytes) {
  Buffers buffers(options, bytes);
  const Reduction reduction{type, op, 2, 0};
  std::vector<Source> sources;
  for (std::byte* data : buffers.sources) sources.push_back({data, true});
  const ReduceFunction reduce = reducer.find(type, op);
  const std::size_t elements = bytes / element_bytes(type);
  const auto kernel = [&] {
    reduce(reduction, sources.data(), options.sources, buffers.targets.data(), options.targets, elements, true);
  };
  const auto memory_copy = [&] { std::memcpy(buffers.targets[0], buffers.sources[0], bytes); };
  const auto floats = [](std::byte* data) { return reinterpret_cast<float*>(data); };
  const limits_perf::Loops& loops = limits_perf::loops();
  const auto loop = [&] {
    if (options.sources == 1) {
      loops.copy(floats(buffers.targets[0]), floats(buffers.sources[0]), bytes / 64 * 16);
    } else if (options.targets == 1) {
      loops.sum(floats(buffers.targets[0]), floats(buffers.sources[0]), floats(buffers.sources[1]), bytes / 64 * 16);
    } else {
      loops.sum_two_targets(floats(buffers.targets[0]), floats(buffers.targets[1]), floats(buffers.sources[0]),
                            floats(buffers.sources[1]), bytes / 64 * 16);
    }
  };
  const double once = std::max(time_round(kernel, 2), 1e-9);
  const int calls = std::max(1, static_cast<int>(options.round_us * 1e-6 / once));
  Row row;
  for (int round = 0; round < options.rounds; ++round) {
    row.kernel = std::min(row.kernel, time_round(kernel, calls));
    row.memory_copy = std::min(row.memory_copy, time_round(memory_copy, calls));
    row.loop = std::min(row.loop, time_round(loop, calls));
  }
  return row;
}

int find(const char* const* names, int count, const std::string& name) {
  return static_cast<int>(std::find(names, names + count, name) - names);
}

void run(const Options& options, const HostReducer& reducer, std::FILE* csv) {
  std::printf("# reducer_perf: %s kernels, %d sources, %d targets, unaligned by %d bytes, loop by hand: %s\n",
              std::string(reducer.instruction_set).c_str(), options.sources, options.targets, options.unalign,
              limits_perf::loops().name);
  std::printf("#%11s %9s %7s %12s %9s %12s %12s\n", "size(B)", "type", "redop", "time(ns)", "GB/s", "of memcpy",
              "of loop");
  if (csv) std::fprintf(csv, "size,type,redop,isa,sources,targets,unalign,time_ns,gbps,memcpy_gbps,loop_gbps\n");
  for (std::size_t bytes : options.sizes) {
    for (const std::string& type : options.types) {
      for (const std::string& op : options.operators) {
        const Row row = measure(options, *reducer.reducer, DataType(find(type_names, data_type_count, type)),
                                Operator(find(operator_names, operator_count, op)), bytes);
        const double size = static_cast<double>(bytes), gb = size * 1e-9;
        std::printf("%12zu %9s %7s %12.1f %9.2f %12.2f", bytes, type.c_str(), op.c_str(), row.kernel * 1e9,
                    gb / row.kernel, row.memory_copy / row.kernel);
        bytes % 64 == 0 ? std::printf(" %12.2f\n", row.loop / row.kernel) : std::printf(" %12s\n", "-");
        std::fflush(stdout);
        if (csv) {
          std::fprintf(csv, "%zu,%s,%s,%s,%d,%d,%d,%.2f,%.4f,%.4f,%.4f\n", bytes, type.c_str(), op.c_str(),
                       std::string(reducer.instruction_set).c_str(), options.sources, options.targets, options.unalign,
                       row.kernel * 1e9, gb / row.kernel, gb / row.memory_copy, gb / row.loop);
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::vector<std::string> types(type_names, type_names + data_type_count);
  std::vector<std::string> operators(operator_names, operator_names + operator_count);
  std::vector<std::string> sets;
  for (const HostReducer& reducer : host_reducers()) sets.emplace_back(reducer.instruction_set);
  options.types = types;
  options.operators = operators;
  options.instruction_set = sets.front();

  CLI::App app("Measures the reduction kernels beside memcpy and the plainest loop by hand.");
  app.add_option("-b,--bytes", options.sizes, "bytes a target, a list")->delimiter(',')->check(CLI::Range(1, 1 << 30));
  app.add_option("-d,--type", options.types, "element types, a list")->delimiter(',')->check(CLI::IsMember(types));
  app.add_option("-o,--op", options.operators, "operators, a list")->delimiter(',')->check(CLI::IsMember(operators));
  app.add_option("--isa", options.instruction_set, "instruction set")->check(CLI::IsMember(sets));
  app.add_option("--sources", options.sources, "operands of a call")->check(CLI::Range(1, 64));
  app.add_option("--targets", options.targets, "targets of a call")->check(CLI::Range(1, 64));
  app.add_option("-u,--unalign", options.unalign, "bytes that every buffer is moved by")->check(CLI::Range(0, 4096));
  app.add_option("-n,--rounds", options.rounds, "rounds, of which the fastest counts")->check(CLI::Range(1, 1000));
  app.add_option("--round-us", options.round_us, "microseconds a round")->check(CLI::Range(1, 1000000));
  app.add_option("--csv", options.csv, "also write the table to this file");
  CLI11_PARSE(app, argc, argv);

  const auto reducers = host_reducers();
  const auto chosen = std::find_if(reducers.begin(), reducers.end(), [&](const HostReducer& reducer) {
    return reducer.instruction_set == options.instruction_set;
  });
  std::unique_ptr<std::FILE, decltype(&std::fclose)> csv(nullptr, &std::fclose);
  if (!options.csv.empty()) {
    csv.reset(std::fopen(options.csv.c_str(), "w"));
    if (!csv) {
      std::fprintf(stderr, "reducer_perf: cannot write %s: %s\n", options.csv.c_str(), std::strerror(errno));
      return 1;
    }
  }
  run(options, *chosen, csv.get());
  return 0;
}
