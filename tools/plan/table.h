// Which schedule wins where, by the cost model: a table and a plot over ranks and sizes.
#pragma once

#include <string>

namespace rondo::tools {

/// A Markdown table for each collective and network.  Writes plots of all-reduce to `svg` unless it is empty; false if
/// that cannot be written.
bool print_table(const std::string& svg);

}  // namespace rondo::tools
