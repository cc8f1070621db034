// Ranges and steps as text, for people: messages of the verifier, `rondo plan`.
#pragma once

#include <string>

#include "plan/plan.h"

namespace rondo::plan {

/// `out[3]`, `in[4..7]`, empty for no range.
std::string text(const Range& range);
/// `recv_reduce_send from 3, here to 1 source in[2]`.
std::string text(const Step& step);

}  // namespace rondo::plan
