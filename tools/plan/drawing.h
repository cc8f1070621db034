// A plan as a picture: ranks are columns, time runs downwards, arrows are messages.
#pragma once

#include <string>

#include "plan/verify.h"

namespace rondo::tools {

/// An SVG document.  Each step stands one row below the last of those it waits for; readable up to about 16 ranks.
/// The run must have been verified.
std::string draw(const plan::Run& run, const std::string& title);

}  // namespace rondo::tools
