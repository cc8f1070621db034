// One line a file; of a file with several types, operators or roots, one line each.  Statuses: 0; 1: a file that can't
// be read, written or understood; 2: a wrong command line.
#include "tools/plot/plot_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/plot/chart.h"

namespace {

using namespace rondo::plot;

struct Request {
  std::vector<std::string> files;
  std::string output = "plot.svg";
  std::string column = "busbw";
  std::string title;
  bool out_of_place = false;
};

constexpr const char* header = "size,count,type,redop,root,in_place,time_us,algbw,busbw,wrong";

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream stream(line);
  for (std::string field; std::getline(stream, field, ',');) fields.push_back(field);
  return fields;
}

/// The lines of one file by type, operator and root; where only one of the halves is there, that one.
std::map<std::string, Series> read(const std::string& path, const Request& request) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::string line;
  if (!std::getline(file, line) || line != header) {
    throw std::runtime_error(path + " is not what a performance program writes with --csv: its first line must be " +
                             header);
  }
  const std::size_t column = request.column == "time_us" ? 6 : request.column == "algbw" ? 7 : 8;
  std::map<std::string, Series> halves[2];
  for (int number = 2; std::getline(file, line); ++number) {
    const std::vector<std::string> fields = fields_of(line);
    try {
      if (fields.size() < 9) throw std::invalid_argument("too short");
      const double bytes = std::stod(fields[0]);
      const double value = std::stod(fields[column]);
      if (!std::isfinite(bytes) || !std::isfinite(value)) throw std::invalid_argument("no number");
      if (bytes <= 0) continue;  // the axis is logarithmic
      const std::string kind = fields[2] + " " + fields[3] + (fields[4] == "-1" ? "" : " root " + fields[4]);
      halves[fields[5] == "1"][kind].points.emplace_back(bytes, value);
    } catch (const std::exception&) {
      throw std::runtime_error(path + ", line " + std::to_string(number) + ": not a row of a table: " + line);
    }
  }
  auto& wanted = halves[request.out_of_place ? 0 : 1];
  return wanted.empty() ? halves[request.out_of_place ? 1 : 0] : wanted;
}

Chart chart_of(const Request& request) {
  Chart chart;
  chart.title = request.title;
  chart.logarithmic = request.column == "time_us";
  chart.value_name = chart.logarithmic ? "time, us" : request.column + ", GB/s";
  for (const std::string& path : request.files) {
    std::map<std::string, Series> kinds = read(path, request);
    const std::string name = std::filesystem::path(path).stem().string();
    for (auto& [kind, series] : kinds) {
      series.name = kinds.size() == 1 ? name : name + ": " + kind;
      std::sort(series.points.begin(), series.points.end());
      chart.series.push_back(std::move(series));
    }
  }
  if (chart.series.empty()) throw std::runtime_error("there is nothing to draw: no row has a size above 0");
  return chart;
}

void plot(const Request& request) {
  const std::string svg = draw(chart_of(request));
  std::ofstream file(request.output);
  file << svg;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + request.output);
  std::printf("wrote %s\n", request.output.c_str());
}

}  // namespace

void add_plot_command(CLI::App& app) {
  auto request = std::make_shared<Request>();  // shared with the callback, which CLI11 copies
  CLI::App* const command = app.add_subcommand("plot", "Draw bandwidth or time by size, from --csv files, as SVG");
  command->add_option("FILE", request->files, "What a performance program wrote with --csv")->required();
  command->add_option("-o,--output", request->output, "The SVG file (plot.svg)");
  command->add_option("--column", request->column, "busbw (default), algbw or time_us")
      ->check(CLI::IsMember({"busbw", "algbw", "time_us"}));
  command->add_option("--title", request->title, "Above the chart");
  command->add_flag("--out-of-place", request->out_of_place, "Those rows rather than those in place");
  command->callback([request] {
    try {
      plot(*request);
    } catch (const std::exception& trouble) {
      std::fprintf(stderr, "rondo plot: %s\n", trouble.what());
      throw CLI::RuntimeError(1);
    }
  });
}
