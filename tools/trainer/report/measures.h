// What one rank measures of its steps, in memory: spans of time by phase, and buckets' times against backward.  A
// Recorder sums steps up to Figures, which ranks gather (as doubles) for the report.  Times are seconds on the clock of
// now(), which all processes of a host share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rondo::report {

/// The steady clock, in seconds.
double now();

/// `exposed` is the time after backward in which computation waits for communication.
enum class Phase { data, forward, backward, exposed, optimizer };
inline constexpr std::size_t phase_count = 5;
const char* name(Phase phase);  // "data", "forward", "backward", "exposed communication", "optimizer"

struct Span {
  Phase phase = Phase::data;
  double begin = 0;
  double end = 0;
};

/// One bucket of gradients in one step.
struct BucketSpan {
  double bytes = 0;
  double ready = 0;  // its last gradient was there
  double start = 0;  // its all-reduce began
  double end = 0;    // and was complete
};

/// One step of the optimizer; with accumulation there are several spans of data, forward and backward.
struct Step {
  std::uint64_t number = 0;
  double images = 0;                // of this rank
  std::vector<Span> spans;          // in order of time, disjoint
  std::vector<BucketSpan> buckets;  // in order of their all-reduces; those of the last backward
};

/// A bucket's mean times, in seconds since the step's last backward began.
using BucketMeans = BucketSpan;

/// One rank's sums and means.  What takes no part stays 0.
struct Figures {
  double rank = 0;
  double host = 0;  // a number of the host, equal on ranks that share one
  double steps = 0;
  double images = 0;
  double seconds = 0;                        // from the first measured step's begin to the last one's end
  std::array<double, phase_count> phases{};  // means of a step
  double other = 0;                          // mean of a step: what no span covers, to the next step's begin
  double step_median = 0;                    // begin to begin
  double step_largest = 0;
  double backward = 0;    // mean length of the last backward of a step
  double peak_bytes = 0;  // of resident memory (process memory, see memory.h)
  double proportional_bytes = 0;
  double private_bytes = 0;
  double device_bytes = 0;  // the peak on its device, where it has one
  std::vector<BucketMeans> buckets;

  double step() const { return steps > 0 ? seconds / steps : 0; }
  double phase(Phase which) const { return phases[static_cast<std::size_t>(which)]; }
};

/// Figures and steps as doubles, led by their own length: ranks whose lengths differ pad with anything.
std::vector<double> flat(const Figures& figures);
std::vector<double> flat(std::span<const Step> steps);
/// The reverse; throws std::invalid_argument if `doubles` isn't what flat() gave.
Figures figures_from(std::span<const double> doubles);
std::vector<Step> steps_from(std::span<const double> doubles);

class Recorder {
 public:
  /// Leaves the first `warm_up` steps out of the figures, and keeps the `kept_max` latest steps for timelines.
  explicit Recorder(std::uint64_t warm_up = 0, std::size_t kept_max = 50) : warm_up_(warm_up), kept_max_(kept_max) {}

  /// A step must have spans, and begin after the one before.
  void add(Step step);
  /// Call it outside of the measured time, as after an evaluation or a checkpoint: the time from the end of the last
  /// step to the begin of the next one then belongs to no step.
  void pause() { paused_ = true; }

  /// Sums until now; rank, host and memory are the caller's to fill.
  Figures figures() const;
  const std::vector<Step>& kept() const { return kept_; }  // in order of time

 private:
  void close_step(double end);

  std::uint64_t warm_up_;
  std::size_t kept_max_;
  std::uint64_t seen_ = 0;
  bool paused_ = true;
  bool open_ = false;          // a step was added and its end isn't known: the next one's begin, or its last span's end
  double begin_ = 0;           // of the open step
  double end_ = 0;             // of its last span
  double covered_ = 0;         // by its spans
  Figures sums_;               // sums where Figures has means
  double bucket_steps_ = 0;    // steps that the buckets' sums are of
  std::vector<double> steps_;  // lengths
  std::vector<Step> kept_;
};

}  // namespace rondo::report
