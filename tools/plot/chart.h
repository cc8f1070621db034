// A line chart as SVG, one line a series, a legend: sizes in bytes along a logarithmic axis, or numbers along a linear
// one.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace rondo::plot {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // place, value; in ascending order of places
};

/// What the horizontal axis counts.
enum class Place {
  bytes,   // > 0, logarithmic
  number,  // linear, from 0 or below
};

struct Chart {
  std::string title;
  std::string value_name;    // with its unit
  bool logarithmic = false;  // the values' axis; values must be > 0 then
  Place place = Place::bytes;
  std::string place_name = "size";
  std::vector<Series> series;
};

/// At least one series with a point; more than 8 series repeat the colours.
std::string draw(const Chart& chart);

/// Several in one picture, one below the other.
std::string draw_all(std::span<const Chart> charts);

}  // namespace rondo::plot
