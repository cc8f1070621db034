// The table of the cost model: every schedule at every size and number of ranks on a few networks; the fastest one.
//
// Those with the least work go first.  Most others cannot win, as one rank's ports alone are busy for longer than the
// fastest run takes, and are not run; nor are runs of more than `work_max` steps or messages, of which the cell says
// so.
#include "tools/plan/table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <vector>

#include "plan/cost.h"
#include "plan/layout.h"

namespace rondo::tools {
namespace {

using plan::Algorithm;
using plan::name;
using plan::Schedule;

struct Network {
  const char* name;
  int ranks_a_host;  // 0: all on one
  plan::LinkCost other_host;
};
constexpr std::array networks{
    Network{"shared memory", 0, {}},
    Network{"10 Gbit/s, a rank a host", 1, {15e-6, 1 / 1.25e9, 1.5e-6}},
    Network{"100 Gbit/s, a rank a host", 1, {5e-6, 1 / 12.5e9, 1e-6}},
    Network{"100 Gbit/s, 8 ranks a host", 8, {5e-6, 1 / 12.5e9, 1e-6}},
};
constexpr std::array ranks_shown{2, 4, 8, 16, 64, 256, 1024, 4096};
constexpr std::array<std::uint64_t, 8> sizes{8, 512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20, 64 << 20};
constexpr double work_max = 12e6;
constexpr double near = 1.01;  // within this of the fastest is as fast

std::string size_text(std::uint64_t bytes) {
  if (bytes >= 1 << 20) return std::to_string(bytes >> 20) + " MiB";
  if (bytes >= 1 << 10) return std::to_string(bytes >> 10) + " KiB";
  return std::to_string(bytes) + " B";
}

plan::Topology topology_of(const Network& network, int ranks) {
  if (network.ranks_a_host == 0) return plan::Topology::one_host(ranks);
  std::vector<std::int32_t> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(rank / network.ranks_a_host);
  return plan::Topology::on_hosts(std::move(hosts));
}

plan::Cut cut_of(const Schedule& schedule) {
  plan::Cut cut;
  if (schedule.lanes > 1) cut.slot_bytes = limits::second_slot_bytes;
  return cut;
}

/// How long a rank's port is busy, with its own host and with others.
struct Busy {
  double inside = 0, outside = 0;
};

/// What can be said of a schedule without running it.
struct Estimate {
  double work = 0;     // messages or steps of the ranks that are run, about
  double seconds = 0;  // no run takes less: what the ports of one rank are busy
};

Estimate estimate(const Schedule& schedule, const plan::Topology& topology, std::uint64_t bytes,
                  const plan::Parameters& parameters) {
  const int ranks = topology.ranks();
  const std::int32_t blocks = schedule.blocks(topology);
  const plan::Collective collective{schedule.kind, ranks, blocks, 0, 0};
  Estimate result;
  const int run = plan::ranks_run(schedule, topology);
  const std::array others{1, ranks / 3, ranks / 2, 2 * ranks / 3, ranks - 1};
  for (int sample = -1; sample < static_cast<int>(others.size()); ++sample) {
    const int rank = sample < 0 ? 0 : others[sample];
    const plan::Plan plan = schedule.build(topology, rank, 0);
    const plan::Shape shape = plan::shape_of(collective, plan, schedule.widest(topology));
    const double block = static_cast<double>(bytes) / (shape.segmented ? ranks : blocks);
    const plan::Layout layout(shape, static_cast<std::uint64_t>(shape.segmented ? std::ceil(block) : bytes),
                              DataType::uint8, parameters.cut);
    const double parts = static_cast<double>(layout.tiles()) * layout.slices();
    double steps = 0, sends = 0;
    Busy egress, ingress;
    const auto add = [&](Busy& port, std::int32_t peer, double carried) {
      const bool same_host = topology.host_of_rank[peer] == topology.host_of_rank[rank];
      const plan::LinkCost& link = same_host ? parameters.same_host : parameters.other_host;
      (same_host ? port.inside : port.outside) += parts * link.seconds_per_message + carried * link.seconds_per_byte;
    };
    for (const plan::Strand& strand : plan.strands) {
      steps += static_cast<double>(strand.steps.size()) * parts;
      for (const plan::Step& step : strand.steps) {
        if (step.operation == plan::Operation::wait) continue;
        const double carried = block * std::max(step.source.count, step.target.count);
        for (const std::int32_t peer : step.from)
          if (peer != plan::here && peer != rank) {
            add(ingress, peer, carried);
            if (step.reply) add(egress, peer, carried);
          }
        for (const std::int32_t peer : step.to) {
          if (peer == rank) continue;
          add(egress, peer, carried);
          sends += parts;
        }
      }
    }
    result.work += std::max(sends, steps) * (sample < 0 ? 1 : (run - 1) / static_cast<double>(others.size()));
    result.seconds = std::max({result.seconds, egress.inside, egress.outside, ingress.inside, ingress.outside});
  }
  return result;
}

struct Cell {
  std::vector<Algorithm> fastest;  // the first, and those as fast
  bool complete = true;            // no schedule that was left out could be faster
};

Cell find_fastest(CollectiveKind kind, const Network& network, int ranks, std::uint64_t bytes) {
  const plan::Topology topology = topology_of(network, ranks);
  const bool several = topology.hosts().size() > 1;
  plan::Parameters parameters;
  if (several) parameters.other_host = network.other_host;
  struct Candidate {
    const Schedule* schedule;
    Estimate estimate;
  };
  std::vector<Candidate> candidates;
  for (const Schedule& schedule : plan::schedules()) {
    if (schedule.kind != kind) continue;
    if (schedule.algorithm == Algorithm::hierarchical && !several) continue;  // the ring
    parameters.cut = cut_of(schedule);
    candidates.push_back({&schedule, estimate(schedule, topology, bytes, parameters)});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.estimate.work < b.estimate.work; });
  std::vector<std::pair<double, Algorithm>> found;
  double best = std::numeric_limits<double>::infinity(), left_out = best;
  for (const Candidate& candidate : candidates) {
    if (candidate.estimate.seconds > near * best) continue;
    if (candidate.estimate.work > work_max) {
      left_out = std::min(left_out, candidate.estimate.seconds);
      continue;
    }
    parameters.cut = cut_of(*candidate.schedule);
    const Algorithm algorithm = candidate.schedule->algorithm;
    found.emplace_back(plan::cost(*candidate.schedule, topology, bytes, parameters).seconds, algorithm);
    best = std::min(best, found.back().first);
  }
  std::stable_sort(found.begin(), found.end());
  Cell cell;
  cell.complete = left_out > best;
  for (const auto& [seconds, algorithm] : found)
    if (seconds <= near * best) cell.fastest.push_back(algorithm);
  return cell;
}

using Grid = std::map<std::pair<int, std::uint64_t>, Cell>;

void print_grid(const Grid& grid) {
  std::printf("| ranks |");
  for (const std::uint64_t bytes : sizes) std::printf(" %s |", size_text(bytes).c_str());
  std::printf("\n|---:|");
  for (std::size_t i = 0; i < sizes.size(); ++i) std::printf("---|");
  for (const int ranks : ranks_shown) {
    std::printf("\n| %d |", ranks);
    for (const std::uint64_t bytes : sizes) {
      const Cell& cell = grid.at({ranks, bytes});
      const std::string first = cell.fastest.empty() ? "-" : std::string(name(cell.fastest.front()));
      std::printf(" %s%s |", first.c_str(), cell.complete ? "" : "*");
    }
  }
  std::printf("\n\n");
}

std::string colour(Algorithm algorithm) {
  return "hsl(" + std::to_string(static_cast<int>(algorithm) * 137 % 360) + ",55%,72%)";
}

constexpr int cell_width = 108, cell_height = 26, left = 60, panel_height = 44 + 8 * cell_height + 34;

void draw_grid(std::ostream& svg, const Network& network, const Grid& grid, int top) {
  svg << "<text x='" << left << "' y='" << top + 16 << "' font-weight='bold' font-size='14'>" << network.name
      << "</text>\n";
  int y = top + 44;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    svg << "<text x='" << left + (2 * i + 1) * cell_width / 2 << "' y='" << top + 38 << "' text-anchor='middle'>"
        << size_text(sizes[i]) << "</text>\n";
  for (const int ranks : ranks_shown) {
    svg << "<text x='" << left - 8 << "' y='" << y + 17 << "' text-anchor='end'>" << ranks << "</text>\n";
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const Cell& cell = grid.at({ranks, sizes[i]});
      if (cell.fastest.empty()) continue;
      const Algorithm fastest = cell.fastest.front();
      const int x = left + static_cast<int>(i) * cell_width;
      svg << "<rect x='" << x << "' y='" << y << "' width='" << cell_width << "' height='" << cell_height << "' fill='"
          << colour(fastest) << "' stroke='#fff'/><text x='" << x + cell_width / 2 << "' y='" << y + 17
          << "' text-anchor='middle' font-size='10'>" << name(fastest) << (cell.complete ? "" : "*") << "</text>\n";
    }
    y += cell_height;
  }
}

}  // namespace

