// Stochastic gradient descent and the running average: see optimizer.h.
#include "tools/trainer/optimizer.h"

#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

namespace rondo::trainer {

Optimizer::Optimizer(const std::vector<NamedTensor>& parameters, const Options& options)
    : parameters_(parameters),
      momentum_(options.momentum),
      decay_(options.weight_decay),
      decay_all_(options.decay_all),
      nesterov_(options.nesterov) {
  const at::NoGradGuard no_gradients;
  for (const NamedTensor& parameter : parameters_) {
    velocities_.push_back({"momentum." + parameter.name, at::zeros_like(parameter.tensor)});
  }
}

void Optimizer::step(double rate) {
  const at::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& value = parameters_[i].tensor;
    at::Tensor& velocity = velocities_[i].tensor;
    const at::Tensor& gradient = value.grad();
    if (!gradient.defined()) continue;
    const double decay = decay_all_ || value.dim() > 1 ? decay_ : 0;
    velocity.mul_(momentum_).add_(gradient);
    if (decay != 0) velocity.add_(value, decay);
    if (nesterov_) {
      // Before `value` changes: its decay belongs to the gradient.
      if (decay != 0) value.mul_(1 - rate * decay);
      value.add_(gradient, -rate);
      value.add_(velocity, -rate * momentum_);
    } else {
      value.add_(velocity, -rate);
    }
  }
}

Average::Average(const Model& model, double decay) : sources_(model.parameters()), decay_(decay) {
  sources_.insert(sources_.end(), model.buffers().begin(), model.buffers().end());
  for (const NamedTensor& source : sources_) {
    averages_.push_back({"average." + source.name, source.tensor.detach().clone()});
  }
}

void Average::update() {
  const at::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].tensor.is_floating_point()) {
      averages_[i].tensor.lerp_(sources_[i].tensor, 1 - decay_);
    } else {
      averages_[i].tensor.copy_(sources_[i].tensor);
    }
  }
}

void Average::swap() {
  const at::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const at::Tensor kept = sources_[i].tensor.clone();
    sources_[i].tensor.copy_(averages_[i].tensor);
    averages_[i].tensor.copy_(kept);
  }
}

}  // namespace rondo::trainer
