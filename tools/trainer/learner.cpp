// What learns, in torch: see learner.h.
#include "tools/trainer/learner.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <csignal>
#include <optional>
#include <utility>

#include "tools/trainer/adapter/adapter.h"
#include "tools/trainer/adapter/sync_norm.h"
#include "tools/trainer/batches.h"
#include "tools/trainer/optimizer.h"
#include "tools/trainer/precision.h"
#include "tools/trainer/resnet.h"

namespace rondo::trainer {
namespace {

ResNetShape shape_of(const Options& options, Team& team, const DataTraits& data) {
  ResNetShape shape;
  shape.depth = std::stoi(options.model.substr(std::string("resnet").size()));
  shape.classes = options.classes > 0 ? options.classes : data.classes;
  if (shape.classes < data.classes) {
    throw Error("--num-classes " + std::to_string(shape.classes) + " is less than the data's " +
                std::to_string(data.classes));
  }
  constexpr int small = 64;
  shape.channels = static_cast<int>(data.normalisation.mean.size());
  shape.width = options.width;
  shape.small_stem = options.stem == Stem::small || (options.stem == Stem::automatic && data.image < small);
  shape.norm = options.norm;
  if (shape.norm == Norm::sync && (options.parallel == Parallel::none || team.ranks() == 1)) {
    shape.norm = Norm::batch;  // over the one rank there is
  } else if (shape.norm == Norm::sync) {
    shape.synchronised_norm = [comm = team.another()](const auto&... of) {
      return adapter::sync_batch_norm(of..., comm);
    };
  }
  shape.channels_last = options.channels_last;
  shape.recompute = options.recompute;
  shape.type = options.type == "float64" ? at::kDouble : at::kFloat;
  shape.device = at::Device(options.device);
  shape.seed = options.seed;
  return shape;
}

data_parallel::Options exchange_options(const Options& options) {
  data_parallel::Options result;
  result.mode = options.parallel == Parallel::ps || options.parallel == Parallel::dp ? data_parallel::Mode::server
                                                                                     : data_parallel::Mode::all_reduce;
  result.wire_type = options.wire == Precision::as_is  ? data_parallel::WireType::as_is
                     : options.wire == Precision::fp16 ? data_parallel::WireType::fp16
                                                       : data_parallel::WireType::bf16;
  result.bucket_cap_mb = options.bucket_cap_mb;
  result.broadcast_buffers = options.norm == Norm::batch;
  result.check_every = options.check_every;
  return result;
}

double seconds_of(data_parallel::Clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

/// What ranks that train together tell each other in each step, as sums.
struct Exchanged {
  double images = 0;
  double loss = 0;
  double overflowed = 0;
  double no_number = 0;  // ranks whose loss is none
  double interrupted = 0;
  double terminated = 0;
  static constexpr std::size_t count = 6;
};

}  // namespace

class Learner::Machine {
 public:
  Machine(const Options& options, Team& team, const DataTraits& data);
  StepResult step(Feed& feed, const StepPlan& plan);
  Scores evaluate(Feed& feed, const std::function<bool()>& enough);
  Snapshot snapshot() const;
  void restore(const Checkpoint& checkpoint);
  void lay_out(double bucket_cap_mb);
  double exchange_alone();

  std::function<data::Memory(std::size_t bytes)> batch_memory() const { return trainer::batch_memory(device_); }

  std::unique_ptr<Model> model_;

 private:
  double pass(Feed& feed, const StepPlan& plan, int index, report::Step& times);
  void prepare(const StepPlan& plan);
  void backward(const at::Tensor& loss, bool exchanged);
  void exchange(report::Step& times);
  bool unscale();
  void agree(const StepPlan& plan, double loss, bool overflowed, StepResult& result);
  double clip(bool exchanged);
  void update(const StepPlan& plan, StepResult& result);
  bool exchanges(const StepPlan& plan) const { return parallel_ && plan.exchange == Exchange::usual; }
  std::vector<NamedTensor> kept() const;

