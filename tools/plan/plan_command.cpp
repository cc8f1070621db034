// `rondo plan COLLECTIVE ALGORITHM -n RANKS`: each rank's steps as a table, and on demand its proof, cost, drawing.
#include "tools/plan/plan_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/limits.h"
#include "base/result.h"
#include "plan/cost.h"
#include "plan/text.h"
#include "plan/verify.h"
#include "tools/plan/drawing.h"
#include "tools/plan/plan_json.h"
#include "tools/plan/table.h"

namespace {

using nlohmann::json;
using namespace rondo;
using plan::name;

struct Request {
  std::string collective, algorithm, svg;
  int ranks = 0, root = 0;
  std::vector<int> hosts;
  bool verify = false, cost = false, json = false, lends = false, table = false;
  std::uint64_t bytes = 128 << 20;
  std::vector<double> same_host, other_host;  // latency in us, GB/s
};

[[noreturn]] void refuse(const std::string& why) { throw CLI::ValidationError("plan", why); }

plan::Topology topology_of(const Request& request) {
  const int in_hosts = std::accumulate(request.hosts.begin(), request.hosts.end(), 0);
  const int ranks = request.ranks > 0 ? request.ranks : in_hosts;
  if (ranks < 1) refuse("say how many ranks: -n RANKS, or --hosts RANKS,RANKS,...");
  if (!request.hosts.empty() && in_hosts != ranks)
    refuse("--hosts adds up to " + std::to_string(in_hosts) + " ranks, -n says " + std::to_string(ranks));
  if (request.root < 0 || request.root >= ranks)
    refuse("--root must be one of the ranks 0.." + std::to_string(ranks - 1));
  if (request.hosts.empty()) return plan::Topology::one_host(ranks);
  std::vector<std::int32_t> host_of_rank;
  for (int host = 0; host < static_cast<int>(request.hosts.size()); ++host)
    host_of_rank.insert(host_of_rank.end(), request.hosts[host], host);
  return plan::Topology::on_hosts(std::move(host_of_rank));
}

/// A schedule as this command names it.
struct Named {
  std::string collective, algorithm;
  plan::Schedule schedule;
};

std::int32_t receiver(const plan::Topology& topology, int sender) { return (sender + 1) % topology.ranks(); }

/// The root sends, or lends, to the next rank.
template <bool lends>
plan::Plan message(const plan::Topology& topology, int rank, int root) {
  const std::int32_t to = receiver(topology, root);
  plan::Plan plan;
  if (rank == root) plan = plan::send_to(to, lends);
  if (rank == to) plan.strands.push_back(plan::receive_from(root).strands.front());
  return plan;
}

/// All schedules, and a message, of which either side is a call of its own.
const std::vector<Named>& known() {
  static const std::vector<Named> all = [] {
    std::vector<Named> list;
    for (const plan::Schedule& s : plan::schedules())
      list.push_back({std::string(name(s.kind)), std::string(name(s.algorithm)), s});
    const auto one = [](int, int) { return 1; };
    const auto block = [](const plan::Topology&) { return 1; };
    const auto add = [&](const char* algorithm, auto build, bool lends) {
      list.push_back({"send_recv",
                      algorithm,
                      {CollectiveKind::send_recv, plan::Algorithm::direct, build, one, block, block, false, lends}});
    };
    add("send", message<false>, false);
    add("lend", message<true>, true);
    return list;
  }();
  return all;
}

const Named& schedule_of(const Request& request) {
  std::string names;
  for (const Named& each : known()) {
    if (each.collective == request.collective && each.algorithm == request.algorithm) return each;
    names.append("\n  ").append(each.collective).append(" ").append(each.algorithm);
  }
  if (request.algorithm.empty()) refuse("say which collective and which algorithm; there are:" + names);
  refuse("no plan for `" + request.collective + " " + request.algorithm + "`; there are:" + names);
}

// ---- the steps

std::string listed(const std::vector<std::int32_t>& ranks) {
  std::string result;
  for (const std::int32_t rank : ranks) {
    if (!result.empty()) result += " ";
    result += rank == plan::here ? "here" : std::to_string(rank);
  }
  return result.empty() ? "-" : result;
}

void print_steps(const plan::Run& run) {
  std::size_t from_width = 4, to_width = 2;
  for (const plan::Plan& p : run.plans)
    for (const plan::Strand& strand : p.strands)
      for (const plan::Step& s : strand.steps) {
        from_width = std::max(from_width, listed(s.from).size());
        to_width = std::max(to_width, listed(s.to).size());
      }
  for (std::size_t rank = 0; rank < run.plans.size(); ++rank) {
    if (run.plans[rank].strands.empty()) std::printf("\nrank %zu\n  takes no part\n", rank);
    for (std::size_t index = 0; index < run.plans[rank].strands.size(); ++index) {
      const plan::Strand& strand = run.plans[rank].strands[index];
      std::printf("\nrank %zu", rank);
      if (run.plans[rank].strands.size() > 1) std::printf(", strand %zu on lane %d", index, strand.lane);
      std::printf("\n  step  %-21s  %-*s  %-*s  %-11s  %s\n", "operation", static_cast<int>(from_width), "from",
                  static_cast<int>(to_width), "to", "source", "target");
      for (std::size_t i = 0; i < strand.steps.size(); ++i) {
        const plan::Step& s = strand.steps[i];
        std::string target = s.target ? text(s.target) : "-";
        if (s.finish) target += "  finish";
        if (s.reply) target += "  reply";
        std::printf("  %4zu  %-21s  %-*s  %-*s  %-11s  %s\n", i, std::string(name(s.operation)).c_str(),
                    static_cast<int>(from_width), listed(s.from).c_str(), static_cast<int>(to_width),
                    listed(s.to).c_str(), s.source ? text(s.source).c_str() : "-", target.c_str());
      }
    }
  }
}

// ---- the proof

struct Proof {
  plan::Verdict verdict;  // the first that rejects, or the last
  int runs = 0;
  bool left_fold = true;
  std::uint64_t cells = 0;
  std::string mode;  // of the verdict
};

/// Every number of slices, out of place and in place, lends granted and declined, each with the least credits.
Proof prove(const plan::Schedule& schedule, const plan::Run& run) {
  Proof proof;
  std::vector<std::int32_t> everyone(run.collective.ranks);
  std::iota(everyone.begin(), everyone.end(), 0);
  for (int slices = 1; slices <= limits::slices_max; ++slices)
    for (const bool in_place : {false, true})
      for (const bool declined : {false, true}) {
        if (declined && !schedule.lends) continue;
        plan::Options options{.credits = schedule.credits(slices, run.collective.ranks), .slices = slices};
        if (in_place) options.in_place = everyone;
        if (declined) options.lends = [](const plan::LinkName&) { return false; };
        options.expressions = run.collective.ranks <= 16;
        proof.verdict = plan::verify(run, options);
        ++proof.runs;
        proof.left_fold = proof.left_fold && proof.verdict.left_fold;
        proof.cells += proof.verdict.cells;
        proof.mode = std::to_string(slices) + (in_place ? " slices, in place" : " slices, out of place") +
                     (declined ? ", lends declined" : "");
        if (!proof.verdict.ok()) return proof;
      }
  return proof;
}

void print_proof(const plan::Schedule& schedule, const plan::Run& run, const Proof& proof) {
  if (!proof.verdict.ok()) {
    std::printf("\nREJECTED (%s), %s: %s\n", std::string(name(proof.verdict.fault)).c_str(), proof.mode.c_str(),
                proof.verdict.text.c_str());
    return;
  }
  std::printf("\nproved in %d runs: 1..%d slices, 2 tiles, out of place and in place%s, %d..%d credits a link\n",
              proof.runs, limits::slices_max, schedule.lends ? ", lends granted and declined" : "",
              schedule.credits(1, run.collective.ranks), schedule.credits(limits::slices_max, run.collective.ranks));
  std::printf("  %llu results are complete, in their place%s; no race, no deadlock, no message left\n",
              static_cast<unsigned long long>(proof.cells),
              run.collective.kind == CollectiveKind::all_reduce ? ", and equal bit for bit on all ranks" : "");
  if (run.collective.reduces())
    std::printf("  order of reduction: %s\n", proof.left_fold ? "left to right over the ranks" : "by block, as below");
  const auto found = proof.verdict.results.find({0, run.collective.root});
  if (found == proof.verdict.results.end()) return;
  const auto& cells = found->second;  // of the last run: slices_max cells a block, two tiles
  for (std::size_t block = 0; block * limits::slices_max * 2 < cells.size(); ++block)
    std::printf("  out[%zu] of rank %d = %s\n", block, run.collective.root, cells[block * limits::slices_max].c_str());
}

// ---- the cost

plan::Parameters parameters_of(const Request& request) {
  plan::Parameters parameters;
  const auto set = [](plan::LinkCost& link, const std::vector<double>& given) {
    if (!given.empty()) link = {given[0] * 1e-6, 1e-9 / given[1]};
  };
  set(parameters.same_host, request.same_host);
  set(parameters.other_host, request.other_host);
  parameters.lends = request.lends;
  return parameters;
}

struct Row {
  std::string algorithm;
  plan::Cost cost;
};

/// The chosen algorithm and its rivals, fastest first.
std::vector<Row> costs(const Named& chosen, const plan::Topology& topology, const Request& request) {
  std::vector<Row> rows;
  for (const Named& each : known())
    if (each.collective == chosen.collective)
      rows.push_back(
          {each.algorithm, plan::cost(each.schedule, topology, request.bytes, parameters_of(request), request.root)});
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.cost.seconds < b.cost.seconds; });
  return rows;
}

