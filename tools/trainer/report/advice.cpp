// Rules over means of all ranks; see advice.h.
#include "tools/trainer/report/advice.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/trainer/report/words.h"

namespace rondo::report {
namespace {

constexpr int accumulation_max = 64;
constexpr double mebibyte = 1 << 20;

template <typename... Values>
std::string formatted(const char* format, Values... values) {
  char sentence[512];
  std::snprintf(sentence, sizeof sentence, format, values...);
  return sentence;
}

void advise_accumulation(const Run& run, double step, double exposed, std::vector<std::string>& sentences) {
  const double optimizer = mean(run, [](const Figures& figures) { return figures.phase(Phase::optimizer); });
  const int wanted = wanted_accumulation(step, exposed, optimizer, run.accumulation);
  if (wanted <= run.accumulation) return;
  const double rest = (step - exposed - optimizer) / run.accumulation;
  const double share = exposed / (exposed + optimizer + wanted * rest);
  sentences.push_back(
      formatted("Accumulate over %d backwards (now %d): communication is exposed for %.1f %% of a step; once every %d "
                "it would be "
                "%.1f %%.  (Rule: the least power of two that brings it to %.0f %%.)  The global batch grows as much.",
                wanted, run.accumulation, 100 * exposed / step, wanted, 100 * share, 100 * exposed_share_wanted));
}

void advise_bucket(const Run& run, std::vector<std::string>& sentences) {
  const std::vector<BucketMeans> buckets = mean_buckets(run);
  const std::optional<TransferFit> fit = transfer_fit(buckets);
  if (!fit) return;
  const double best = std::clamp(best_bucket_bytes(*fit, run.gradient_bytes), mebibyte / 4, run.gradient_bytes);
  if (best < 2 * run.bucket_bytes && run.bucket_bytes < 2 * best) return;
  sentences.push_back(formatted(
      "Make buckets %.3g MiB (now %.3g): the buckets' times fit %.3g ms + size / %.3g GB/s, for which that size "
      "has the least time in calls and in the last bucket.  (Rule: sqrt(latency x gradients x speed).)",
      best / mebibyte, run.bucket_bytes / mebibyte, fit->latency * 1e3, fit->speed / 1e9));
}

void advise_communication(const Run& run, std::vector<std::string>& sentences) {
  const std::vector<BucketMeans> buckets = mean_buckets(run);
  double communication = 0;
  for (const BucketMeans& bucket : buckets) communication += bucket.end - bucket.start;
  const double backward = mean(run, [](const Figures& figures) { return figures.backward; });
  if (buckets.empty() || communication <= backward) return;
  sentences.push_back(
      formatted("All-reduces take %.1f ms, longer than backward (%.1f ms): no bucket size hides them.  (Rule: sum of "
                "all-reduces > "
                "backward.)  Half-width gradients (fp16, bf16) halve their bytes.",
                communication * 1e3, backward * 1e3));
}

void advise_slowest(const Run& run, std::vector<std::string>& sentences) {
  const auto computation = [](const Figures& figures) {
    return figures.phase(Phase::forward) + figures.phase(Phase::backward);
  };
  const double usual = mean(run, computation);
  const auto slowest = std::max_element(run.ranks.begin(), run.ranks.end(), [&](const Figures& a, const Figures& b) {
    return computation(a) < computation(b);
  });
  const double above = usual > 0 ? computation(*slowest) / usual - 1 : 0;
  if (above <= slowness_wanted) return;
  sentences.push_back(formatted(
      "Rank %d computes %.1f %% longer than the mean, and the others wait for it: look for what else runs there."
      "  (Rule: more than %.0f %% above the mean.)",
      static_cast<int>(slowest->rank), 100 * above, 100 * slowness_wanted));
}

}  // namespace

std::optional<TransferFit> transfer_fit(std::span<const BucketMeans> buckets) {
  if (buckets.size() < 3) return std::nullopt;
  const auto [least, most] = std::minmax_element(buckets.begin(), buckets.end(),
                                                 [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  if (most->bytes < 2 * least->bytes) return std::nullopt;
  double count = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const BucketMeans& bucket : buckets) {
    const double seconds = bucket.end - bucket.start;
    count += 1;
    x += bucket.bytes;
    y += seconds;
    xx += bucket.bytes * bucket.bytes;
    xy += bucket.bytes * seconds;
  }
  const double slope = (count * xy - x * y) / (count * xx - x * x);
  const TransferFit fit{(y - slope * x) / count, 1 / slope};
  if (!(fit.latency > 0 && fit.speed > 0 && std::isfinite(fit.speed))) return std::nullopt;
  return fit;
}

double best_bucket_bytes(const TransferFit& fit, double gradient_bytes) {
  return std::sqrt(fit.latency * gradient_bytes * fit.speed);
}

int wanted_accumulation(double step, double exposed, double optimizer, int accumulation) {
  const double rest = (step - exposed - optimizer) / accumulation;
  int wanted = 1;
  while (wanted < accumulation_max && exposed > exposed_share_wanted * (exposed + optimizer + wanted * rest))
    wanted *= 2;
  return wanted;
}

std::vector<std::string> advice(const Run& run) {
  std::vector<std::string> sentences;
  const double step = mean(run, [](const Figures& figures) { return figures.step(); });
  const double data = mean(run, [](const Figures& figures) { return figures.phase(Phase::data); });
  const double exposed = mean(run, [](const Figures& figures) { return figures.phase(Phase::exposed); });
  if (step <= 0) return sentences;
  if (data > data_share_wanted * step) {
    sentences.push_back(formatted(
        "Give data more workers (-j), or pack it (rondo-train pack): steps wait for it %.1f %% of their time.  (Rule: "
        "more than %.0f %%.)",
        100 * data / step, 100 * data_share_wanted));
  }
  advise_slowest(run, sentences);
  if (exposed > exposed_share_wanted * step) {
    advise_communication(run, sentences);
    advise_bucket(run, sentences);
    advise_accumulation(run, step, exposed, sentences);
  }
  return sentences;
}

}  // namespace rondo::report
