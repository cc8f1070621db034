// Sums of steps, and their transport as doubles; see measures.h.
#include "tools/trainer/report/measures.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>

namespace rondo::report {
namespace {

constexpr std::size_t bucket_doubles = 4;

void put(std::vector<double>& doubles, const BucketSpan& bucket) {
  doubles.insert(doubles.end(), {bucket.bytes, bucket.ready, bucket.start, bucket.end});
}

/// Takes doubles from the front, and throws where none is left.
class Source {
 public:
  explicit Source(std::span<const double> doubles) : doubles_(doubles) {
    const std::size_t size = count(doubles_.size());
    if (size == 0) throw std::invalid_argument("a rank's figures are empty");
    doubles_ = doubles_.first(size - 1);  // the length was one of them
  }
  double take() {
    if (doubles_.empty()) throw std::invalid_argument("a rank's figures end early");
    const double value = doubles_.front();
    doubles_ = doubles_.subspan(1);
    return value;
  }
  /// A whole number of at most `most`.
  std::size_t count(std::size_t most) {
    const double value = take();
    if (!(value >= 0 && value <= static_cast<double>(most))) {
      throw std::invalid_argument("a rank's figures have a wrong length");
    }
    return static_cast<std::size_t>(value);
  }
  std::size_t left() const { return doubles_.size(); }
  BucketSpan bucket() {
    BucketSpan bucket;
    for (double* const field : {&bucket.bytes, &bucket.ready, &bucket.start, &bucket.end}) *field = take();
    return bucket;
  }

 private:
  std::span<const double> doubles_;
};

/// The scalar fields, in the order in which they travel.
template <typename Some, typename Use>
void for_each_field(Some& figures, Use&& use) {
  for (auto* const field :
       {&figures.rank, &figures.host, &figures.steps, &figures.images, &figures.seconds, &figures.other,
        &figures.step_median, &figures.step_largest, &figures.backward, &figures.peak_bytes,
        &figures.proportional_bytes, &figures.private_bytes, &figures.device_bytes}) {
    use(*field);
  }
  for (auto& phase : figures.phases) use(phase);
}

}  // namespace

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

const char* name(Phase phase) {
  switch (phase) {
    case Phase::data: return "data";
    case Phase::forward: return "forward";
    case Phase::backward: return "backward";
    case Phase::exposed: return "exposed communication";
    case Phase::optimizer: return "optimizer";
  }
  return "";
}

std::vector<double> flat(const Figures& figures) {
  std::vector<double> doubles{0};
  for_each_field(figures, [&](double field) { doubles.push_back(field); });
  for (const BucketMeans& bucket : figures.buckets) put(doubles, bucket);
  doubles[0] = static_cast<double>(doubles.size());
  return doubles;
}

Figures figures_from(std::span<const double> doubles) {
  Source source(doubles);
  Figures figures;
  for_each_field(figures, [&](double& field) { field = source.take(); });
  while (source.left() > 0) figures.buckets.push_back(source.bucket());
  return figures;
}

std::vector<double> flat(std::span<const Step> steps) {
  std::vector<double> doubles{0};
  for (const Step& step : steps) {
    doubles.insert(doubles.end(), {static_cast<double>(step.number), step.images,
                                   static_cast<double>(step.spans.size()), static_cast<double>(step.buckets.size())});
    for (const Span& span : step.spans) {
      doubles.insert(doubles.end(), {static_cast<double>(span.phase), span.begin, span.end});
    }
    for (const BucketSpan& bucket : step.buckets) put(doubles, bucket);
  }
  doubles[0] = static_cast<double>(doubles.size());
  return doubles;
}

std::vector<Step> steps_from(std::span<const double> doubles) {
  Source source(doubles);
  std::vector<Step> steps;
  while (source.left() > 0) {
    Step step;
    step.number = static_cast<std::uint64_t>(source.take());
    step.images = source.take();
    step.spans.resize(source.count(source.left() / 3));
    step.buckets.resize(source.count(source.left() / bucket_doubles));
    for (Span& span : step.spans) {
      span.phase = static_cast<Phase>(source.count(phase_count - 1));
      span.begin = source.take();
      span.end = source.take();
    }
    for (BucketSpan& bucket : step.buckets) bucket = source.bucket();
    steps.push_back(std::move(step));
  }
  return steps;
}

void Recorder::close_step(double end) {
  if (!open_) return;
  open_ = false;
  sums_.seconds += end - begin_;
  sums_.other += end - begin_ - covered_;
  steps_.push_back(end - begin_);
}

void Recorder::add(Step step) {
  if (step.spans.empty()) throw std::invalid_argument("a step without spans");
  const double begin = step.spans.front().begin;
  close_step(paused_ ? end_ : begin);
  paused_ = false;
  if (++seen_ > warm_up_) {
    open_ = true;
    begin_ = begin;
    end_ = step.spans.back().end;
    covered_ = 0;
    sums_.steps += 1;
    sums_.images += step.images;
    Span last{Phase::backward, begin, begin};  // a step may have none: a rank whose images are used up
    for (const Span& span : step.spans) {
      covered_ += span.end - span.begin;
      sums_.phases[static_cast<std::size_t>(span.phase)] += span.end - span.begin;
      if (span.phase == Phase::backward) last = span;
    }
    sums_.backward += last.end - last.begin;
    // Buckets are rebuilt once, early on: what was summed before is of other buckets.
    const auto same = [](const BucketSpan& a, const BucketSpan& b) { return a.bytes == b.bytes; };
    if (!std::equal(step.buckets.begin(), step.buckets.end(), sums_.buckets.begin(), sums_.buckets.end(), same)) {
      sums_.buckets.assign(step.buckets.size(), {});
      bucket_steps_ = 0;
    }
    ++bucket_steps_;
    for (std::size_t i = 0; i < step.buckets.size(); ++i) {
      sums_.buckets[i].bytes = step.buckets[i].bytes;
      sums_.buckets[i].ready += step.buckets[i].ready - last.begin;
      sums_.buckets[i].start += step.buckets[i].start - last.begin;
      sums_.buckets[i].end += step.buckets[i].end - last.begin;
    }
  }
  if (kept_max_ == 0) return;
  if (kept_.size() == kept_max_) kept_.erase(kept_.begin());
  kept_.push_back(std::move(step));
}

Figures Recorder::figures() const {
  Recorder closed = *this;
  closed.close_step(end_);
  Figures result = closed.sums_;
  if (result.steps == 0) return result;
  for (double& phase : result.phases) phase /= result.steps;
  result.other /= result.steps;
  result.backward /= result.steps;
  for (BucketMeans& bucket : result.buckets) {
    for (double* const time : {&bucket.ready, &bucket.start, &bucket.end}) *time /= bucket_steps_;
  }
  std::vector<double>& lengths = closed.steps_;
  std::sort(lengths.begin(), lengths.end());
  result.step_largest = lengths.back();
  result.step_median = (lengths[lengths.size() / 2] + lengths[(lengths.size() - 1) / 2]) / 2;
  return result;
}

}  // namespace rondo::report
