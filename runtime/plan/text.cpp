// Ranges and steps as text.
#include "plan/text.h"

namespace rondo::plan {
namespace {

std::string listed(const std::vector<std::int32_t>& ranks) {
  std::string result;
  for (const std::int32_t rank : ranks) {
    if (!result.empty()) result += ", ";
    result += rank == here ? "here" : std::to_string(rank);
  }
  return result;
}

}  // namespace

std::string text(const Range& range) {
  if (!range) return {};
  std::string result(name(range.space));
  result.append("[").append(std::to_string(range.first));
  if (range.count != 1) result.append("..").append(std::to_string(range.first + range.count - 1));
  return result + "]";
}

std::string text(const Step& step) {
  std::string result(name(step.operation));
  if (!step.from.empty()) result += " from " + listed(step.from);
  if (!step.to.empty()) result += " to " + listed(step.to);
  if (step.source) result += " source " + text(step.source);
  if (step.target) result += " target " + text(step.target);
  if (step.finish) result += " finish";
  if (step.reply) result += " reply";
  return result;
}

}  // namespace rondo::plan
