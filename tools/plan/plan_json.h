// Plans as JSON, both ways.  A step is an object that leaves out what it has not; `here` is -1; a range is
// [space, first, count].
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "plan/plan.h"

namespace rondo::tools {

nlohmann::json to_json(const plan::Plan& plan);
/// Throws nlohmann::json::exception or std::invalid_argument on anything that is not a plan.
plan::Plan plan_from_json(const nlohmann::json& json);

}  // namespace rondo::tools
