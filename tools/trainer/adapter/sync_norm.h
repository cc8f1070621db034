// Batch normalisation over the batches of all ranks, so that training does not depend on how a batch is spread.
#pragma once

#include <ATen/core/Tensor.h>

#include "nccl.h"

namespace rondo::adapter {

/// Normalises `input` [samples, channels, ...] by mean and variance over all ranks' inputs, as batch_norm does in
/// training over one.  weight, bias: [channels] or both undefined.  running_mean, running_variance: updated with
/// `momentum` (the variance without bias), or both undefined.  Every rank calls, in forward and in backward, in the
/// same order; ranks may have different numbers of samples.  Gradients are those of the sum of all ranks' losses; after
/// the layer's mean, of the mean.  Blocks.  `comm` serves nothing else meanwhile: give it a communicator of its own, as
/// backward uses it while buckets are on their way.  Throws data_parallel::Error.
at::Tensor sync_batch_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                           const at::Tensor& running_mean, const at::Tensor& running_variance, double momentum,
                           double epsilon, ncclComm_t comm);

}  // namespace rondo::adapter
