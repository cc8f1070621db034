// A line chart as SVG: sizes in bytes along a logarithmic axis, one line a series, a legend.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace rondo::plot {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // bytes (> 0), value; in ascending order of bytes
};

struct Chart {
  std::string title;
  std::string value_name;    // with its unit
  bool logarithmic = false;  // the values' axis; values must be > 0 then
  std::vector<Series> series;
};

/// At least one series with a point; more than 8 series repeat the colours.
std::string draw(const Chart& chart);

}  // namespace rondo::plot
