// ResNet-18, -34, -50, -101 and -152 (He et al. 2015) with the stride in a bottleneck's 3x3 convolution, as torchvision
// and timm build them; tensors have torchvision's names.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "tools/trainer/model.h"
#include "tools/trainer/options.h"

namespace rondo::trainer {

/// Normalises a batch over all ranks: input, weight, bias, running mean, running variance (undefined: not noted),
/// momentum of the running values, epsilon.
using SynchronisedNorm = std::function<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                                  const at::Tensor&, const at::Tensor&, double, double)>;

struct ResNetShape {
  int depth = 50;
  int classes = 1000;
  int channels = 3;         // of an image
  int width = 64;           // channels of the stem
  bool small_stem = false;  // 3x3 without stride and pool, for images of about 32 pixels
  Norm norm = Norm::batch;
  SynchronisedNorm synchronised_norm;  // where norm is Norm::sync
  bool channels_last = false;
  bool recompute = false;  // of each block only the input is kept for backward
  at::ScalarType type = at::kFloat;
  at::Device device = at::kCPU;
  std::uint64_t seed = 0;
};

/// Convolutions are drawn by He's rule (fan out), the last norm of each block starts at zero, so that blocks begin as
/// the identity (Goyal et al. 2017).
std::unique_ptr<Model> make_resnet(const ResNetShape& shape);

}  // namespace rondo::trainer
