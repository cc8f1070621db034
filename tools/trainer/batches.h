// From the loader's bytes to what the model takes: on its device, of its type, normalised; and mixup.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "tools/trainer/data/loader.h"
#include "tools/trainer/options.h"

namespace rondo::trainer {

struct Inputs {
  at::Tensor images;
  at::Tensor labels;
};

class Batches {
 public:
  Batches(const data::Normalisation& normalisation, at::ScalarType type, at::Device device, bool channels_last);
  /// The batch's bytes are read before it returns; on a device, before the next value is read from there.
  Inputs inputs(const data::Batch& batch) const;

 private:
  at::Tensor factor_;  // 1 / (255 deviation), one a channel
  at::Tensor offset_;  // -mean / deviation
  at::Device device_;
  bool channels_last_;
};

/// For data::Loading: memory that the device reads by itself, or nothing, where plain memory serves.
std::function<data::Memory(std::size_t bytes)> batch_memory(at::Device device);

/// Mixup (Zhang et al. 2017): each image becomes share * itself + (1 - share) * its partner from the batch's other end.
/// The share is drawn from beta(alpha, alpha) by (seed, rank, pass).  Changes `inputs.images`; the share.
double mix(Inputs& inputs, double alpha, std::uint64_t seed, std::uint64_t rank, std::uint64_t pass);

/// Cross entropy with smoothed labels; with share < 1, of both partners' labels.
at::Tensor loss_of(const at::Tensor& scores, const at::Tensor& labels, double share, double smoothing);

}  // namespace rondo::trainer
