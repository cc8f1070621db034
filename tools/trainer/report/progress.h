// How far a run is: on a terminal, a bar that is redrawn in place; elsewhere, a line now and then.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

namespace rondo::report {

/// "epoch 1/3  [=====>    ]  50/100  12.3 images/s  0:41 left", in at most `columns` columns: the words at the end go
/// first where there is no room for all, then the bar.
std::string progress_line(const std::string& title, std::uint64_t done, std::uint64_t total, double seconds,
                          const std::string& words, std::size_t columns);

class Progress {
 public:
  /// Draws on `output` (which it doesn't own), by `clock` (seconds; default: the steady one).  Whether it is a terminal
  /// is asked once; its width at each drawing.
  explicit Progress(std::FILE* output, std::function<double()> clock = {});
  /// Leaves the last line of a bar standing.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Begins to count from 0 to `total`, at `already` if a run goes on.
  void begin(const std::string& title, std::uint64_t total, std::uint64_t already = 0);
  /// Draws at most every 0.1 s on a terminal, at most every 10 s elsewhere; always when all is done.
  void show(std::uint64_t done, const std::string& words = "");
  /// A line of its own, above the bar.
  void say(const std::string& line);

 private:
  void clear();

  std::FILE* output_;
  std::function<double()> clock_;
  bool terminal_ = false;
  bool drawn_ = false;  // a bar stands on the last line
  std::string title_;
  std::uint64_t total_ = 0;
  std::uint64_t already_ = 0;
  double begin_ = 0;
  double shown_ = 0;
};

}  // namespace rondo::report
