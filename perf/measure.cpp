// See measure.h.  Every thread of every process runs the same loops over its own ranks; what the threads decide from,
// they have exchanged, so that all take the same turns and end with the same status.
#include "measure.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>

#include "buffer.h"
#include "data.h"
#include "options.h"
#include "report.h"
#include "team.h"

namespace rondo::perf {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// One row's parameters.
struct Case {
  Type type;
  Op op;
  int root;
  Counts counts;
  std::size_t element_bytes() const noexcept { return type.bytes; }
  std::size_t send_bytes() const noexcept { return counts.send * type.bytes; }
  std::size_t receive_bytes() const noexcept { return counts.receive * type.bytes; }
  std::size_t row_bytes() const noexcept { return std::max(send_bytes(), receive_bytes()); }
};

/// One rank of this thread: its buffers, and the data of the current type and operator.
struct Seat {
  int rank;
  Buffer send;
  Buffer receive;
  Pattern input;
  ncclRedOp_t op = ncclSum;
};

/// What a rank found in one measurement.
struct Finding {
  double seconds = 0;
  std::uint64_t wrong = 0;
  std::uint64_t out_of_bounds = 0;
  std::uint64_t digest = 0;
};

class Bench {
 public:
  Bench(const Collective& collective, const Options& options, const Team& team);
  /// All cycles of the table; rank 0's thread reports them.
  Summary run(Report* report);

 private:
  void prepare(const Type& type, Op op);
  void retire(Op op);
  Row measure_row(const Case& row, Summary& summary);
  Half measure(const Case& row, bool in_place, Summary& summary);
  void write_inputs(const Case& row, bool in_place);
  void call(const Case& row, bool in_place, int times);
  double time_hot(const Case& row, bool in_place, std::vector<double>& iterations);
  double time_fresh(const Case& row, bool in_place, std::vector<double>& iterations);
  void inspect(const Case& row, bool in_place, std::vector<Finding>& findings);
  std::uint64_t wrong_elements(const Case& row, bool in_place, const Seat& seat) const;
  std::uint64_t touched(const Case& row, bool in_place, const Seat& seat) const;
  IterationTimes slowest(const std::vector<double>& iterations) const;
  double averaged(const std::vector<Finding>& findings) const;

  // In place there is one buffer, and the smaller part lies at the rank's place in the larger.
  std::byte* send_data(const Case& row, bool in_place, const Seat& seat) const {
    if (!in_place) return seat.send.data();
    const bool part = row.counts.send < row.counts.receive;
    return seat.receive.data() + (part ? static_cast<std::size_t>(seat.rank) * row.send_bytes() : 0);
  }
  std::byte* receive_data(const Case& row, bool in_place, const Seat& seat) const {
    const bool part = in_place && row.counts.receive < row.counts.send;
    return seat.receive.data() + (part ? static_cast<std::size_t>(seat.rank) * row.receive_bytes() : 0);
  }

  const Collective& collective_;
  const Options& options_;
  const Team& team_;
  std::vector<Seat> seats_;
  Pattern result_;  // of reductions, for the current type and operator
};

Bench::Bench(const Collective& collective, const Options& options, const Team& team)
    : collective_(collective), options_(options), team_(team) {
  std::size_t widest = 1;
  for (const Type& type : options.types) widest = std::max(widest, type.bytes);
  for (const Member& member : team.members()) {
    seats_.push_back({member.rank,
                      Buffer(options.bytes_max, options.unaligned * widest, options.memory),
                      Buffer(options.bytes_max, options.unaligned * widest, options.memory),
                      {},
                      ncclSum});
  }
}

void Bench::prepare(const Type& type, Op op) {
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    Seat& seat = seats_[i];
    seat.input = input_of(type, op, seat.rank, team_.ranks());
    if (op == Op::mulsum) {
      std::byte scalar[8];
      encode(type, scalar_of(seat.rank), scalar);
      check(ncclRedOpCreatePreMulSum(&seat.op, scalar, type.value, ncclScalarHostImmediate,
                                     team_.members()[i].communicator),
            "ncclRedOpCreatePreMulSum");
    } else {
      constexpr ncclRedOp_t values[] = {ncclSum, ncclProd, ncclMin, ncclMax, ncclAvg};
      seat.op = op == Op::none ? ncclSum : values[static_cast<int>(op)];
    }
  }
  if (collective_.reduces()) result_ = result_of(type, op, team_.ranks());
}