void print_costs(const Named& chosen, const Request& request, const std::vector<Row>& rows) {
  std::printf("\ncost of %llu bytes in the model (it ranks, it does not predict)\n",
              static_cast<unsigned long long>(request.bytes));
  std::printf("  %-18s %14s %12s %16s %16s %12s %7s %7s\n", "algorithm", "time us", "algbw GB/s", "link bytes max",
              "rank bytes max", "messages", "tiles", "slices");
  for (const Row& row : rows)
    std::printf(
        "%s %-18s %14.2f %12.2f %16llu %16llu %12llu %7llu %7d\n", row.algorithm == chosen.algorithm ? ">" : " ",
        row.algorithm.c_str(), row.cost.seconds * 1e6, static_cast<double>(request.bytes) / row.cost.seconds / 1e9,
        static_cast<unsigned long long>(row.cost.link_bytes_max),
        static_cast<unsigned long long>(row.cost.rank_bytes_max), static_cast<unsigned long long>(row.cost.messages),
        static_cast<unsigned long long>(row.cost.tiles), row.cost.slices);
}

// ---- all of it

json as_json(const plan::Run& run, const Proof* proof, const std::vector<Row>& rows) {
  json result{{"collective", std::string(name(run.collective.kind))},
              {"ranks", run.collective.ranks},
              {"blocks", run.collective.blocks},
              {"root", run.collective.root},
              {"plans", json::array()}};
  for (const plan::Plan& p : run.plans) result["plans"].push_back(tools::to_json(p));
  if (proof)
    result["verdict"] = {{"fault", std::string(name(proof->verdict.fault))},
                         {"text", proof->verdict.text},
                         {"runs", proof->runs},
                         {"left_fold", proof->left_fold}};
  for (const Row& row : rows)
    result["costs"].push_back({{"algorithm", row.algorithm},
                               {"seconds", row.cost.seconds},
                               {"link_bytes_max", row.cost.link_bytes_max},
                               {"messages", row.cost.messages}});
  return result;
}

