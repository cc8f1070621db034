// The adapter on real autograd: training over ranks gives what one rank gives.  Ranks are threads.
//
// The model is a small convolutional one with group norms in float64, whose samples do not see each other, so that the
// mean over ranks is the mean over the batch.  The reference is plain autograd, without the layer.
#define CATCH_CONFIG_MAIN
#include "tools/trainer/adapter/adapter.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <catch2/catch.hpp>

#include "tests/data_parallel/ranks.h"

namespace {

using rondo::adapter::DataParallel;
using rondo::adapter::NamedTensor;

constexpr int batch = 32;
constexpr int steps = 20;

struct Data {
  at::Tensor images;
  at::Tensor labels;
};
const Data& data() {
  static const Data made = [] {
    at::set_num_threads(1);
    const at::Generator generator = at::detail::createCPUGenerator(7);
    return Data{at::randn({steps, batch, 3, 8, 8}, generator, at::kDouble),
                at::randint(10, {steps, batch}, generator, at::kLong)};
  }();
  return made;
}

struct Net {
  std::vector<NamedTensor> parameters;
  std::vector<NamedTensor> buffers;
  bool with_aside = false;

  explicit Net(std::uint64_t seed, bool aside = false) : with_aside(aside) {
    const at::Generator generator = at::detail::createCPUGenerator(seed);
    const auto add = [&](const char* name, std::vector<std::int64_t> shape) {
      const at::Tensor tensor = at::randn(shape, generator, at::kDouble).mul_(0.3);
      parameters.push_back({name, tensor.set_requires_grad(true)});
    };
    add("first.weight", {8, 3, 3, 3});
    add("first.norm", {8});
    add("second.weight", {16, 8, 3, 3});
    add("shared.weight", {16, 16});
    add("head.weight", {10, 16});
    add("head.bias", {10});
    if (aside) add("aside.weight", {10, 16});
    parameters[2].tensor.set_data(parameters[2].tensor.detach().contiguous(at::MemoryFormat::ChannelsLast));
  }
  const at::Tensor& operator[](std::size_t index) const { return parameters[index].tensor; }

  /// The mean loss of samples `begin` to `end` of a step's batch.  With the head aside, which only the first 8 samples
  /// use, and none in every third step.
  at::Tensor loss(int step, int begin, int end) const {
    const at::Tensor x = data().images[step].slice(0, begin, end);
    const at::Tensor y = data().labels[step].slice(0, begin, end);
    const auto normalise = [](const at::Tensor& t, const at::Tensor& scale) { return at::group_norm(t, 4, scale); };
    at::Tensor h = normalise(at::conv2d(x, (*this)[0], {}, 1, 1), (*this)[1]).relu();
    h = at::group_norm(at::conv2d(h, (*this)[2], {}, 2, 1), 4).relu().mean({2, 3});
    h = at::linear(at::linear(h, (*this)[3]).relu(), (*this)[3]);
    at::Tensor sum = at::cross_entropy_loss(at::linear(h, (*this)[4], (*this)[5]), y, {}, at::Reduction::Sum);
    const int aside = std::min(end, 8) - begin;
    if (with_aside && step % 3 != 0 && aside > 0) {
      sum = sum + at::cross_entropy_loss(at::linear(h.slice(0, 0, aside), (*this)[6]), y.slice(0, 0, aside), {},
                                         at::Reduction::Sum);
    }
    return sum / (end - begin);
  }
};

/// SGD with momentum and decay, which leaves alone what has no gradient.
struct Optimizer {
  std::vector<at::Tensor> moments;
  void step(const Net& net) {
    const at::NoGradGuard no_gradients;
    moments.resize(net.parameters.size());
    for (std::size_t i = 0; i < moments.size(); ++i) {
      const at::Tensor& tensor = net[i];
      if (!tensor.grad().defined()) continue;
      const at::Tensor gradient = tensor.grad() + tensor * 1e-3;
      moments[i] = moments[i].defined() ? moments[i] * 0.9 + gradient : gradient;
      at::Tensor values = tensor.detach();
      values.sub_(moments[i], 0.05);
    }
  }
};

std::vector<at::Tensor> values_of(const Net& net) {
  std::vector<at::Tensor> values;
  for (const NamedTensor& one : net.parameters) values.push_back(one.tensor.detach().clone());
  return values;
}

/// What plain autograd makes of it on one rank.
std::vector<at::Tensor> reference(bool aside) {
  Net net(100, aside);
  Optimizer optimizer;
  for (int step = 0; step < steps; ++step) {
    for (const NamedTensor& one : net.parameters) one.tensor.mutable_grad() = at::Tensor();
    net.loss(step, 0, batch).backward();
    optimizer.step(net);
  }
  return values_of(net);
}

/// The largest difference relative to the largest value of each tensor.
double difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, ((a[i] - b[i]).abs().max() / b[i].abs().max()).item<double>());
  }
  return worst;
}
bool same_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!a[i].equal(b[i])) return false;
  }
  return true;
}