void Bench::retire(Op op) {
  if (op != Op::mulsum) return;
  for (std::size_t i = 0; i < seats_.size(); ++i)
    check(ncclRedOpDestroy(seats_[i].op, team_.members()[i].communicator), "ncclRedOpDestroy");
}

void Bench::write_inputs(const Case& row, bool in_place) {
  for (const Seat& seat : seats_) fill(seat.input, 0, send_data(row, in_place, seat), row.counts.send);
}

void Bench::call(const Case& row, bool in_place, int times) {
  const auto once = [&] {
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      const Seat& seat = seats_[i];
      const Call call{row.counts.count, row.type.value, seat.op, row.root, row.type.bytes};
      check(collective_.call(send_data(row, in_place, seat), receive_data(row, in_place, seat), call,
                             team_.members()[i].communicator),
            collective_.function);
    }
  };
  const bool grouped = times > 1 || seats_.size() > 1;
  if (grouped) check(ncclGroupStart(), "ncclGroupStart");
  for (int i = 0; i < times; ++i) once();
  if (grouped) check(ncclGroupEnd(), collective_.function);
}

double Bench::time_hot(const Case& row, bool in_place, std::vector<double>& iterations) {
  write_inputs(row, in_place);
  team_.barrier();
  const Clock::time_point start = Clock::now();
  Clock::time_point last = start;
  for (int i = 0; i < options_.iterations; ++i) {
    call(row, in_place, options_.aggregated);
    if (!options_.per_iteration) continue;
    const Clock::time_point now = Clock::now();
    iterations.push_back(std::chrono::duration<double, std::micro>(now - last).count() / options_.aggregated);
    last = now;
  }
  return seconds_since(start) / options_.iterations / options_.aggregated;
}

double Bench::time_fresh(const Case& row, bool in_place, std::vector<double>& iterations) {
  double sum = 0;
  for (int i = 0; i < options_.iterations; ++i) {
    write_inputs(row, in_place);
    team_.barrier();
    const Clock::time_point start = Clock::now();
    call(row, in_place, options_.aggregated);
    const double seconds = seconds_since(start) / options_.aggregated;
    sum += seconds;
    if (options_.per_iteration) iterations.push_back(seconds * 1e6);
  }
  return sum / options_.iterations;
}

std::uint64_t Bench::wrong_elements(const Case& row, bool in_place, const Seat& seat) const {
  const std::byte* const data = receive_data(row, in_place, seat);
  const std::size_t count = row.counts.receive;
  const int ranks = team_.ranks();
  const auto input = [&](int rank) { return rank == seat.rank ? seat.input : input_of(row.type, row.op, rank, ranks); };
  const auto place = static_cast<std::size_t>(seat.rank) * count;
  // The send buffer of a call out of place is nobody's to write.
  const std::uint64_t wrong = in_place ? 0 : count_wrong(seat.input, 0, seat.send.data(), row.counts.send);
  if (collective_.only_at_root() && seat.rank != row.root) return wrong + touched(row, in_place, seat);
  switch (collective_.result) {
    case Result::reduced:
    case Result::reduced_at_root: return wrong + count_wrong(result_, 0, data, count);
    case Result::reduced_part: return wrong + count_wrong(result_, place, data, count);
    case Result::root_data: return wrong + count_wrong(input(row.root), 0, data, count);
    case Result::root_part: return wrong + count_wrong(input(row.root), place, data, count);
    case Result::from_previous: return wrong + count_wrong(input((seat.rank + ranks - 1) % ranks), 0, data, count);
    case Result::gathered:
    case Result::gathered_at_root:
    case Result::from_all: break;
  }
  std::uint64_t sum = wrong;
  std::size_t first = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const Part part = collective_.part != nullptr ? collective_.part(row.counts.count, rank, seat.rank, ranks)
                                                  : Part{0, row.counts.send};
    sum += count_wrong(input(rank), part.first, data + first * row.type.bytes, part.count);
    first += part.count;
  }
  return sum;
}

