// A model as the trainer sees it: named tensors, and a function from images to scores.  Tensors keep their storage for
// the model's life, so that others may hold on to them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "tools/trainer/adapter/adapter.h"

namespace rondo::trainer {

using adapter::NamedTensor;

class Model {
 public:
  virtual ~Model() = default;
  /// Scores [images, classes] of images [images, channels, height, width], with the graph that backward needs.
  virtual at::Tensor forward(const at::Tensor& images) = 0;

  /// Trained, in the order of use in forward.
  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  /// Not trained: running means and variances.
  const std::vector<NamedTensor>& buffers() const { return buffers_; }

  /// Whether norms use the batch at hand (and note it) or what they have noted.
  void set_training(bool training) { training_ = training; }
  bool training() const { return training_; }

 protected:
  at::Tensor add_parameter(std::string name, at::Tensor tensor) {
    parameters_.push_back({std::move(name), tensor.set_requires_grad(true)});
    return tensor;
  }
  at::Tensor add_buffer(std::string name, at::Tensor tensor) {
    buffers_.push_back({std::move(name), tensor});
    return tensor;
  }

 private:
  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> buffers_;
  bool training_ = true;
};

}  // namespace rondo::trainer