bool print_table(const std::string& svg_path) {
  std::ostringstream svg;
  const int width = left + static_cast<int>(sizes.size()) * cell_width + 12;
  const int height = static_cast<int>(networks.size()) * panel_height + 12;
  svg << "<svg xmlns='http://www.w3.org/2000/svg' width='" << width << "' height='" << height << "' viewBox='0 0 "
      << width << " " << height << "' font-family='Helvetica, Arial, sans-serif' font-size='11'>\n"
      << "<rect width='100%' height='100%' fill='#fff'/>\n";
  std::set<std::pair<CollectiveKind, Algorithm>> winners;
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter,
                                    CollectiveKind::all_gather, CollectiveKind::broadcast, CollectiveKind::reduce,
                                    CollectiveKind::gather, CollectiveKind::scatter, CollectiveKind::all_to_all}) {
    std::printf("### %s\n\n", std::string(name(kind)).c_str());
    int top = 8;
    for (const Network& network : networks) {
      Grid grid;
      for (const int ranks : ranks_shown)
        for (const std::uint64_t bytes : sizes) {
          Cell& cell = grid[{ranks, bytes}] = find_fastest(kind, network, ranks, bytes);
          for (const Algorithm algorithm : cell.fastest)
            if (cell.complete) winners.emplace(kind, algorithm);
        }
      std::printf("%s:\n\n", network.name);
      print_grid(grid);
      std::fflush(stdout);
      if (kind == CollectiveKind::all_reduce) draw_grid(svg, network, grid, top);
      top += panel_height;
    }
  }
  std::printf("### Never the fastest, nor within 1 %% of it\n\n");
  for (const Schedule& schedule : plan::schedules())
    if (!winners.contains({schedule.kind, schedule.algorithm}))
      std::printf("- %s %s\n", std::string(name(schedule.kind)).c_str(), std::string(name(schedule.algorithm)).c_str());
  if (svg_path.empty()) return true;
  std::ofstream file(svg_path);
  file << svg.str() << "</svg>\n";
  file.close();
  return static_cast<bool>(file);
}

}  // namespace rondo::tools