/// Elements that a rank which receives nothing finds changed: the receive buffer still has what inspect() wrote, the
/// one buffer of a call in place the input.
std::uint64_t Bench::touched(const Case& row, bool in_place, const Seat& seat) const {
  if (in_place) return count_wrong(seat.input, 0, send_data(row, in_place, seat), row.counts.send);
  const std::byte* const data = seat.receive.data();
  return static_cast<std::uint64_t>(
      std::count_if(data, data + row.receive_bytes(), [](std::byte b) { return b != std::byte{0xff}; }));
}

void Bench::inspect(const Case& row, bool in_place, std::vector<Finding>& findings) {
  for (Seat& seat : seats_) {
    seat.send.arm(row.send_bytes());
    seat.receive.arm(in_place ? row.row_bytes() : row.receive_bytes());
    std::fill_n(seat.receive.data(), in_place ? row.row_bytes() : row.receive_bytes(), std::byte{0xff});
  }
  write_inputs(row, in_place);
  call(row, in_place, 1);
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    const Seat& seat = seats_[i];
    findings[i].wrong += wrong_elements(row, in_place, seat);
    findings[i].out_of_bounds += seat.send.damaged() + seat.receive.damaged();
    if (collective_.same_everywhere())
      findings[i].digest ^= digest(receive_data(row, in_place, seat), row.receive_bytes());
  }
}

IterationTimes Bench::slowest(const std::vector<double>& iterations) const {
  const std::size_t n = iterations.size();
  std::vector<double> mine;
  for (std::size_t i = 0; i < seats_.size(); ++i) mine.insert(mine.end(), iterations.begin(), iterations.end());
  const std::vector<std::byte> all =
      team_.exchange(reinterpret_cast<const std::byte*>(mine.data()), n * sizeof(double));
  std::vector<double> slowest(n, 0);
  for (std::size_t i = 0; i < all.size() / sizeof(double); ++i) {
    double time;
    std::memcpy(&time, all.data() + i * sizeof time, sizeof time);
    slowest[i % n] = std::max(slowest[i % n], time);
  }
  return summarize(std::move(slowest));
}

double Bench::averaged(const std::vector<Finding>& findings) const {
  double sum = 0, least = std::numeric_limits<double>::infinity(), most = 0;
  for (const Finding& finding : findings) {
    sum += finding.seconds;
    least = std::min(least, finding.seconds);
    most = std::max(most, finding.seconds);
  }
  switch (options_.averaging) {
    case Averaging::rank_0: return findings.front().seconds;
    case Averaging::minimum: return least;
    case Averaging::maximum: return most;
    case Averaging::mean: break;
  }
  return sum / static_cast<double>(findings.size());
}

Half Bench::measure(const Case& row, bool in_place, Summary& summary) {
  write_inputs(row, in_place);
  for (int i = 0; i < options_.warmups; ++i) call(row, in_place, options_.aggregated);
  std::vector<double> iterations;
  const double seconds = options_.fresh ? time_fresh(row, in_place, iterations) : time_hot(row, in_place, iterations);
  std::vector<Finding> mine(seats_.size(), Finding{seconds});
  for (int i = 0; i < options_.checks; ++i) inspect(row, in_place, mine);
  const std::vector<Finding> findings = team_.exchange(mine);

  Half half;
  if (options_.per_iteration) half.iterations = slowest(iterations);
  const double time = averaged(findings);
  half.time_us = time * 1e6;
  const double counted = collective_.counted != nullptr ? collective_.counted(team_.ranks()) : 1;
  half.algbw = counted * static_cast<double>(row.row_bytes()) / 1e9 / time;
  half.busbw = half.algbw * collective_.bus_factor(team_.ranks());
  if (options_.checks == 0) return half;
  half.wrong = 0;
  for (const Finding& finding : findings) {
    const bool differs = finding.digest != findings.front().digest;
    half.wrong = *half.wrong + finding.wrong + (differs && finding.wrong == 0 ? 1 : 0);
    summary.different_ranks += differs;
    summary.out_of_bounds += finding.out_of_bounds;
  }
  summary.wrong += *half.wrong;
  return half;
}

Row Bench::measure_row(const Case& row, Summary& summary) {
  Row result{
      row.row_bytes(), row.counts.count, row.type.name, name(row.op), collective_.rooted() ? row.root : -1, {}, {}, {}};
  result.out_of_place = measure(row, false, summary);
  if (collective_.in_place) result.in_place = measure(row, true, summary);
  result.time_of_day = time_of_day();
  return result;
}