  Options options_;
  Team& team_;
  at::Device device_;
  Batches batches_;
  Optimizer optimizer_;
  std::optional<Average> average_;
  std::optional<LossScale> scale_;
  std::optional<adapter::DataParallel> parallel_;
};

Learner::Machine::Machine(const Options& options, Team& team, const DataTraits& data)
    : model_(make_resnet(shape_of(options, team, data))),
      options_(options),
      team_(team),
      device_(options.device),
      batches_(data.normalisation, model_->parameters().front().tensor.scalar_type(), device_, options.channels_last),
      optimizer_(model_->parameters(), options) {
  if (options_.parallel != Parallel::none) lay_out(options_.bucket_cap_mb);
  if (options_.average_decay > 0) average_.emplace(*model_, options_.average_decay);
  if (options_.precision == Precision::fp16) scale_.emplace(options_.loss_scale);
}

void Learner::Machine::lay_out(double bucket_cap_mb) {
  options_.bucket_cap_mb = bucket_cap_mb;
  parallel_.reset();  // a parameter belongs to one layer
  parallel_.emplace(team_.comm(), model_->parameters(), model_->buffers(), exchange_options(options_));
}

double Learner::Machine::exchange_alone() {
  team_.barrier();
  const double begin = report::now();
  parallel_->exchange_alone();
  parallel_->after_update();
  return report::now() - begin;
}

void Learner::Machine::prepare(const StepPlan& plan) {
  model_->set_training(true);
  if (parallel_ && plan.exchange == Exchange::detached) {
    parallel_->detach();
  } else if (parallel_) {
    if (options_.join && exchanges(plan)) parallel_->layer().join(static_cast<double>(plan.images));
    parallel_->begin_step();
  } else {
    for (const NamedTensor& parameter : model_->parameters()) parameter.tensor.mutable_grad() = at::Tensor();
  }
}

StepResult Learner::Machine::step(Feed& feed, const StepPlan& plan) {
  StepResult result;
  result.times.number = plan.number;
  result.times.images = static_cast<double>(plan.images);
  prepare(plan);
  double loss = 0;
  for (int index = 0; index < plan.passes; ++index) loss += pass(feed, plan, index, result.times);
  if (exchanges(plan)) exchange(result.times);
  const double begin = report::now();
  agree(plan, loss, scale_ && unscale(), result);
  update(plan, result);
  result.times.spans.push_back({report::Phase::optimizer, begin, report::now()});
  if (parallel_ && plan.exchange == Exchange::detached) parallel_->attach();
  return result;
}

/// One batch forward and backward; its share of the step's loss.
double Learner::Machine::pass(Feed& feed, const StepPlan& plan, int index, report::Step& times) {
  const double begin = report::now();
  const data::Batch* batch = feed.next();
  Inputs inputs = batches_.inputs(*batch);
  double share = 1;
  if (options_.mixup > 0) {
    share = mix(inputs, options_.mixup, options_.seed, static_cast<std::uint64_t>(team_.rank()),
                plan.first_pass + static_cast<std::uint64_t>(index));
  }
  const double weight = static_cast<double>(batch->count) / static_cast<double>(plan.images);
  const double loaded = report::now();
  at::Tensor loss;
  {
    const Autocast autocast(device_.type(), options_.precision);
    loss = loss_of(model_->forward(inputs.images), inputs.labels, share, options_.smoothing).mul(weight);
  }
  const double value = loss.item<double>();
  const double forwarded = report::now();
  backward(scale_ ? loss.mul(scale_->scale()) : loss, exchanges(plan) && index + 1 == plan.passes);
  times.spans.push_back({report::Phase::data, begin, loaded});
  times.spans.push_back({report::Phase::forward, loaded, forwarded});
  times.spans.push_back({report::Phase::backward, forwarded, report::now()});
  return value;
}

void Learner::Machine::backward(const at::Tensor& loss, bool exchanged) {
  if (parallel_ && !exchanged) {
    const auto pause = parallel_->no_sync();
    loss.backward();
  } else {
    loss.backward();
  }
}

void Learner::Machine::exchange(report::Step& times) {
  const data_parallel::Step step = parallel_->finish();
  times.spans.push_back({report::Phase::exposed, seconds_of(step.called), seconds_of(step.finished)});
  for (const data_parallel::BucketTime& bucket : step.buckets) {
    times.buckets.push_back({static_cast<double>(bucket.bytes), seconds_of(bucket.ready), seconds_of(bucket.start),
                             seconds_of(bucket.end)});
  }
}

/// Divides gradients by the loss scale; whether one is infinite or no number.
bool Learner::Machine::unscale() {
  const at::NoGradGuard no_gradients;
  std::vector<at::Tensor> gradients;
  for (const NamedTensor& parameter : model_->parameters()) {
    if (parameter.tensor.grad().defined()) gradients.push_back(parameter.tensor.grad());
  }
  if (gradients.empty()) return false;
  at::Tensor found = at::zeros({1}, at::TensorOptions(at::kFloat).device(device_));
  const at::Tensor inverse = at::full({1}, 1 / scale_->scale(), at::TensorOptions(at::kFloat).device(device_));
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse);
  return found.item<float>() != 0;
}

/// Fills in what all ranks that train together see alike.
void Learner::Machine::agree(const StepPlan& plan, double loss, bool overflowed, StepResult& result) {
  const double images = static_cast<double>(plan.images);
  const bool number = std::isfinite(loss);
  std::array<double, Exchanged::count> sums{images,
                                            number ? loss * images : 0,
                                            overflowed ? 1.0 : 0.0,
                                            number ? 0.0 : 1.0,
                                            plan.signal == SIGINT ? 1.0 : 0.0,
                                            plan.signal != 0 && plan.signal != SIGINT ? 1.0 : 0.0};
  if (exchanges(plan)) team_.sum(sums);
  const Exchanged all{sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]};
  result.loss = all.loss / all.images;
  result.updated = all.overflowed == 0;
  result.signal = all.terminated > 0 ? SIGTERM : all.interrupted > 0 ? SIGINT : 0;
  // With a loss scale a forward pass may overflow; the step is then left out, and the scale becomes smaller.
  if (all.no_number > 0 && (!scale_ || result.updated)) {
    throw CommonError("the loss of step " + std::to_string(plan.number) + " is no number on " +
                      std::to_string(static_cast<int>(all.no_number)) + " of " +
                      std::to_string(exchanges(plan) ? team_.ranks() : 1) +
                      " ranks: try a lower --lr, a longer --warmup-epochs or --clip-grad");
  }
}