struct Setting {
  int ranks = 2;
  int passes = 1;
  bool aside = false;
  bool look_ahead = false;     // expect()
  bool each_finished = false;  // every pass is finished, where others pause
  std::vector<int> shares;     // samples of each rank; empty: equal
  dp::Mode mode = dp::Mode::all_reduce;
};

/// Trains as `setting` says; every rank's parameters.
std::vector<std::vector<at::Tensor>> train(const Setting& setting) {
  std::vector<std::vector<at::Tensor>> results(static_cast<std::size_t>(setting.ranks));
  data();
  const auto errors = as_ranks(setting.ranks, [&](int rank, ncclComm_t comm) {
    at::set_num_threads(1);
    Net net(static_cast<std::uint64_t>(100 + rank), setting.aside);
    dp::Options options;
    options.mode = setting.mode;
    options.find_unused_parameters = setting.aside;
    options.first_bucket_bytes = 2000;
    options.bucket_cap_mb = 0.004;
    options.check_every = 7;
    DataParallel parallel(comm, net.parameters, net.buffers, options);
    Optimizer optimizer;
    int begin = rank * batch / setting.ranks;
    int count = batch / setting.ranks;
    if (!setting.shares.empty()) {
      begin = 0;
      for (int i = 0; i < rank; ++i) begin += setting.shares[static_cast<std::size_t>(i)];
      count = setting.shares[static_cast<std::size_t>(rank)];
    }
    for (int step = 0; step < steps; ++step) {
      if (!setting.shares.empty()) expect(parallel.layer().join(count) == batch, "the whole batch");
      parallel.begin_step();
      const int part = count / setting.passes;
      const auto pass = [&](int index) {
        const at::Tensor loss = net.loss(step, begin + index * part, begin + (index + 1) * part) / setting.passes;
        if (setting.look_ahead) parallel.expect(loss);
        loss.backward();
      };
      for (int index = 0; index + 1 < setting.passes; ++index) {
        if (setting.each_finished) {
          pass(index);
          parallel.finish();
          continue;
        }
        const auto pause = parallel.no_sync();
        pass(index);
      }
      if (count > 0) pass(setting.passes - 1);
      const dp::Step times = parallel.finish();
      if (setting.look_ahead) {
        for (const dp::BucketTime& bucket : times.buckets) expect(bucket.ready <= times.called, "no bucket left over");
      }
      if (parallel.layer().updates()) optimizer.step(net);
      parallel.after_update();
    }
    parallel.check_agreement();
    results[static_cast<std::size_t>(rank)] = values_of(net);
  });
  for (const std::string& error : errors) REQUIRE(error == "");
  return results;
}

void check_equal(const Setting& setting) {
  const auto results = train(setting);
  const auto one = reference(setting.aside);
  for (const auto& result : results) {
    CHECK(same_bits(result, results[0]));
    CHECK(difference(result, one) < 1e-10);
  }
}

TEST_CASE("1 rank of 32, 2 of 16 and 4 of 8 samples train alike") {
  for (const int ranks : {1, 2, 4}) check_equal({.ranks = ranks});
}

TEST_CASE("accumulated passes train alike, paused or each finished") {
  check_equal({.ranks = 2, .passes = 4});
  check_equal({.ranks = 4, .passes = 2});
  check_equal({.ranks = 2, .passes = 2, .each_finished = true});
}

TEST_CASE("parameters that some ranks do not use, or nobody, train alike") {
  for (const int ranks : {1, 2, 4}) check_equal({.ranks = ranks, .aside = true});
  check_equal({.ranks = 2, .passes = 2, .aside = true});
  check_equal({.ranks = 2, .aside = true, .look_ahead = true});
  check_equal({.ranks = 2, .passes = 2, .aside = true, .each_finished = true});
}

TEST_CASE("unequal shares of a batch train alike, also where a rank has none") {
  check_equal({.ranks = 2, .shares = {20, 12}});
  check_equal({.ranks = 3, .shares = {7, 25, 0}});
  check_equal({.ranks = 3, .aside = true, .shares = {0, 30, 2}});
}

TEST_CASE("a server trains alike") {
  check_equal({.ranks = 2, .mode = dp::Mode::server});
  check_equal({.ranks = 4, .passes = 2, .aside = true, .mode = dp::Mode::server});
}

