// Batch normalisation over ranks equals batch normalisation of the whole batch on one: output, gradients, running
// values; with unequal shares, without weights, and for channels-last images.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>

#include "tests/data_parallel/ranks.h"
#include "tools/trainer/adapter/sync_norm.h"

namespace {

struct Case {
  std::vector<std::int64_t> shares;
  bool weights = true;
  bool channels_last = false;
};

/// One rank's tensors, from which everything is compared.
struct Result {
  at::Tensor output, input_gradient, weight_gradient, bias_gradient, mean, variance;
};

struct Inputs {
  at::Tensor images, weight, bias, target;
};
Inputs inputs() {
  const at::Generator generator = at::detail::createCPUGenerator(3);
  return {at::randn({8, 5, 4, 6}, generator, at::kDouble) + 3, at::randn({5}, generator, at::kDouble),
          at::randn({5}, generator, at::kDouble), at::randn({8, 5, 4, 6}, generator, at::kDouble)};
}

template <class Normalise>
Result run(const Case& one, std::int64_t begin, std::int64_t end, Normalise normalise) {
  at::set_num_threads(1);
  const Inputs all = inputs();
  const auto leaf = [](const at::Tensor& tensor) { return tensor.detach().clone().set_requires_grad(true); };
  at::Tensor images = all.images.slice(0, begin, end);
  if (one.channels_last) images = images.contiguous(at::MemoryFormat::ChannelsLast);
  images = leaf(images);
  const at::Tensor weight = one.weights ? leaf(all.weight) : at::Tensor();
  const at::Tensor bias = one.weights ? leaf(all.bias) : at::Tensor();
  Result result{{}, {}, {}, {}, at::zeros({5}, at::kDouble), at::ones({5}, at::kDouble)};
  result.output = normalise(images, weight, bias, result.mean, result.variance);
  (result.output * result.output * all.target.slice(0, begin, end)).sum().backward();
  result.input_gradient = images.grad();
  if (one.weights) {
    result.weight_gradient = weight.grad();
    result.bias_gradient = bias.grad();
  }
  result.output = result.output.detach();
  return result;
}

bool close(const at::Tensor& a, const at::Tensor& b) { return a.sub(b).abs().max().item<double>() < 1e-10; }

TEST_CASE("batch normalisation over ranks is that of the whole batch") {
  for (const Case& one : {Case{{4, 4}}, Case{{5, 1, 2}, true, true}, Case{{1, 7}, false}, Case{{8}}}) {
    const Result whole = run(one, 0, 8, [](const auto& x, const auto& w, const auto& b, const auto& m, const auto& v) {
      return at::batch_norm(x, w, b, m, v, true, 0.1, 1e-5, false);
    });
    std::vector<Result> parts(one.shares.size());
    const auto errors = as_ranks(static_cast<int>(parts.size()), [&](int rank, ncclComm_t comm) {
      std::int64_t begin = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(rank); ++i) begin += one.shares[i];
      const std::int64_t end = begin + one.shares[static_cast<std::size_t>(rank)];
      parts[static_cast<std::size_t>(rank)] =
          run(one, begin, end, [&](const auto& x, const auto& w, const auto& b, const auto& m, const auto& v) {
            return rondo::adapter::sync_batch_norm(x, w, b, m, v, 0.1, 1e-5, comm);
          });
    });
    for (const std::string& error : errors) REQUIRE(error == "");
    std::vector<at::Tensor> outputs;
    std::vector<at::Tensor> gradients;
    at::Tensor weight_gradient = at::zeros({5}, at::kDouble);
    at::Tensor bias_gradient = at::zeros({5}, at::kDouble);
    for (const Result& part : parts) {
      outputs.push_back(part.output);
      gradients.push_back(part.input_gradient);
      CHECK(close(part.mean, whole.mean));
      CHECK(close(part.variance, whole.variance));
      if (!one.weights) continue;
      weight_gradient = weight_gradient + part.weight_gradient;
      bias_gradient = bias_gradient + part.bias_gradient;
    }
    CHECK(close(at::cat(outputs), whole.output));
    CHECK(close(at::cat(gradients), whole.input_gradient));
    if (!one.weights) continue;
    CHECK(close(weight_gradient, whole.weight_gradient));
    CHECK(close(bias_gradient, whole.bias_gradient));
  }
}

TEST_CASE("16-bit images are normalised with statistics in 32 bits") {
  const auto errors = as_ranks(2, [](int rank, ncclComm_t comm) {
    at::set_num_threads(1);
    const Inputs all = inputs();
    const at::Tensor part = all.images.slice(0, 4 * rank, 4 * rank + 4);
    const at::Tensor images = part.to(at::kBFloat16).set_requires_grad(true);
    const at::Tensor weight = at::ones({5}, at::kFloat).set_requires_grad(true);
    const at::Tensor bias = at::zeros({5}, at::kFloat).set_requires_grad(true);
    const at::Tensor output = rondo::adapter::sync_batch_norm(images, weight, bias, {}, {}, 0.1, 1e-5, comm);
    const at::Tensor whole =
        at::batch_norm(all.images, {}, {}, {}, {}, true, 0.1, 1e-5, false).slice(0, 4 * rank, 4 * rank + 4);
    expect((output.detach().to(at::kDouble) - whole).abs().max().item<double>() < 0.05, "what float64 gives, about");
    output.sum().backward();
    expect(images.grad().scalar_type() == at::kBFloat16, "gradients of the input's type");
    expect(images.grad().to(at::kDouble).abs().max().item<double>() < 0.05, "a sum that norms make constant");
    expect(std::abs(bias.grad().sum().item<double>() - 4 * 5 * 24) < 1e-3, "the number of elements as bias gradient");
  });
  for (const std::string& error : errors) CHECK(error == "");
}

}  // namespace
