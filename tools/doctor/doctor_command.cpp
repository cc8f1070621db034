// Alone it looks at this host; started as every rank of a job it also joins the others, compares, and measures pairs.
// Rank 0 speaks for all.  Status 0: no problem; 1: problems; 2: a wrong command line.
#include "tools/doctor/doctor_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>

#include "rondo.h"
#include "tools/doctor/host.h"
#include "tools/doctor/job.h"

namespace {

using namespace rondo::doctor;

struct Report {
  std::string title;  // "host a", "ranks 0-3 of a"
  Findings findings;
};

const char* level_name(Level level) {
  switch (level) {
    case Level::good: return "ok";
    case Level::note: return "note";
    default: return "problem";
  }
}

int count(const std::vector<Report>& reports, Level level) {
  int found = 0;
  for (const Report& report : reports) {
    for (const Finding& finding : report.findings) found += finding.level == level ? 1 : 0;
  }
  return found;
}

void print_text(const std::vector<Report>& reports) {
  for (const Report& report : reports) {
    std::printf("%s\n", report.title.c_str());
    for (const Finding& finding : report.findings) {
      std::printf("  %-8s %s: %s\n", level_name(finding.level), finding.subject.c_str(), finding.what.c_str());
      if (!finding.cause.empty()) std::printf("           cause: %s\n", finding.cause.c_str());
      if (!finding.fix.empty()) std::printf("           fix:   %s\n", finding.fix.c_str());
    }
  }
  std::printf("%d problems, %d notes\n", count(reports, Level::problem), count(reports, Level::note));
}

void print_json(const std::vector<Report>& reports, const std::vector<json>& facts,
                const std::vector<PairSpeed>& pairs) {
  json findings = json::array();
  for (const Report& report : reports) {
    for (const Finding& f : report.findings) {
      findings.push_back({{"of", report.title},
                          {"level", level_name(f.level)},
                          {"subject", f.subject},
                          {"what", f.what},
                          {"cause", f.cause},
                          {"fix", f.fix}});
    }
  }
  json speeds = json::array();
  for (const PairSpeed& p : pairs) {
    speeds.push_back({{"ranks", {p.first, p.second}}, {"latency_us", p.latency_us}, {"GB_per_s", p.gigabytes_per_s}});
  }
  const json all = {{"problems", count(reports, Level::problem)},
                    {"notes", count(reports, Level::note)},
                    {"findings", findings},
                    {"pairs", speeds},
                    {"facts", facts}};
  std::printf("%s\n", all.dump(2).c_str());
}

/// One report a distinct set of findings of a host, with the ranks that have it.
std::vector<Report> reports_by_rank(const std::vector<json>& facts) {
  std::vector<Report> reports;
  std::map<std::string, std::size_t> seen;
  std::vector<std::vector<int>> ranks;
  for (std::size_t rank = 0; rank < facts.size(); ++rank) {
    Findings findings = check_host(facts[rank]);
    const std::string host = facts[rank]["host"];
    std::string text = host;
    for (const Finding& f : findings) text += "\n" + f.what;
    const auto [place, fresh] = seen.try_emplace(text, reports.size());
    if (fresh) {
      reports.push_back({host, std::move(findings)});
      ranks.emplace_back();
    }
    ranks[place->second].push_back(static_cast<int>(rank));
  }
  for (std::size_t i = 0; i < reports.size(); ++i)
    reports[i].title = ranks_text(ranks[i]) + " on host " + reports[i].title;
  return reports;
}

/// Joins, gathers, measures.  True: this rank has the reports to print.
bool examine_job(json mine, std::vector<Report>& reports, std::vector<json>& facts, std::vector<PairSpeed>& pairs) {
  ncclComm_t comm = nullptr;
  if (rondoCommInitFromEnv(&comm) != ncclSuccess) throw std::runtime_error(ncclGetLastError(nullptr));
  int rank = 0;
  int ranks = 1;
  (void)ncclCommUserRank(comm, &rank);
  (void)ncclCommCount(comm, &ranks);
  facts = gather(comm, rank, ranks, mine);
  for (json& one : facts) {
    const auto here = [&](const json& other) { return other["host"] == one["host"]; };
    one["ranks"] = ranks;
    one["ranks_here"] = std::count_if(facts.begin(), facts.end(), here);
  }
  json own = json::array();
  for (const PairSpeed& p : measure_pairs(comm, rank, ranks)) {
    own.push_back({p.first, p.second, p.latency_us, p.gigabytes_per_s});
  }
  for (const json& part : gather(comm, rank, ranks, own)) {
    for (const json& p : part) pairs.push_back({p[0], p[1], p[2], p[3]});
  }
  if (ncclCommDestroy(comm) != ncclSuccess) throw std::runtime_error(ncclGetLastError(nullptr));
  if (rank != 0) return false;
  reports = reports_by_rank(facts);
  Findings job = compare_ranks(facts);
  for (Finding& finding : check_pairs(pairs, facts)) job.push_back(std::move(finding));
  reports.push_back({"the job", std::move(job)});
  return true;
}

int examine(bool here_only, bool as_json) {
  std::vector<Report> reports;
  std::vector<json> facts;
  std::vector<PairSpeed> pairs;
  const json mine = host_facts();
  bool speaks = true;
  if (!here_only && in_a_job()) {
    try {
      speaks = examine_job(mine, reports, facts, pairs);
    } catch (const std::exception& trouble) {
      facts = {mine};
      reports = {{"host " + mine["host"].get<std::string>(), check_host(mine)},
                 {"the job",
                  {{Level::problem, "job", trouble.what(), "see the sentence",
                    "compare the output of the ranks; NCCL_DEBUG=INFO tells each step"}}}};
    }
  } else {
    facts = {mine};
    reports = {{"host " + mine["host"].get<std::string>(), check_host(mine)}};
  }
  if (speaks && as_json) print_json(reports, facts, pairs);
  if (speaks && !as_json) print_text(reports);
  return count(reports, Level::problem) > 0 ? 1 : 0;
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  struct Options {
    bool here = false;
    bool as_json = false;
  };
  auto options = std::make_shared<Options>();  // shared with the callback, which CLI11 copies
  CLI::App* const doctor = app.add_subcommand("doctor", "Look for what keeps this host or this job from working");
  doctor->add_flag("--here", options->here, "This host only, although a launcher started this process");
  doctor->add_flag("--json", options->as_json, "Findings, pairs and facts as JSON");
  doctor->callback([options] {
    if (const int status = examine(options->here, options->as_json); status != 0) throw CLI::RuntimeError(status);
  });
}