TEST_CASE("the canary: a rank that trains on other samples is noticed") {
  const auto results = train({.ranks = 2, .shares = {16, 16}});
  Net net(100);
  CHECK(difference(results[0], values_of(net)) > 1e-3);
}

/// A model that is only there to be refused or copied.
at::Tensor leaf(const at::Tensor& tensor) { return tensor.detach().set_requires_grad(true); }

TEST_CASE("tied, frozen, sliced and half-width parameters, and integer buffers") {
  const auto errors = as_ranks(2, [](int rank, ncclComm_t comm) {
    at::set_num_threads(1);
    const double value = rank + 1;
    const at::Tensor whole = at::zeros({4, 6}, at::kFloat).fill_(value);
    const at::Tensor sliced = leaf(whole.slice(1, 0, 3));  // not dense
    const at::Tensor half = leaf(at::zeros({5}, at::kBFloat16).fill_(value));
    const at::Tensor frozen = at::zeros({3}, at::kDouble).fill_(value);
    const at::Tensor count = at::zeros({}, at::kLong).fill_(rank + 40);
    DataParallel parallel(comm, {{"sliced", sliced}, {"half", half}, {"tied", sliced}, {"frozen", frozen}},
                          {{"count", count}}, {});
    expect(sliced.detach().sum().item<double>() == 12 && half.detach().sum().item<double>() == 5, "rank 0's values");
    expect(whole.sum().item<double>() == 12 + 12 * value, "nothing beside the slice to change");
    expect(frozen.sum().item<double>() == 3 && count.item<std::int64_t>() == 40, "frozen ones and buffers, too");
    for (int step = 0; step < 2; ++step) {
      parallel.begin_step();
      ((sliced * sliced).sum() * value + (half * (4 * value)).sum().to(at::kFloat)).backward();
      parallel.finish();
      expect(sliced.grad().equal(at::zeros({4, 3}, at::kFloat).fill_(3)), "the mean of 2 and 4");
      expect(half.grad().equal(at::zeros({5}, at::kBFloat16).fill_(6)), "the mean of 4 and 8");
      parallel.after_update();
    }
    parallel.check_agreement();
  });
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("what is measured between steps leaves them as they are") {
  const auto errors = as_ranks(2, [](int rank, ncclComm_t comm) {
    at::set_num_threads(1);
    const double value = 2 * rank + 1;
    const at::Tensor a = leaf(at::zeros({3}, at::kFloat));
    DataParallel parallel(comm, {{"a", a}}, {}, {});
    for (int step = 0; step < 3; ++step) {
      parallel.begin_step();
      (a * value).sum().backward();
      parallel.finish();
      expect(a.grad().equal(at::zeros({3}, at::kFloat).fill_(2)), "the mean of 1 and 3");
      parallel.detach();
      expect(!a.grad().defined(), "nothing left of the layer's");
      (a * value).sum().backward();
      (a * value).sum().backward();
      expect(a.grad().equal(at::zeros({3}, at::kFloat).fill_(2 * value)), "this rank's own, twice");
      parallel.attach();
      expect(!a.grad().defined(), "nothing left of autograd's");
      expect(parallel.exchange_alone().buckets.size() == 1, "one bucket");
    }
  });
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("what autograd may not do is told in a sentence") {
  const auto told = [](const std::function<void(DataParallel&, const at::Tensor&, const at::Tensor&)>& body) {
    return as_ranks(1, [&](int, ncclComm_t comm) {
      const at::Tensor a = leaf(at::zeros({3}, at::kFloat));
      const at::Tensor b = leaf(at::zeros({3}, at::kFloat));
      DataParallel parallel(comm, {{"a", a}, {"b", b}}, {}, {});
      body(parallel, a, b);
    })[0];
  };
  CHECK_THAT(told([](DataParallel& parallel, const at::Tensor& a, const at::Tensor&) {
               a.sum().backward();
               parallel.finish();
             }),
             Catch::StartsWith("no gradient in this step for 'b' here"));
  CHECK_THAT(told([](DataParallel&, const at::Tensor& a, const at::Tensor& b) {
               (a + b).sum().backward();
               (a + b).sum().backward();
             }),
             Catch::Contains("became ready twice"));
  CHECK_THAT(
      told([](DataParallel&, const at::Tensor& a, const at::Tensor& b) { (a * a * b).sum().backward({}, true, true); }),
      Catch::Contains("create_graph"));
  CHECK(as_ranks(1, [](int, ncclComm_t comm) {
          const at::Tensor a = leaf(at::zeros({3}, at::kFloat));
          DataParallel parallel(comm, {{"a", a}}, {}, {});
          DataParallel second(comm, {{"a", a}}, {}, {});
        })[0] == "'a' has a hook already: a parameter belongs to one layer");
}

}  // namespace
