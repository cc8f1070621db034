// Stochastic gradient descent with momentum, and the running average of a model (EMA).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tools/trainer/model.h"
#include "tools/trainer/options.h"

namespace rondo::trainer {

class Optimizer {
 public:
  /// Momentum, weight decay and Nesterov's variant as `options` say.  Without decay_all, parameters of one dimension
  /// (norms, biases) do not decay.
  Optimizer(const std::vector<NamedTensor>& parameters, const Options& options);

  /// Updates each parameter that has a gradient: v = momentum v + g + decay p; p -= rate v (Nesterov: rate (g + decay p
  /// + momentum v)).
  void step(double rate);

  /// The velocities, named "momentum.NAME": zeros before the first step.
  const std::vector<NamedTensor>& state() const { return velocities_; }

 private:
  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> velocities_;
  double momentum_;
  double decay_;
  bool decay_all_;
  bool nesterov_;
};

/// a = decay a + (1 - decay) p, after each step, for parameters and for buffers: a norm's running mean and
/// variance are those of the averaged weights only if they lag as far.  Integers are taken as they are.
class Average {
 public:
  Average(const Model& model, double decay);
  void update();
  /// The averages, named "average.NAME".
  const std::vector<NamedTensor>& state() const { return averages_; }
  /// Exchanges the model's values and the averages, for an evaluation; a second call undoes the first.
  void swap();

 private:
  std::vector<NamedTensor> sources_;   // of the model: parameters, then buffers
  std::vector<NamedTensor> averages_;  // in the same order
  double decay_;
};

}  // namespace rondo::trainer