void cannot_write(const std::string& path) {
  std::fprintf(stderr, "rondo plan: cannot write %s\n", path.c_str());
  throw CLI::RuntimeError(1);
}

void write_svg(const std::string& path, const plan::Run& run, const std::string& title) {
  std::ofstream file(path);
  file << tools::draw(run, title);
  file.close();
  if (!file) cannot_write(path);
}

void run_request(const Request& request) {
  if (request.table) {
    if (!tools::print_table(request.svg)) cannot_write(request.svg);
    return;
  }
  const Named& named = schedule_of(request);
  const plan::Schedule& schedule = named.schedule;
  const plan::Topology topology = topology_of(request);
  plan::Run run = plan::build_run(schedule, topology, request.root);
  run.collective.peer = receiver(topology, request.root);
  const std::string title = request.collective + " " + request.algorithm + ", " + std::to_string(topology.ranks()) +
                            (topology.ranks() == 1 ? " rank" : " ranks");
  Proof proof;
  if (request.verify || !request.svg.empty()) proof = prove(schedule, run);
  std::vector<Row> rows;
  if (request.cost) rows = costs(named, topology, request);
  if (request.json) {
    std::cout << as_json(run, request.verify ? &proof : nullptr, rows).dump(1) << '\n';
  } else {
    std::printf("%s\n", title.c_str());
    print_steps(run);
    if (request.verify) print_proof(schedule, run, proof);
    if (request.cost) print_costs(named, request, rows);
  }
  if (!proof.verdict.ok()) throw CLI::RuntimeError(1);
  if (!request.svg.empty()) write_svg(request.svg, run, title);
}

}  // namespace

