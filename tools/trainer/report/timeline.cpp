// Text and SVG by hand; see timeline.h.
#include "tools/trainer/report/timeline.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/trainer/report/words.h"

namespace rondo::report {
namespace {

constexpr int columns = 50;

double latest(std::span<const BucketMeans> buckets, double backward) {
  double end = backward;
  for (const BucketMeans& bucket : buckets) end = std::max(end, bucket.end);
  return end > 0 ? end : 1;
}

std::string milliseconds(double seconds) { return three_digits(seconds * 1e3); }

std::string bar(const BucketMeans& bucket, double backward, double end) {
  const auto column = [&](double time) {
    return static_cast<std::size_t>(std::clamp(std::lround(time / end * columns), 0L, long(columns)));
  };
  std::string text(columns + 1, ' ');
  for (std::size_t i = column(bucket.ready); i < column(bucket.start); ++i) text[i] = '.';
  for (std::size_t i = column(bucket.start); i < std::max(column(bucket.end), column(bucket.start) + 1); ++i)
    text[i] = '=';
  text[column(backward)] = '|';
  while (text.back() == ' ') text.pop_back();
  return text;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string box(double x, double y, double width, const char* colour, const std::string& tip) {
  return "<rect x='" + number(x) + "' y='" + number(y) + "' width='" + number(std::max(width, 0.5)) +
         "' height='14' fill='" + colour + "'><title>" + tip + "</title></rect>\n";
}

std::string label(double x, double y, const char* anchor, const std::string& words) {
  return "<text x='" + number(x) + "' y='" + number(y) + "' text-anchor='" + anchor + "'>" + words + "</text>\n";
}

std::string escaped(const std::string& words) {
  std::string result;
  for (const char letter : words) {
    result += letter == '&' ? "&amp;" : letter == '<' ? "&lt;" : letter == '>' ? "&gt;" : std::string(1, letter);
  }
  return result;
}

}  // namespace

std::string timeline_text(std::span<const BucketMeans> buckets, double backward) {
  if (buckets.empty()) return "";
  const double end = latest(buckets, backward);
  std::string text = "  bucket        size   ready   start     end\n";
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const BucketMeans& bucket = buckets[i];
    text += "  " + right_of(std::to_string(i), 6) + right_of(size_text(bucket.bytes), 12) +
            right_of(milliseconds(bucket.ready), 8) + right_of(milliseconds(bucket.start), 8) +
            right_of(milliseconds(bucket.end), 8) + "  " + bar(bucket, backward, end) + "\n";
  }
  return text;
}

std::string timeline_svg(std::span<const BucketMeans> buckets, double backward, const std::string& title) {
  constexpr double left = 110, width = 720, row = 20, top = 56;
  const double end = latest(buckets, backward);
  const auto place = [&](double time) { return left + time / end * width; };
  const double height = top + row * (static_cast<double>(buckets.size()) + 1) + 40;
  std::string svg = "<svg xmlns='http://www.w3.org/2000/svg' width='860' height='" + number(height) +
                    "' viewBox='0 0 860 " + number(height) + "' font-family='sans-serif' font-size='12'>\n" +
                    "<rect width='100%' height='100%' fill='white'/>\n<g font-size='16'>" +
                    label(430, 26, "middle", escaped(title)) + "</g>\n";
  svg += label(left - 8, top + 12, "end", "backward");
  svg += box(left, top, place(backward) - left, "#0072b2", "backward: " + milliseconds(backward) + " ms");
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const BucketMeans& bucket = buckets[i];
    const double y = top + row * (static_cast<double>(i) + 1);
    const std::string name = "bucket " + std::to_string(i) + ", " + size_text(bucket.bytes);
    svg += label(left - 8, y + 12, "end", size_text(bucket.bytes));
    svg += box(place(bucket.ready), y, place(bucket.start) - place(bucket.ready), "#bbbbbb",
               name + ": ready at " + milliseconds(bucket.ready) + " ms");
    svg += box(place(bucket.start), y, place(bucket.end) - place(bucket.start), "#d55e00",
               name + ": all-reduce from " + milliseconds(bucket.start) + " to " + milliseconds(bucket.end) + " ms");
  }
  const double below = top + row * (static_cast<double>(buckets.size()) + 1);
  svg += "<line x1='" + number(place(backward)) + "' y1='" + number(top) + "' x2='" + number(place(backward)) +
         "' y2='" + number(below) + "' stroke='#222' stroke-dasharray='3 3'/>\n";
  svg += label(left, below + 18, "start", "0 ms") + label(left + width, below + 18, "end", milliseconds(end) + " ms");
  svg += label(left + width / 2, below + 18, "middle", "blue: backward; grey: ready, waiting; orange: all-reduce");
  return svg + "</svg>\n";
}

}  // namespace rondo::report
