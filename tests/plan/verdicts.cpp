// Answers questions of tests/spec/compare.py, one JSON object a line on standard input, one answer a line: the verdict
// on given plans, the plan of a schedule, or (asked nothing) the list of schedules.
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "plan/verify.h"
#include "tools/plan/plan_json.h"

namespace {

using nlohmann::json;
using namespace rondo;
using namespace rondo::plan;

CollectiveKind kind_named(const std::string& text) {
  for (int i = 0; i <= static_cast<int>(CollectiveKind::send_recv); ++i)
    if (name(static_cast<CollectiveKind>(i)) == text) return static_cast<CollectiveKind>(i);
  throw std::invalid_argument("no collective " + text);
}

Run run_from(const json& j) {
  const Collective collective{kind_named(j.at("collective")), j.at("n"), j.at("blocks"), j.at("root"), j.at("peer")};
  Run run{collective, std::vector<Plan>(collective.ranks)};
  for (const auto& [rank, plan] : j.at("plans").items()) run.plans.at(std::stoi(rank)) = tools::plan_from_json(plan);
  return run;
}

json verdict_on(const json& j) {
  std::vector<Run> runs;
  for (const json& run : j.at("runs")) runs.push_back(run_from(run));
  Options options{.credits = j.at("credits"), .slices = j.at("slices"), .tiles = j.at("tiles")};
  options.in_place = j.at("in_place").get<std::vector<std::int32_t>>();
  options.expressions = true;
  const std::string lends = j.at("lends");
  if (lends == "none") options.lends = [](const LinkName&) { return false; };
  if (lends == "some") options.lends = [](const LinkName& link) { return (7 * link.from + link.to) % 3 > 0; };
  const Verdict verdict = verify(runs, options);
  json results = json::object();
  if (verdict.ok())
    for (const auto& [where, cells] : verdict.results)
      results[std::to_string(where.first) + " " + std::to_string(where.second)] = cells;
  return {{"fault", std::string(name(verdict.fault))},
          {"text", verdict.text},
          {"left_fold", verdict.left_fold},
          {"results", results}};
}

json plan_of(const json& j) {
  const Topology topology = Topology::on_hosts(j.at("hosts").get<std::vector<std::int32_t>>());
  for (const Schedule& schedule : schedules())
    if (name(schedule.kind) == j.at("collective") && name(schedule.algorithm) == j.at("algorithm"))
      return tools::to_json(schedule.build(topology, j.at("rank"), j.at("root")));
  throw std::invalid_argument("no such schedule");
}

json shipped() {
  json list = json::array();
  for (const Schedule& schedule : schedules())
    list.push_back({std::string(name(schedule.kind)), std::string(name(schedule.algorithm))});
  return list;
}

json answer(const json& question) {
  if (question.empty()) return shipped();
  return question.contains("runs") ? verdict_on(question) : plan_of(question);
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << answer(json::parse(line)).dump() << '\n';
  }
}