void add_plan_command(CLI::App& app) {
  auto request = std::make_shared<Request>();  // shared with the callback, which outlives this function
  CLI::App* command = app.add_subcommand("plan", "Print, verify, cost and draw the plan of a collective");
  command->add_option(
      "collective", request->collective,
      "all_reduce, reduce_scatter, all_gather, broadcast, reduce, gather, scatter, all_to_all, send_recv");
  command->add_option("algorithm", request->algorithm, "A wrong one gets the list");
  command->add_option("-n,--ranks", request->ranks, "Number of ranks")->check(CLI::Range(1, 4096));
  command->add_option("--root", request->root,
                      "Root of a rooted collective; of send_recv the sender, to the next rank");
  command->add_option("--hosts", request->hosts, "Ranks on each host: 2,2")->delimiter(',')->check(CLI::PositiveNumber);
  command->add_flag("--verify", request->verify, "Prove it, and say what was proved");
  command->add_flag("--cost", request->cost, "Cost it, beside its rivals");
  command->add_option("--bytes", request->bytes, "Buffer of the cost: 128M")->transform(CLI::AsSizeValue(false));
  command->add_option("--same-host", request->same_host, "Links within a host: latency in us, GB/s")
      ->delimiter(',')
      ->expected(2)
      ->check(CLI::PositiveNumber);
  command->add_option("--other-host", request->other_host, "Links between hosts: latency in us, GB/s")
      ->delimiter(',')
      ->expected(2)
      ->check(CLI::PositiveNumber);
  command->add_flag("--lends", request->lends, "Cost with mapped memory (ncclMemAlloc)");
  command->add_flag("--table", request->table, "Instead: which algorithm is the fastest where, by the cost model");
  command->add_option("--svg", request->svg, "Draw it to this file");
  command->add_flag("--json", request->json, "Print JSON");
  command->callback([request] {
    try {
      run_request(*request);
    } catch (const Error& error) {
      std::fprintf(stderr, "rondo plan: %s\n", error.what());
      throw CLI::RuntimeError(1);
    }
  });
}
