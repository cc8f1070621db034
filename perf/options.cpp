// See options.h.  The only file with CLI11 in it.
#include "options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>

namespace rondo::perf {

namespace {

std::size_t edit_distance(std::string_view one, std::string_view other) {
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::size_t corner = row[0]++;
    for (std::size_t j = 0; j < other.size(); ++j) {
      const std::size_t replaced = corner + (one[i] != other[j]);
      corner = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// "; did you mean 'sum'?", or ";" where nothing is near: a guess at more than half of a word helps nobody.
std::string closest(std::string_view word, const std::vector<std::string>& known) {
  const std::string& nearest = *std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) {
    return edit_distance(word, a) < edit_distance(word, b);
  });
  if (2 * edit_distance(word, nearest) > word.size()) return ";";
  return "; did you mean '" + nearest + "'?";
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// A number of bytes with an optional suffix K, M or G.
std::size_t parse_size(const std::string& flag, const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  std::string_view suffix = end;
  double unit = 1;
  if (!suffix.empty()) {
    const std::size_t power = std::string_view("KMG").find(static_cast<char>(std::toupper(suffix[0])));
    unit = power == std::string_view::npos ? 0 : std::ldexp(1.0, 10 * (static_cast<int>(power) + 1));
    suffix.remove_prefix(1);
  }
  const double bytes = number * unit;
  if (end == text.c_str() || !suffix.empty() || unit == 0 || !(bytes >= 0) || bytes > 0x1p60)
    throw CLI::ValidationError(flag + ": '" + text + "' is not a size such as 8, 64K, 128M or 3G");
  return static_cast<std::size_t>(bytes);
}

// Adds a size option.
CLI::Option* add_size(CLI::App& app, const std::string& flags, std::size_t& target, const std::string& meaning) {
  return app.add_option_function<std::string>(
      flags, [&target, name = flags.substr(0, 2)](const std::string& text) { target = parse_size(name, text); },
      meaning);
}

// The entries of a table with a name, or all of them for "all".
template <typename Entry>
std::vector<Entry> choose(std::string_view flag, std::string_view what, const std::string& word,
                          std::span<const Entry> table) {
  if (word == "all") return {table.begin(), table.end()};
  std::vector<std::string> names = {"all"};
  for (const Entry& entry : table) {
    if (entry.name == word) return {entry};
    names.emplace_back(entry.name);
  }
  throw CLI::ValidationError(std::string(flag) + ": '" + word + "' is no " + std::string(what) + closest(word, names) +
                             "  There are: " + join(names));
}

// Flags of nccl-tests that are about devices, streams and their kernels.
void add_without_effect(CLI::App& app, Options& options) {
  for (const char* flags :
       {"-z,--blocking", "-y,--stream_null", "-G,--cudagraph", "-C,--report_cputime", "-R,--local_register",
        "-x,--cta_policy", "-D,--device_implementation", "-V,--device_cta_count", "-M,--memory_report", "-K,--skip"}) {
    const std::string name = std::string(flags).substr(0, 2);
    app.add_option_function<std::string>(
        flags, [&options, name](const std::string&) { options.without_effect.push_back(name); },
        "Accepted; no effect on host memory");
  }
}

void add_flags(CLI::App& app, Options& options) {
  app.add_option("-t,--nthreads", options.threads, "Threads a process")->check(CLI::Range(1, 1024));
  app.add_option("-g,--ngpus", options.ranks_per_thread, "Ranks a thread")->check(CLI::Range(1, 1024));
  add_size(app, "-b,--minbytes", options.bytes_min, "Smallest size (32M)");
  add_size(app, "-e,--maxbytes", options.bytes_max, "Largest size (32M)");
  add_size(app, "-i,--stepbytes", options.bytes_step, "Step between sizes (1M)");
  add_size(app, "-f,--stepfactor", options.factor, "Factor between sizes, instead of the step");
  app.add_option("-n,--iters", options.iterations, "Timed iterations")->check(CLI::Range(1, 1000000000));
  app.add_option("-w,--warmup_iters", options.warmups, "Iterations before each measurement")
      ->check(CLI::Range(0, 1000000000));
  app.add_option("-m,--agg_iters", options.aggregated, "Calls a group, counted as one iteration's")
      ->check(CLI::Range(1, 1000000));
  app.add_option("-N,--run_cycles", options.cycles, "Times the whole table is run; 0: for ever")
      ->check(CLI::Range(0, 1000000000));
  app.add_option("-p,--parallel_init", options.parallel_init, "Let each thread initialise its own communicators");
  app.add_option("-c,--check", options.checks, "Checked calls a row; 0: none")->check(CLI::Range(0, 1000000));
  app.add_option_function<std::string>(
      "-o,--op",
      [&options](const std::string& word) {
        options.ops.clear();
        for (const NamedOp& op : choose("-o", "operator", word, ops())) options.ops.push_back(op.op);
      },
      "Operator: sum, prod, min, max, avg, mulsum, all");
  app.add_option_function<std::string>(
      "-d,--datatype", [&options](const std::string& word) { options.types = choose("-d", "type", word, types()); },
      "Element type: int8, uint8, int32, ..., half, float, double, bfloat16, f8e4m3, f8e5m2, all");
  app.add_option_function<std::string>(
      "-r,--root",
      [&options](const std::string& word) {
        if (word == "all" || word == "-1")
          options.root = -1;
        else if (!CLI::detail::lexical_cast(word, options.root) || options.root < 0)
          throw CLI::ValidationError("-r: '" + word + "' is no rank and not 'all'");
      },
      "Root where there is one: a rank, or all (each in turn)");
  app.add_option("-T,--timeout", options.timeout_s, "Seconds that a call may wait (sets RONDO_TIMEOUT)")
      ->check(CLI::Range(0, 1000000));
  app.add_option_function<int>(
         "-a,--average", [&options](int value) { options.averaging = static_cast<Averaging>(value); },
         "The time shown: 0 rank 0's, 1 the mean of all ranks' (default), 2 the least, 3 the largest")
      ->check(CLI::Range(0, 3));
  app.add_option("-S,--report_timestamps", options.timestamps, "End each row with the time of day");
  app.add_option("-u,--unalign", options.unaligned, "Elements that buffers are off their alignment")
      ->check(CLI::Range(0, 1024));
  app.add_option("-I,--per_iter_timing", options.per_iteration, "Time each iteration, show least, largest, p99, cv");
  app.add_option("-J,--output_file", options.json_path, "Also write the results as JSON; never over a file");
  add_without_effect(app, options);
  app.add_option("--fresh", options.fresh,
                 "1: every rank rewrites its buffer before every timed call, and calls are timed one by one");
  app.add_option_function<std::string>(
         "--memory",
         [&options](const std::string& word) { options.memory = word == "alloc" ? Memory::alloc : Memory::plain; },
         "Buffers from malloc (plain, the default) or ncclMemAlloc (alloc)")
      ->check(CLI::IsMember({"plain", "alloc"}));
  app.add_option("--min-busbw", options.busbw_min, "GB/s that the average bus bandwidth must reach; else status 1")
      ->check(CLI::Range(0.0, 1e9));
  app.add_option("--csv", options.csv_path, "Also write the results as CSV");
  app.add_option("--algo", options.algorithms, "Measure with each of these algorithms in turn (NCCL_ALGO)")
      ->delimiter(',');
}

// The sentence for words that are no flags of ours.
std::string unknown_flag(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    if (word.size() <= 2)
      for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return "'" + word + "' is no flag of this program" + closest(word.substr(0, word.find('=')), names) +
         "  --help lists all";
}

}  // namespace

bool parse_options(std::string_view program, int argument_count, char** arguments, Options& options, int& status) {
  const char* rank = std::getenv("RANK");
  const bool speaks = rank == nullptr || std::string_view(rank) == "0";
  CLI::App app("Measures a collective in nccl-tests' form.  Run it alone, with -t or -g, or under `rondo run`.",
               std::string(program));
  app.allow_extras();
  options.ops = {Op::sum};
  options.types = choose("-d", "type", "float", types());
  add_flags(app, options);
  try {
    app.parse(argument_count, arguments);
    if (app.remaining_size() > 0) throw CLI::ValidationError(unknown_flag(app, app.remaining().front()));
    if (options.bytes_min > options.bytes_max)
      throw CLI::ValidationError("-b: the smallest size is above the largest; give -e too");
    if (options.factor <= 1 && options.bytes_step == 0 && options.bytes_min < options.bytes_max)
      throw CLI::ValidationError("-i: a step of 0 never reaches the largest size");
    return true;
  } catch (const CLI::CallForHelp&) {
    status = 0;
    if (speaks) std::fputs(app.help().c_str(), stdout);
  } catch (const CLI::ParseError& wrong) {
    status = 2;
    if (speaks) std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(program.size()), program.data(), wrong.what());
  }
  return false;
}

}  // namespace rondo::perf
