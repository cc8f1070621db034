// The curves of a run as one SVG file: a chart for each kind of value (the name up to its '/'), a line for each split.
#pragma once

#include <span>
#include <string>

#include "tools/trainer/report/journal.h"

namespace rondo::report {

/// Values by step, in the order of the rows; of more than 500 points of a line, means of neighbours.  Values that
/// aren't finite are left out; charts without a point too.  An empty string if nothing is left.
std::string curves_svg(std::span<const Row> rows, const std::string& title);

/// The rows of a file that json_lines() wrote; throws std::runtime_error with a sentence where it can't be read.
std::vector<Row> rows_of(const std::string& path);

}  // namespace rondo::report
