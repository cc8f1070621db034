// Charts of tools/plot, one below the other; see curves.h.
#include "tools/trainer/report/curves.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tools/plot/chart.h"

namespace rondo::report {
namespace {

constexpr std::size_t points_max = 500;

using Points = std::vector<std::pair<double, double>>;

Points thinned(const Points& points) {
  const std::size_t together = (points.size() + points_max - 1) / points_max;
  if (together <= 1) return points;
  Points means;
  for (std::size_t first = 0; first < points.size(); first += together) {
    const std::size_t count = std::min(together, points.size() - first);
    std::pair<double, double> sum{0, 0};
    for (std::size_t i = first; i < first + count; ++i) {
      sum.first += points[i].first;
      sum.second += points[i].second;
    }
    means.emplace_back(sum.first / double(count), sum.second / double(count));
  }
  return means;
}

/// The chart of `kind`, made if it is new; and of it the line `name`.
Points& line_of(std::vector<plot::Chart>& charts, const std::string& kind, const std::string& name) {
  auto chart =
      std::find_if(charts.begin(), charts.end(), [&](const plot::Chart& one) { return one.value_name == kind; });
  if (chart == charts.end()) {
    charts.push_back({.value_name = kind, .place = plot::Place::number, .place_name = "step"});
    chart = charts.end() - 1;
  }
  for (plot::Series& series : chart->series) {
    if (series.name == name) return series.points;
  }
  chart->series.push_back({name, {}});
  return chart->series.back().points;
}

}  // namespace

std::string curves_svg(std::span<const Row> rows, const std::string& title) {
  std::vector<plot::Chart> charts;
  for (const Row& row : rows) {
    for (const auto& [name, value] : row.values) {
      if (!std::isfinite(value)) continue;
      const std::size_t slash = name.find('/');
      const std::string split = slash == std::string::npos ? name : name.substr(slash + 1);
      line_of(charts, name.substr(0, slash), split).emplace_back(double(row.step), value);
    }
  }
  if (charts.empty()) return "";
  for (plot::Chart& chart : charts) {
    for (plot::Series& series : chart.series) series.points = thinned(series.points);
  }
  charts.front().title = title;
  return plot::draw_all(charts);
}

std::vector<Row> rows_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<Row> rows;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    try {
      const auto object = nlohmann::ordered_json::parse(line);
      Row row{object.at("step"), object.at("epoch"), {}};
      for (const auto& [name, value] : object.items()) {
        if (name == "step" || name == "epoch" || name == "time" || !value.is_number()) continue;
        row.values.emplace_back(name, value);
      }
      rows.push_back(std::move(row));
    } catch (const nlohmann::json::exception&) {
      throw std::runtime_error(path + ", line " + std::to_string(number) + ": not a row of a journal");
    }
  }
  return rows;
}

}  // namespace rondo::report
