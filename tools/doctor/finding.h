// What the doctor finds: one sentence each for what is, why, and what to do.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace rondo::doctor {

enum class Level {
  good,     // as it should be
  note,     // worth knowing: slower than it could be, or an oddity
  problem,  // something will not work, or not as it was meant
};

struct Finding {
  Level level = Level::good;
  std::string subject;  // "limits", "shared memory", "pairs", ...
  std::string what;
  std::string cause = {};  // of notes and problems
  std::string fix = {};
};

using Findings = std::vector<Finding>;
using nlohmann::json;

}  // namespace rondo::doctor
