// Batch normalisation over all ranks: each rank's sums of its own batch, one all-reduce of 2 channels + 1 float64
// numbers forward and one of 2 channels backward.
//
// With N elements a channel over all ranks, d = gradient of the output, m = mean, i = 1 / sqrt(variance + epsilon):
// gradient of the input = weight i (d - sum(d) / N - (x - m) i^2 sum(d (x - m)) / N), sums over all ranks.
#include "tools/trainer/adapter/sync_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/var_mean.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "tools/trainer/data_parallel/handles.h"

namespace rondo::adapter {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The sum over ranks, in place.
void sum_over_ranks(const at::Tensor& sums, ncclComm_t comm) {
  data_parallel::require(ncclAllReduce(sums.data_ptr(), sums.data_ptr(), static_cast<std::size_t>(sums.numel()),
                                       ncclFloat64, ncclSum, comm, nullptr),
                         comm, "sum statistics of a batch over ranks");
}

/// [channels] as [1, channels, 1, ...].
at::Tensor along_channels(const at::Tensor& values, const at::Tensor& like) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(like.dim()), 1);
  shape[1] = values.numel();
  return values.to(like.scalar_type()).view(shape);
}

struct SyncNorm : torch::autograd::Function<SyncNorm> {
  /// Tensors that may be undefined come as optional ones, as Function wants it.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const std::optional<at::Tensor>& given_weight, const std::optional<at::Tensor>& given_bias,
                            const std::optional<at::Tensor>& given_mean,
                            const std::optional<at::Tensor>& given_variance, double momentum, double epsilon,
                            std::int64_t comm) {
    const at::Tensor weight = given_weight.value_or(at::Tensor());
    const at::Tensor bias = given_bias.value_or(at::Tensor());
    const at::Tensor running_mean = given_mean.value_or(at::Tensor());
    const at::Tensor running_variance = given_variance.value_or(at::Tensor());
    std::vector<std::int64_t> all_but_channels{0};
    for (std::int64_t i = 2; i < input.dim(); ++i) all_but_channels.push_back(i);
    const std::int64_t channels = input.size(1);
    const auto count_here = static_cast<double>(input.numel() / channels);
    const at::Tensor wide = at::isReducedFloatingType(input.scalar_type()) ? input.to(at::kFloat) : input;
    const auto [variance_here, mean_here] = at::var_mean(wide, all_but_channels, false);
    const at::Tensor mean_64 = mean_here.to(at::kDouble);
    const at::Tensor square_64 = variance_here.to(at::kDouble) + mean_64 * mean_64;
    const at::Tensor sums = at::cat({mean_64, square_64, at::ones({1}, mean_64.options())}).mul_(count_here);
    sum_over_ranks(sums, reinterpret_cast<ncclComm_t>(comm));
    const double count = sums[2 * channels].item<double>();
    const at::Tensor mean = sums.slice(0, 0, channels) / count;
    const at::Tensor variance = (sums.slice(0, channels, 2 * channels) / count - mean * mean).clamp_min_(0);
    if (running_mean.defined()) {
      running_mean.mul_(1 - momentum).add_(mean.to(running_mean.scalar_type()), momentum);
      const at::Tensor unbiased = variance * (count / std::max(count - 1, 1.0));
      running_variance.mul_(1 - momentum).add_(unbiased.to(running_variance.scalar_type()), momentum);
    }
    const at::ScalarType type = weight.defined() ? weight.scalar_type() : input.scalar_type();
    const at::Tensor mean_typed = mean.to(type);
    context->save_for_backward({input, weight, mean, (variance + epsilon).rsqrt_()});
    context->saved_data["count"] = count;
    context->saved_data["comm"] = comm;
    return at::batch_norm(input, weight, bias, mean_typed, variance.to(type), false, 0, epsilon, false);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor& mean = saved[2];
    const at::Tensor& inverse = saved[3];
    const at::Tensor output_gradient = gradients[0].contiguous(input.suggest_memory_format());
    const std::int64_t channels = mean.numel();
    const double count = context->saved_data["count"].toDouble();
    const at::ScalarType type = weight.defined() ? weight.scalar_type() : input.scalar_type();
    // With a weight of ones: it gives the sums of d (x - m) i and of d.
    const at::Tensor ones = at::ones({channels}, input.options().dtype(type));
    const auto [none, weight_gradient, bias_gradient] = at::native_batch_norm_backward(
        output_gradient, input, ones, {}, {}, mean.to(type), inverse.to(type), true, 0, {false, true, true});
    const at::Tensor sums = at::cat({bias_gradient.to(at::kDouble), weight_gradient.to(at::kDouble)});
    sum_over_ranks(sums, reinterpret_cast<ncclComm_t>(context->saved_data["comm"].toInt()));
    at::Tensor input_gradient;
    if (context->needs_input_grad(0)) {
      const at::Tensor sum = sums.slice(0, 0, channels) / count;
      const at::Tensor tilt = sums.slice(0, channels, 2 * channels) / count * inverse;
      const at::Tensor factor = weight.defined() ? weight.to(at::kDouble) * inverse : inverse;
      input_gradient = output_gradient * along_channels(factor, input);
      input_gradient.sub_(input * along_channels(factor * tilt, input));
      input_gradient.add_(along_channels(factor * (tilt * mean - sum), input));
    }
    if (!weight.defined()) return {input_gradient, {}, {}, {}, {}, {}, {}, {}};
    return {input_gradient, weight_gradient, bias_gradient, {}, {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor sync_batch_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                           const at::Tensor& running_mean, const at::Tensor& running_variance, double momentum,
                           double epsilon, ncclComm_t comm) {
  const auto optional = [](const at::Tensor& tensor) {
    return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
  };
  return SyncNorm::apply(input, optional(weight), optional(bias), optional(running_mean), optional(running_variance),
                         momentum, epsilon, reinterpret_cast<std::int64_t>(comm));
}

}  // namespace rondo::adapter
