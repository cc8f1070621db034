// Axes with round ticks, a polyline and dots with tooltips a series; see chart.h.
#include "tools/plot/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace rondo::plot {
namespace {

constexpr double width = 860;
constexpr double height = 480;
constexpr double left = 80;
constexpr double right = 30;
constexpr double top = 50;
constexpr double bottom = 70;
constexpr std::size_t dots_max = 60;  // of a line: more would hide it
constexpr std::array colours{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#222222", "#999933"};

std::string escaped(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    switch (letter) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '\'': result += "&#39;"; break;
      default: result += letter;
    }
  }
  return result;
}

std::string number(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string size_text(double bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < units.size(); ++unit) bytes /= 1024;
  return number("%g ", bytes) + units[unit];
}

/// One axis: values to pixels, and where its lines are.
struct Axis {
  double low = 0;
  double high = 1;
  double at_low = 0;   // pixel
  double at_high = 1;  // pixel
  bool logarithmic = false;
  std::vector<double> ticks;

  double place(double value) const {
    const double share = logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return at_low + share * (at_high - at_low);
  }
};

/// The least and the largest of all points' sizes (`&Point::first`) or values (`&Point::second`).
using Point = std::pair<double, double>;
Point range_of(const Chart& chart, double Point::*coordinate) {
  Point range{INFINITY, -INFINITY};
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      range.first = std::min(range.first, point.*coordinate);
      range.second = std::max(range.second, point.*coordinate);
    }
  }
  return range;
}

Axis bytes_axis(const Chart& chart) {
  auto [low, high] = range_of(chart, &Point::first);
  if (high <= low) high = low * 2;
  Axis axis{low, high, left, width - right, true, {}};
  const double octaves = std::log2(high / low);
  const double step = std::exp2(std::ceil(octaves / 12));
  for (double tick = std::exp2(std::ceil(std::log2(low))); tick <= high; tick *= step) axis.ticks.push_back(tick);
  return axis;
}

/// 1, 2 or 5 times a power of ten, such that about `count` of them make `range`.
double round_step(double range, int count) {
  const double raw = range / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double times : {1, 2, 5}) {
    if (raw <= times * power) return times * power;
  }
  return 10 * power;
}

/// From a round number at or below the least to one at or above the largest.
Axis numbers_axis(double low, double high, double at_low, double at_high) {
  if (high <= low) high = low + 1;
  const double step = round_step(high - low, 8);
  Axis axis{std::floor(low / step) * step, std::ceil(high / step) * step, at_low, at_high, false, {}};
  for (double tick = axis.low; tick <= axis.high + step / 1e4; tick += step) axis.ticks.push_back(tick);
  return axis;
}

Axis places_axis(const Chart& chart) {
  if (chart.place == Place::bytes) return bytes_axis(chart);
  const auto [low, high] = range_of(chart, &Point::first);
  return numbers_axis(std::min(low, 0.0), high, left, width - right);
}

Axis values_axis(const Chart& chart) {
  const auto [low, high] = range_of(chart, &Point::second);
  if (!chart.logarithmic) return numbers_axis(std::min(low, 0.0), high, height - bottom, top);
  Axis axis{0, 0, height - bottom, top, true, {}};
  axis.low = std::pow(10, std::floor(std::log10(low)));
  axis.high = std::max(std::pow(10, std::ceil(std::log10(high))), axis.low * 10);
  for (double tick = axis.low; tick <= axis.high * 1.0001; tick *= 10) axis.ticks.push_back(tick);
  return axis;
}

std::string line(double x1, double y1, double x2, double y2) {
  return "<line x1='" + number("%.1f", x1) + "' y1='" + number("%.1f", y1) + "' x2='" + number("%.1f", x2) + "' y2='" +
         number("%.1f", y2) + "'/>\n";
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  return "<text x='" + number("%.1f", x) + "' y='" + number("%.1f", y) + "' text-anchor='" + anchor + "'>" +
         escaped(text) + "</text>\n";
}

std::string place_text(Place place, double value) {
  return place == Place::bytes ? size_text(value) : number("%g", value);
}

std::string axes(Place place, const Axis& places, const Axis& values) {
  std::string svg = "<g stroke='#ddd'>\n";
  for (const double tick : places.ticks) svg += line(places.place(tick), top, places.place(tick), height - bottom);
  for (const double tick : values.ticks) svg += line(left, values.place(tick), width - right, values.place(tick));
  svg += "</g>\n";
  const double below = height - bottom + 18;
  for (const double tick : places.ticks) svg += label(places.place(tick), below, "middle", place_text(place, tick));
  for (const double tick : values.ticks) svg += label(left - 8, values.place(tick) + 4, "end", number("%g", tick));
  return svg;
}

std::string curve(const Series& series, Place place, const char* colour, const Axis& places, const Axis& values) {
  std::string points;
  std::string dots;
  for (const auto& [at, value] : series.points) {
    const std::string x = number("%.1f", places.place(at));
    const std::string y = number("%.1f", values.place(value));
    points.append(x).append(",").append(y).append(" ");
    if (series.points.size() > dots_max) continue;
    dots.append("<circle cx='").append(x).append("' cy='").append(y).append("' r='3'><title>");
    dots += escaped(series.name) + ", " + place_text(place, at) + ": " + number("%g", value) + "</title></circle>\n";
  }
  std::string svg = "<g stroke='none' fill='" + std::string(colour) + "'>\n" + dots + "</g>\n";
  return svg + "<polyline fill='none' stroke='" + colour + "' stroke-width='2' points='" + points + "'/>\n";
}

std::string head(double all_height) {
  return "<svg xmlns='http://www.w3.org/2000/svg' width='" + number("%g", width) + "' height='" +
         number("%g", all_height) + "' viewBox='0 0 " + number("%g ", width) + number("%g", all_height) +
         "' font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n";
}

std::string body(const Chart& chart) {
  const Axis places = places_axis(chart);
  const Axis values = values_axis(chart);
  std::string svg = "<g font-size='16'>" + label(width / 2, 26, "middle", chart.title) + "</g>\n";
  svg += axes(chart.place, places, values);
  svg += label(width / 2, height - bottom + 38, "middle", chart.place_name);
  svg += "<g transform='rotate(-90 20 " + number("%g", height / 2) + ")'>" +
         label(20, height / 2, "middle", chart.value_name) + "</g>\n";
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const char* const colour = colours[i % colours.size()];
    svg += curve(chart.series[i], chart.place, colour, places, values);
    const double y = top + 16 + 18 * static_cast<double>(i);
    svg += "<g stroke='" + std::string(colour) + "' stroke-width='2'>";
    svg += line(left + 12, y - 4, left + 36, y - 4) + "</g>";
    svg += label(left + 42, y, "start", chart.series[i].name);
  }
  return svg;
}

}  // namespace

std::string draw(const Chart& chart) { return draw_all({&chart, 1}); }

std::string draw_all(std::span<const Chart> charts) {
  std::string svg = head(height * static_cast<double>(charts.size()));
  for (std::size_t i = 0; i < charts.size(); ++i) {
    svg += "<g transform='translate(0 " + number("%g", height * static_cast<double>(i)) + ")'>\n" + body(charts[i]) +
           "</g>\n";
  }
  return svg + "</svg>\n";
}

}  // namespace rondo::plot
