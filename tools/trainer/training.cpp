// The training, step by step: see training.h.
#include "tools/trainer/training.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "tools/trainer/batches.h"
#include "tools/trainer/data/open.h"
#include "tools/trainer/optimizer.h"
#include "tools/trainer/precision.h"
#include "tools/trainer/resnet.h"
#include "tools/trainer/schedule.h"
#include "tools/trainer/team.h"

namespace rondo::trainer {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// Where a rank's time went, in seconds.
struct Phases {
  double data = 0;
  double forward = 0;
  double backward = 0;
  double update = 0;
};

class Training {
 public:
  explicit Training(const Options& options);
  int run();

 private:
  void open_data();
  void make_model();
  void step(double rate);
  double evaluate();
  std::int64_t steps_planned() const;

  Options options_;
  Team team_;
  at::Device device_;
  at::ScalarType type_;
  std::unique_ptr<data::Dataset> training_set_, test_set_;
  data::Augmentation test_augmentation_;
  std::unique_ptr<data::Sampler> sampler_;
  std::unique_ptr<data::Loader> loader_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Batches> batches_;
  std::optional<Optimizer> optimizer_;
  std::optional<Average> average_;
  std::optional<LossScale> scale_;
  std::int64_t steps_ = 0;
  std::uint64_t passes_ = 0;
  double loss_ = 0;
  Phases phases_;
};

Training::Training(const Options& options)
    : options_(options), device_(options.device), type_(options.type == "float64" ? at::kDouble : at::kFloat) {
  at::set_num_threads(options_.threads);
  open_data();
  make_model();
}

void Training::open_data() {
  data::Source source;
  source.kind = options_.data;
  source.path = options_.data_path;
  source.seed = options_.seed;
  if (options_.image > 0) source.image = options_.image;
  training_set_ = data::open_dataset(source);
  source.split = data::Split::test;
  test_set_ = data::open_dataset(source);
  if (options_.image == 0) options_.image = training_set_->shape().height > 0 ? training_set_->shape().height : 224;
  const auto count = [](std::int64_t wanted, const data::Dataset& set) {
    return wanted > 0 ? std::min(static_cast<std::size_t>(wanted), set.size()) : set.size();
  };
  options_.train_count = static_cast<std::int64_t>(count(options_.train_count, *training_set_));
  options_.test_count = static_cast<std::int64_t>(count(options_.test_count, *test_set_));

  data::Sampling sampling;
  sampling.size = static_cast<std::size_t>(options_.train_count);
  sampling.rank = team_.rank();
  sampling.ranks = team_.ranks();
  sampling.seed = options_.seed;
  sampler_ = std::make_unique<data::Sampler>(sampling);
  data::Loading loading;
  loading.batch = static_cast<std::size_t>(options_.batch);
  loading.workers = options_.workers;
  loading.augmentation = data::usual_augmentation(*training_set_, data::Split::training, options_.image);
  loading.seed = options_.seed;
  test_augmentation_ = data::usual_augmentation(*test_set_, data::Split::test, options_.image);
  loader_ = std::make_unique<data::Loader>(*training_set_, *sampler_, loading);
}

void Training::make_model() {
  ResNetShape shape;
  shape.depth = std::stoi(options_.model.substr(std::string("resnet").size()));
  shape.classes = options_.classes > 0 ? options_.classes : training_set_->classes();
  const data::Normalisation normalisation = training_set_->normalisation();
  shape.channels = static_cast<int>(normalisation.mean.size());
  shape.width = options_.width;
  shape.small_stem = options_.stem == Stem::small || (options_.stem == Stem::automatic && options_.image < 64);
  shape.norm = options_.norm;
  shape.channels_last = options_.channels_last;
  shape.recompute = options_.recompute;
  shape.type = type_;
  shape.device = device_;
  shape.seed = options_.seed;
  if (shape.classes < training_set_->classes()) {
    throw Error("--num-classes " + std::to_string(shape.classes) + " is less than the data's " +
                std::to_string(training_set_->classes()));
  }
  model_ = make_resnet(shape);
  batches_ = std::make_unique<Batches>(normalisation, type_, device_, options_.channels_last);
  optimizer_.emplace(model_->parameters(), options_);
  if (options_.average_decay > 0) average_.emplace(*model_, options_.average_decay);
  if (options_.precision == Precision::fp16) scale_.emplace(options_.loss_scale);
}

std::int64_t Training::steps_planned() const {
  const auto batches = static_cast<std::int64_t>(loader_->batches());
  const std::int64_t steps = options_.epochs * ((batches + options_.accumulation - 1) / options_.accumulation);
  return options_.steps_max > 0 ? options_.steps_max : steps;
}

void Training::step(double rate) {
  model_->set_training(true);
  for (const NamedTensor& parameter : model_->parameters()) parameter.tensor.mutable_grad() = at::Tensor();
  double loss_sum = 0;
  for (int pass = 0; pass < options_.accumulation; ++pass, ++passes_) {
    const auto begin = Clock::now();
    const data::Batch* batch = loader_->next();
    Inputs inputs = batches_->inputs(*batch);
    double share = 1;
    if (options_.mixup > 0) {
      share = mix(inputs, options_.mixup, options_.seed, static_cast<std::uint64_t>(team_.rank()), passes_);
    }
    const auto loaded = Clock::now();
    at::Tensor loss;
    {
      const Autocast autocast(device_.type(), options_.precision);
      loss = loss_of(model_->forward(inputs.images), inputs.labels, share, options_.smoothing);
    }
    loss_sum += loss.item<double>();
    const auto forwarded = Clock::now();
    loss.mul((scale_ ? scale_->scale() : 1) / options_.accumulation).backward();
    const auto backwarded = Clock::now();
    phases_.data += seconds_between(begin, loaded);
    phases_.forward += seconds_between(loaded, forwarded);
    phases_.backward += seconds_between(forwarded, backwarded);
  }
  loss_ = loss_sum / options_.accumulation;
  if (!std::isfinite(loss_)) {
    throw Error("the loss is " + std::to_string(loss_) + " at step " + std::to_string(steps_ + 1) + " of rank " +
                std::to_string(team_.rank()) + ": try a lower --lr or a longer --warmup-epochs");
  }
  const auto begin = Clock::now();
  optimizer_->step(rate);
  if (average_) average_->update();
  phases_.update += seconds_between(begin, Clock::now());
  ++steps_;
}

double Training::evaluate() {
  if (average_) average_->swap();
  model_->set_training(false);
  const at::NoGradGuard no_gradients;
  data::Sampling sampling;
  sampling.size = static_cast<std::size_t>(options_.test_count);
  sampling.rank = team_.rank();
  sampling.ranks = team_.ranks();
  sampling.shuffle = false;
  sampling.uneven = data::Uneven::exact;
  const data::Sampler sampler(sampling);
  data::Loading loading;
  loading.batch = static_cast<std::size_t>(options_.batch);
  loading.workers = options_.workers;
  loading.augmentation = test_augmentation_;
  loading.epochs_end = 1;
  data::Loader loader(*test_set_, sampler, loading);
  std::array<double, 3> sums{};  // correct, images, loss
  while (const data::Batch* batch = loader.next()) {
    const Inputs inputs = batches_->inputs(*batch);
    const Autocast autocast(device_.type(), options_.precision);
    const at::Tensor scores = model_->forward(inputs.images);
    sums[0] += scores.argmax(1).eq(inputs.labels).sum().item<double>();
    sums[1] += static_cast<double>(batch->count);
    sums[2] += loss_of(scores, inputs.labels, 1, 0).item<double>() * static_cast<double>(batch->count);
  }
  team_.sum(sums);
  if (average_) average_->swap();
  if (team_.rank() == 0) {
    std::printf("test: %.2f %% of %.0f images, loss %.4f\n", 100 * sums[0] / sums[1], sums[1], sums[2] / sums[1]);
    std::fflush(stdout);
  }
  return sums[0] / sums[1];
}

int Training::run() {
  if (options_.evaluate_only) {
    evaluate();
    team_.finish();
    return 0;
  }
  const std::int64_t planned = steps_planned();
  const auto batches = static_cast<double>(loader_->batches());
  const double peak = peak_rate(options_, double(options_.batch) * team_.ranks() * options_.accumulation);
  auto begin = Clock::now();
  std::int64_t steps_before = 0;
  while (steps_ < planned) {
    const double epoch = double(steps_) * options_.accumulation / batches;
    step(rate_at(options_, peak, epoch, double(planned) * options_.accumulation / batches));
    if (steps_ == 1 && planned > 1) {
      begin = Clock::now();  // the first step sets up torch
      steps_before = 1;
    }
    if (team_.rank() == 0 && (steps_ % options_.log_interval == 0 || steps_ == planned)) {
      std::printf("step %lld of %lld: loss %.4f\n", static_cast<long long>(steps_), static_cast<long long>(planned),
                  loss_);
      std::fflush(stdout);
    }
  }
  std::array<double, 1> rate{double(steps_ - steps_before) * options_.batch * options_.accumulation /
                             seconds_between(begin, Clock::now())};
  team_.sum(rate);
  if (team_.rank() == 0) {
    std::printf("data %.3f s, forward %.3f s, backward %.3f s, update %.3f s\n", phases_.data, phases_.forward,
                phases_.backward, phases_.update);
    std::printf("%.1f images/s\n", rate[0]);
  }
  team_.finish();
  return 0;
}

}  // namespace

int train(const Options& options) {
  try {
    return Training(options).run();
  } catch (const c10::Error& error) {
    throw Error(error.what_without_backtrace());
  }
}

}  // namespace rondo::trainer