double Learner::Machine::clip(bool exchanged) {
  if (exchanged) return parallel_->layer().clip(options_.clip);
  const at::NoGradGuard no_gradients;
  double squares = 0;
  for (const NamedTensor& parameter : model_->parameters()) {
    const double norm = at::linalg_vector_norm(parameter.tensor.grad()).item<double>();
    squares += norm * norm;
  }
  const double norm = std::sqrt(squares);
  if (norm > options_.clip) {
    for (const NamedTensor& parameter : model_->parameters())
      parameter.tensor.mutable_grad().mul_(options_.clip / norm);
  }
  return norm;
}

void Learner::Machine::update(const StepPlan& plan, StepResult& result) {
  if (scale_) scale_->update(!result.updated);
  if (result.updated) {
    if (options_.clip > 0) result.norm = clip(exchanges(plan));
    if (!exchanges(plan) || parallel_->layer().updates()) optimizer_.step(plan.rate);
  }
  if (exchanges(plan)) parallel_->after_update();
  if (result.updated && average_) average_->update();
}

Scores Learner::Machine::evaluate(Feed& feed, const std::function<bool()>& enough) {
  const at::NoGradGuard no_gradients;
  if (average_) average_->swap();
  model_->set_training(false);
  Scores scores;
  for (const data::Batch* batch = feed.next(); batch != nullptr && !enough(); batch = feed.next()) {
    const Inputs inputs = batches_.inputs(*batch);
    const Autocast autocast(device_.type(), options_.precision);
    const at::Tensor output = model_->forward(inputs.images);
    const double count = static_cast<double>(batch->count);
    scores.images += count;
    scores.correct += output.argmax(1).eq(inputs.labels).sum().item<double>();
    scores.loss += loss_of(output, inputs.labels, 1, 0).item<double>() * count;
  }
  if (average_) average_->swap();
  return scores;
}