Summary Bench::run(Report* report) {
  Summary summary;
  const std::vector<Op> ops = collective_.reduces() ? options_.ops : std::vector{Op::none};
  const int first_root = std::max(0, options_.root);
  const int last_root = collective_.rooted() && options_.root < 0 ? team_.ranks() - 1 : first_root;
  for (int cycle = 0; options_.cycles == 0 || cycle < options_.cycles; ++cycle) {
    for (const Type& type : options_.types) {
      for (const Op op : ops) {
        prepare(type, op);
        for (int root = first_root; root <= last_root; ++root) {
          for (std::size_t bytes = options_.bytes_min; bytes <= options_.bytes_max;) {
            const Case row{type, op, root, collective_.counts(bytes / type.bytes, type.bytes, team_.ranks())};
            summary.rows.push_back(measure_row(row, summary));
            if (report) report->row(summary.rows.back());
            if (options_.factor <= 1)
              bytes += std::max<std::size_t>(1, options_.bytes_step);
            else
              bytes = bytes == 0 ? type.bytes : bytes * options_.factor;
          }
        }
        retire(op);
      }
    }
  }
  if (report) report->footer(summary);
  return summary;
}

/// What one thread does once its ranks have joined.  Returns the status.
int run_thread(const Collective& collective, const Options& options, const std::vector<std::string>& arguments,
               const Team& team) {
  if (collective.rooted() && options.root >= team.ranks())
    fail("-r " + std::to_string(options.root) + ": there are only " + std::to_string(team.ranks()) + " ranks");
  if (collective.powers_of_two && (team.ranks() & (team.ranks() - 1)) != 0)
    fail("a hypercube needs 1, 2, 4, 8 ... ranks; these are " + std::to_string(team.ranks()));
  const char* local = std::getenv("LOCAL_RANK");
  const int first = team.members().front().rank;
  const int per_process = options.threads * options.ranks_per_thread;
  const int first_device = (local ? std::atoi(local) : first / per_process) * per_process + first % per_process;
  std::vector<Place> mine;
  for (std::size_t i = 0; i < team.members().size(); ++i)
    mine.push_back(place_here(first_device + static_cast<int>(i)));
  Bench bench(collective, options, team);
  std::unique_ptr<Report> report;
  if (team.speaks()) report = std::make_unique<Report>(collective, options, arguments);
  const std::vector<Place> places = team.exchange(mine);
  if (report) report->banner(places);
  const Summary summary = bench.run(report.get());
  return summary.wrong > 0 || summary.out_of_bounds > 0 || summary.different_ranks > 0 ||
         !verdict(options, summary).value_or(true);
}

/// "table.csv", "-ring": "table-ring.csv".
std::string with_suffix(const std::string& path, const std::string& suffix) {
  const std::filesystem::path whole(path);
  return (whole.parent_path() / (whole.stem().string() + suffix + whole.extension().string())).string();
}

}  // namespace

int run(const Collective& collective, int argument_count, char** arguments) {
  Options options;
  int status = 0;
  if (!parse_options(collective.program, argument_count, arguments, options, status)) return status;
  if (std::getenv("NCCL_TESTS_SPLIT") || std::getenv("NCCL_TESTS_SPLIT_MASK"))
    fail("NCCL_TESTS_SPLIT and NCCL_TESTS_SPLIT_MASK need ncclCommSplit, which is not built yet; unset them");
  const std::vector<std::string> words(arguments, arguments + argument_count);
  std::vector<std::string> algorithms = options.algorithms;
  if (algorithms.empty()) algorithms.emplace_back();
  for (const std::string& algorithm : algorithms) {
    Options one = options;
    one.algorithm = algorithm;
    if (!algorithm.empty()) setenv("NCCL_ALGO", algorithm.c_str(), 1);
    if (algorithms.size() > 1 && !one.csv_path.empty()) one.csv_path = with_suffix(one.csv_path, "-" + algorithm);
    run_team(one, [&](const Team& team) {
      const int own = run_thread(collective, one, words, team);
      if (team.members().front().rank % (one.threads * one.ranks_per_thread) == 0) status = std::max(status, own);
    });
  }
  return status;
}

}  // namespace rondo::perf
