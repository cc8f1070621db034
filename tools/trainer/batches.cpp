// Batches as tensors, and mixup: see batches.h.
#include "tools/trainer/batches.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "tools/trainer/data/random.h"

namespace rondo::trainer {
namespace {

/// One value a channel, in the shape that broadcasts over [images, channels, height, width].
at::Tensor per_channel(const std::vector<double>& values, at::ScalarType type, at::Device device) {
  const auto channels = static_cast<std::int64_t>(values.size());
  return at::from_blob(const_cast<double*>(values.data()), {1, channels, 1, 1}, at::kDouble)
      .to(at::TensorOptions(type).device(device), false, true);
}

/// data::Random in the shape that the standard library's distributions want.
struct Source {
  using result_type = std::uint64_t;
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()() { return random.next(); }
  data::Random random;
};

}  // namespace

Batches::Batches(const data::Normalisation& normalisation, at::ScalarType type, at::Device device, bool channels_last)
    : device_(device), channels_last_(channels_last) {
  std::vector<double> factors;
  std::vector<double> offsets;
  for (std::size_t i = 0; i < normalisation.mean.size(); ++i) {
    factors.push_back(1 / (255.0 * double(normalisation.deviation[i])));
    offsets.push_back(-double(normalisation.mean[i]) / double(normalisation.deviation[i]));
  }
  factor_ = per_channel(factors, type, device);
  offset_ = per_channel(offsets, type, device);
}

Inputs Batches::inputs(const data::Batch& batch) const {
  const auto count = static_cast<std::int64_t>(batch.count);
  const data::Shape& shape = batch.shape;
  const at::Tensor bytes = at::from_blob(const_cast<std::uint8_t*>(batch.pixels),
                                         {count, shape.height, shape.width, shape.channels}, at::kByte)
                               .permute({0, 3, 1, 2});
  const at::Tensor labels = at::from_blob(const_cast<std::int64_t*>(batch.labels), {count}, at::kLong);
  const at::Tensor there = bytes.to(device_, bytes.scalar_type(), true);  // as bytes, a quarter of the way
  const auto layout = channels_last_ ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  at::Tensor images = there.to(factor_.options(), false, true).mul_(factor_).add_(offset_).contiguous(layout);
  return {std::move(images), labels.to(device_, labels.scalar_type(), true, true)};
}

std::function<data::Memory(std::size_t bytes)> batch_memory(at::Device device) {
  if (!device.is_cuda()) return {};
  return [](std::size_t bytes) {
    const auto options = at::TensorOptions(at::kByte).pinned_memory(true);
    auto pinned = std::make_unique<at::Tensor>(at::empty({static_cast<std::int64_t>(bytes)}, options));
    std::uint8_t* const memory = pinned->mutable_data_ptr<std::uint8_t>();
    return data::Memory(memory, [owner = pinned.release()](std::uint8_t*) { delete owner; });
  };
}

double mix(Inputs& inputs, double alpha, std::uint64_t seed, std::uint64_t rank, std::uint64_t pass) {
  constexpr std::uint64_t use = 0x6d69787570;  // unlike those of data::Use
  Source source{data::Random{use, seed, rank, pass}};
  std::gamma_distribution<double> gamma(alpha, 1);
  const double first = gamma(source);
  const double second = gamma(source);
  const double share = first + second > 0 ? first / (first + second) : 0.5;
  inputs.images = inputs.images.mul(share).add_(inputs.images.flip(0), 1 - share);
  return share;
}

at::Tensor loss_of(const at::Tensor& scores, const at::Tensor& labels, double share, double smoothing) {
  const at::Tensor wide = scores.scalar_type() == at::kDouble ? scores : scores.to(at::kFloat);
  const auto loss = [&](const at::Tensor& targets) {
    return at::cross_entropy_loss(wide, targets, {}, at::Reduction::Mean, -100, smoothing);
  };
  return share < 1 ? loss(labels).mul(share).add(loss(labels.flip(0)), 1 - share) : loss(labels);
}

}  // namespace rondo::trainer
