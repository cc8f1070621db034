// The ResNets: see resnet.h.
#include "tools/trainer/resnet.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max_pool2d.h>
#include <c10/core/GradMode.h>

#include <array>
#include <cmath>
#include <numeric>

#include "tools/trainer/recompute.h"

namespace rondo::trainer {
namespace {

struct Convolution {
  at::Tensor weight;
  std::int64_t stride;
  at::Tensor operator()(const at::Tensor& x) const {
    const std::int64_t padding = weight.size(2) / 2;
    return at::conv2d(x, weight, {}, {stride, stride}, {padding, padding});
  }
};

struct Normalisation {
  at::Tensor weight, bias, mean, variance;
};

/// The branch of a block ends in a norm without an activation; `down` brings the input to the branch's shape.
struct Block {
  std::vector<Convolution> convolutions;
  std::vector<Normalisation> norms;
  bool has_down = false;
  Convolution down;
  Normalisation down_norm;
};

constexpr double running_momentum = 0.1;
constexpr double epsilon = 1e-5;
constexpr int expansion = 4;  // of a bottleneck
constexpr int groups_max = 32;

class ResNet final : public Model {
 public:
  explicit ResNet(const ResNetShape& shape)
      : shape_(shape), generator_(at::make_generator<at::CPUGeneratorImpl>(shape.seed)) {
    const at::NoGradGuard no_gradients;
    const Depth& depth = depth_of(shape.depth);
    stem_ = convolution("conv1", shape.channels, shape.width, shape.small_stem ? 3 : 7, shape.small_stem ? 1 : 2);
    stem_norm_ = norm("bn1", shape.width, 1);
    int in = shape.width;
    for (int stage = 0; stage < 4; ++stage) {
      const int width = shape.width << stage;
      for (int index = 0; index < depth.blocks[static_cast<std::size_t>(stage)]; ++index) {
        const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(index);
        blocks_.push_back(block(name, in, width, stage > 0 && index == 0 ? 2 : 1, depth.bottleneck));
        in = depth.bottleneck ? width * expansion : width;
      }
    }
    const double bound = 1 / std::sqrt(in);
    weight_ = add_parameter("fc.weight",
                            placed(at::empty({shape.classes, in}, drawn_as()).uniform_(-bound, bound, generator_)));
    bias_ =
        add_parameter("fc.bias", placed(at::empty({shape.classes}, drawn_as()).uniform_(-bound, bound, generator_)));
  }

  at::Tensor forward(const at::Tensor& images) override {
    at::Tensor x = normalised(stem_norm_, stem_(images), true).relu_();
    if (!shape_.small_stem) x = at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1});
    for (const Block& block : blocks_) {
      if (shape_.recompute && training() && at::GradMode::is_enabled()) {
        x = recomputed(x, [this, &block](const at::Tensor& input, bool first) { return through(block, input, first); });
      } else {
        x = through(block, x, true);
      }
    }
    return at::linear(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1), weight_, bias_);
  }

 private:
  struct Depth {
    int depth;
    std::array<int, 4> blocks;
    bool bottleneck;
  };
  static const Depth& depth_of(int depth) {
    static constexpr std::array<Depth, 5> table{{{18, {2, 2, 2, 2}, false},
                                                 {34, {3, 4, 6, 3}, false},
                                                 {50, {3, 4, 6, 3}, true},
                                                 {101, {3, 4, 23, 3}, true},
                                                 {152, {3, 8, 36, 3}, true}}};
    for (const Depth& row : table) {
      if (row.depth == depth) return row;
    }
    TORCH_CHECK(false, "there is no ResNet-", depth);
  }

  /// Values are drawn on the CPU in float64, so that they are the same for every type and device.
  static at::TensorOptions drawn_as() { return at::TensorOptions(at::kDouble); }
  at::TensorOptions kept_as() const { return at::TensorOptions(shape_.type).device(shape_.device); }
  at::Tensor placed(const at::Tensor& drawn) const { return drawn.to(shape_.device, shape_.type, false, true); }

  Convolution convolution(const std::string& name, int in, int out, int size, int stride) {
    const double deviation = std::sqrt(2.0 / (double(out) * size * size));
    at::Tensor weight = placed(at::empty({out, in, size, size}, drawn_as()).normal_(0, deviation, generator_));
    if (shape_.channels_last) weight = weight.contiguous(at::MemoryFormat::ChannelsLast);
    return {add_parameter(name + ".weight", weight), stride};
  }

  Normalisation norm(const std::string& name, int channels, double weight) {
    Normalisation result;
    result.weight = add_parameter(name + ".weight", at::full({channels}, weight, kept_as()));
    result.bias = add_parameter(name + ".bias", at::full({channels}, 0, kept_as()));
    if (shape_.norm != Norm::group) {
      result.mean = add_buffer(name + ".running_mean", at::full({channels}, 0, kept_as()));
      result.variance = add_buffer(name + ".running_var", at::full({channels}, 1, kept_as()));
    }
    return result;
  }

  Block block(const std::string& name, int in, int width, int stride, bool bottleneck) {
    Block result;
    const int out = bottleneck ? width * expansion : width;
    const auto add = [&](int from, int to, int size, int step, bool last) {
      const std::string number = std::to_string(result.convolutions.size() + 1);
      result.convolutions.push_back(convolution(name + ".conv" + number, from, to, size, step));
      result.norms.push_back(norm(name + ".bn" + number, to, last ? 0 : 1));
    };
    if (bottleneck) {
      add(in, width, 1, 1, false);
      add(width, width, 3, stride, false);
      add(width, out, 1, 1, true);
    } else {
      add(in, width, 3, stride, false);
      add(width, width, 3, 1, true);
    }
    result.has_down = stride != 1 || in != out;
    if (result.has_down) {
      result.down = convolution(name + ".downsample.0", in, out, 1, stride);
      result.down_norm = norm(name + ".downsample.1", out, 1);
    }
    return result;
  }

  /// `first`: running values note the batch; not when a block is computed again.
  at::Tensor normalised(const Normalisation& norm, const at::Tensor& x, bool first) const {
    if (shape_.norm == Norm::group) {
      return at::group_norm(x, std::gcd<std::int64_t>(groups_max, x.size(1)), norm.weight, norm.bias, epsilon);
    }
    const at::Tensor mean = first ? norm.mean : at::Tensor();
    const at::Tensor variance = first ? norm.variance : at::Tensor();
    if (shape_.norm == Norm::sync && training()) {
      return shape_.synchronised_norm(x, norm.weight, norm.bias, mean, variance, running_momentum, epsilon);
    }
    return at::batch_norm(x, norm.weight, norm.bias, mean, variance, training(), running_momentum, epsilon, true);
  }

  at::Tensor through(const Block& block, const at::Tensor& x, bool first) const {
    at::Tensor y = x;
    for (std::size_t i = 0; i < block.convolutions.size(); ++i) {
      y = normalised(block.norms[i], block.convolutions[i](y), first);
      if (i + 1 < block.convolutions.size()) y = y.relu_();
    }
    return y.add(block.has_down ? normalised(block.down_norm, block.down(x), first) : x).relu_();
  }

  ResNetShape shape_;
  at::Generator generator_;
  Convolution stem_;
  Normalisation stem_norm_;
  std::vector<Block> blocks_;
  at::Tensor weight_, bias_;
};

}  // namespace

std::unique_ptr<Model> make_resnet(const ResNetShape& shape) { return std::make_unique<ResNet>(shape); }

}  // namespace rondo::trainer