std::vector<NamedTensor> Learner::Machine::kept() const {
  std::vector<NamedTensor> all = model_->parameters();
  const auto add = [&](const std::vector<NamedTensor>& more) { all.insert(all.end(), more.begin(), more.end()); };
  add(model_->buffers());
  add(optimizer_.state());
  if (average_) add(average_->state());
  return all;
}

Learner::Snapshot Learner::Machine::snapshot() const {
  const at::NoGradGuard no_gradients;
  Snapshot snapshot;
  const auto copies = std::make_shared<std::vector<at::Tensor>>();
  for (const NamedTensor& named : kept()) {
    // Rows first, whatever the layout in memory: a checkpoint does not depend on --channels-last.
    copies->push_back(named.tensor.detach().to(at::kCPU).contiguous());
    const at::Tensor& copy = copies->back();
    snapshot.tensors.push_back({named.name,
                                c10::toString(copy.scalar_type()),
                                copy.sizes().vec(),
                                {static_cast<const std::byte*>(copy.const_data_ptr()), copy.nbytes()}});
  }
  if (scale_) snapshot.state["loss_scale"] = {scale_->scale(), scale_->good_steps()};
  snapshot.memory = copies;
  return snapshot;
}

void Learner::Machine::restore(const Checkpoint& checkpoint) {
  const at::NoGradGuard no_gradients;
  for (const NamedTensor& named : kept()) {
    const std::string type = c10::toString(named.tensor.scalar_type());
    const std::vector<std::int64_t> shape = named.tensor.sizes().vec();
    const std::span<const std::byte> bytes = checkpoint.tensor(named.name, type, shape);
    const at::Tensor copy = at::from_blob(const_cast<std::byte*>(bytes.data()), shape, named.tensor.scalar_type());
    named.tensor.detach().copy_(copy);
  }
  if (scale_ && checkpoint.state().contains("loss_scale")) {
    const nlohmann::json& kept_scale = checkpoint.state()["loss_scale"];
    scale_->restore(kept_scale.at(0), kept_scale.at(1));
  }
}

namespace {

/// torch's errors without the places in torch that they came through.
template <typename Work>
auto in_words(Work&& work) {
  try {
    return work();
  } catch (const c10::Error& error) {
    throw Error(error.what_without_backtrace());
  }
}

}  // namespace

Learner::Learner(const Options& options, Team& team, const DataTraits& data) {
  at::set_num_threads(options.threads);
  machine_ = in_words([&] { return std::make_unique<Machine>(options, team, data); });
}
Learner::~Learner() = default;
StepResult Learner::step(Feed& feed, const StepPlan& plan) {
  return in_words([&] { return machine_->step(feed, plan); });
}
Scores Learner::evaluate(Feed& feed, const std::function<bool()>& enough) {
  return in_words([&] { return machine_->evaluate(feed, enough); });
}
void Learner::lay_out(double bucket_cap_mb) {
  in_words([&] { machine_->lay_out(bucket_cap_mb); });
}
double Learner::exchange_alone() {
  return in_words([&] { return machine_->exchange_alone(); });
}
Learner::Snapshot Learner::snapshot() const {
  return in_words([&] { return machine_->snapshot(); });
}
void Learner::restore(const Checkpoint& checkpoint) {
  in_words([&] { machine_->restore(checkpoint); });
}
std::function<data::Memory(std::size_t bytes)> Learner::batch_memory() const { return machine_->batch_memory(); }
std::int64_t Learner::parameter_count() const {
  std::int64_t count = 0;
  for (const NamedTensor& parameter : machine_->model_->parameters()) count += parameter.tensor.numel();
  return count;
}
double Learner::gradient_bytes() const {
  return static_cast<double>(parameter_count()) *
         static_cast<double>(machine_->model_->parameters().front().tensor.element_size());
}

}  // namespace rondo::trainer
