// Plans as JSON: the writing and the reading of plan_json.h.  Names are those of plan.h.
#include "tools/plan/plan_json.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace rondo::tools {
namespace {

using nlohmann::json;
using plan::Range;
using plan::Space;
using plan::Step;
using plan::Strand;

json range_json(const Range& range) { return {std::string(name(range.space)), range.first, range.count}; }

json step_json(const Step& step) {
  json result{{"operation", std::string(name(step.operation))}};
  if (!step.from.empty()) result["from"] = step.from;
  if (!step.to.empty()) result["to"] = step.to;
  if (step.source) result["source"] = range_json(step.source);
  if (step.target) result["target"] = range_json(step.target);
  if (step.finish) result["finish"] = true;
  if (step.reply) result["reply"] = true;
  return result;
}

/// The enumerator of `count` many whose name is `text`.
template <typename Enum>
Enum named(const std::string& text, int count) {
  for (int i = 0; i < count; ++i)
    if (name(static_cast<Enum>(i)) == text) return static_cast<Enum>(i);
  throw std::invalid_argument("no such name in a plan: " + text);
}

Range range_from(const json& step, const char* key) {
  const auto at = step.find(key);
  if (at == step.end()) return {};
  return {named<Space>(at->at(0), 4), at->at(1), at->at(2)};
}

Step step_from(const json& j) {
  Step step;
  step.operation = named<plan::Operation>(j.at("operation"), plan::operation_count);
  step.from = j.value("from", std::vector<std::int32_t>{});
  step.to = j.value("to", std::vector<std::int32_t>{});
  step.source = range_from(j, "source");
  step.target = range_from(j, "target");
  step.finish = j.value("finish", false);
  step.reply = j.value("reply", false);
  return step;
}

}  // namespace

json to_json(const plan::Plan& plan) {
  json strands = json::array();
  for (const Strand& strand : plan.strands) {
    json steps = json::array();
    for (const Step& step : strand.steps) steps.push_back(step_json(step));
    strands.push_back({{"lane", strand.lane}, {"steps", std::move(steps)}});
  }
  return {{"scratch", plan.scratch_blocks}, {"strands", std::move(strands)}};
}

plan::Plan plan_from_json(const json& j) {
  plan::Plan plan;
  plan.scratch_blocks = j.at("scratch");
  for (const json& strand_json : j.at("strands")) {
    Strand& strand = plan.strands.emplace_back();
    strand.lane = strand_json.at("lane");
    for (const json& step : strand_json.at("steps")) strand.steps.push_back(step_from(step));
  }
  return plan;
}

}  // namespace rondo::tools
