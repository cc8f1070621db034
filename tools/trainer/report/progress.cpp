// A carriage return and "erase the line" before each drawing; see progress.h.
#include "tools/trainer/report/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "tools/trainer/report/measures.h"

namespace rondo::report {
namespace {

constexpr double terminal_interval = 0.1;
constexpr double line_interval = 10;
constexpr std::size_t usual_columns = 80;
constexpr std::size_t bar_most = 40;
constexpr std::size_t bar_least = 5;

std::string duration(double seconds) {
  const long whole = std::lround(std::min(seconds, 3.6e8));
  char text[64];
  if (whole >= 3600) {
    std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%ld:%02ld", whole / 60, whole % 60);
  }
  return text;
}

std::size_t columns_of(std::FILE* terminal) {
  winsize size{};
  if (::ioctl(::fileno(terminal), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return usual_columns;
  return size.ws_col;
}

}  // namespace

std::string progress_line(const std::string& title, std::uint64_t done, std::uint64_t total, double seconds,
                          const std::string& words, std::size_t columns) {
  const std::string left = title + "  ";
  std::string right = "  " + std::to_string(done) + "/" + std::to_string(total);
  const std::string time = done > 0 && done < total
                               ? "  " + duration(seconds / double(done) * double(total - done)) + " left"
                               : "  " + duration(seconds);
  for (const std::string& part : {words.empty() ? words : "  " + words, time}) {
    if (left.size() + right.size() + part.size() <= columns) right += part;
  }
  const std::size_t used = left.size() + right.size() + 2;
  if (used + bar_least > columns) return (title + right).substr(0, columns);
  const std::size_t width = std::min(bar_most, columns - used);
  const double share = total > 0 ? std::min(1.0, double(done) / double(total)) : 1;
  const auto full = static_cast<std::size_t>(share * double(width));
  std::string bar(full, '=');
  if (full < width) bar += '>';
  bar.resize(width, ' ');
  return left + "[" + bar + "]" + right;
}

Progress::Progress(std::FILE* output, std::function<double()> clock)
    : output_(output), clock_(clock ? std::move(clock) : now) {
  const char* const kind = std::getenv("TERM");
  terminal_ = ::isatty(::fileno(output)) != 0 && (kind == nullptr || std::strcmp(kind, "dumb") != 0);
}

Progress::~Progress() {
  if (drawn_) std::fputs("\n", output_);
  std::fflush(output_);
}

void Progress::clear() {
  if (drawn_) std::fputs("\r\033[K", output_);
  drawn_ = false;
}

void Progress::begin(const std::string& title, std::uint64_t total, std::uint64_t already) {
  if (drawn_) std::fputs("\n", output_);
  drawn_ = false;
  title_ = title;
  total_ = total;
  already_ = already;
  begin_ = shown_ = clock_();
}

void Progress::show(std::uint64_t done, const std::string& words) {
  const double time = clock_();
  if (done < total_ && time - shown_ < (terminal_ ? terminal_interval : line_interval)) return;
  shown_ = time;
  const std::uint64_t counted = done > already_ ? done - already_ : 0;
  const double seconds = time - begin_;
  if (terminal_) {
    clear();
    // The last column stays free: some terminals wrap when it is written.  Time left is by what this run did itself.
    const double scaled = counted > 0 ? seconds * double(done) / double(counted) : seconds;
    const std::string line =
        progress_line(title_, done, total_, done < total_ ? scaled : seconds, words, columns_of(output_) - 1);
    std::fputs(line.c_str(), output_);
    drawn_ = true;
  } else {
    std::fprintf(output_, "%s  %llu/%llu%s%s  %s\n", title_.c_str(), static_cast<unsigned long long>(done),
                 static_cast<unsigned long long>(total_), words.empty() ? "" : "  ", words.c_str(),
                 duration(seconds).c_str());
  }
  std::fflush(output_);
}

void Progress::say(const std::string& line) {
  clear();
  std::fprintf(output_, "%s\n", line.c_str());
  std::fflush(output_);
}

}  // namespace rondo::report
