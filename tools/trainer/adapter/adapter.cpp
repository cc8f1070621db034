// Tensors as named memory, gradients as views, hooks that tell the layer; see adapter.h.
#include "tools/trainer/adapter/adapter.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "tools/trainer/data_parallel/numbers.h"

namespace rondo::adapter {
namespace {

using data_parallel::Error;

ncclDataType_t type_of(const NamedTensor& named) {
  switch (named.tensor.scalar_type()) {
    case at::kFloat: return ncclFloat32;
    case at::kDouble: return ncclFloat64;
    case at::kHalf: return ncclFloat16;
    case at::kBFloat16: return ncclBfloat16;
    case at::kLong: return ncclInt64;
    case at::kInt: return ncclInt32;
    case at::kChar: return ncclInt8;
    case at::kByte:
    case at::kBool: return ncclUint8;
    default:
      throw Error("'" + named.name +
                  "' has a type that ranks cannot exchange: " + c10::toString(named.tensor.scalar_type()));
  }
}

/// A tensor of the model, and a dense copy of it if it is not dense itself.
struct Entry {
  at::Tensor tensor;
  at::Tensor copy;
  const at::Tensor& dense() const { return copy.defined() ? copy : tensor; }
};

Entry entry_of(const NamedTensor& named) {
  const at::Tensor& tensor = named.tensor;
  if (!tensor.defined() || tensor.layout() != at::kStrided || !tensor.device().is_cpu()) {
    throw Error("'" + named.name + "' is not a dense tensor in host memory, which is all that Rondo moves");
  }
  Entry entry{tensor, {}};
  if (!tensor.is_non_overlapping_and_dense()) entry.copy = tensor.detach().clone(at::MemoryFormat::Contiguous);
  return entry;
}

data_parallel::Parameter describe(const NamedTensor& named, const Entry& entry) {
  data_parallel::Parameter parameter;
  parameter.name = named.name;
  parameter.type = type_of(named);
  parameter.shape = named.tensor.sizes().vec();
  parameter.strides = named.tensor.strides().vec();
  parameter.values = entry.dense().data_ptr();
  parameter.trainable = named.tensor.requires_grad();
  return parameter;
}

/// Takes each tensor once: tied ones have one gradient.
std::vector<NamedTensor> without_repeats(const std::vector<NamedTensor>& tensors) {
  std::unordered_set<const void*> seen;
  std::vector<NamedTensor> once;
  for (const NamedTensor& named : tensors) {
    if (seen.insert(named.tensor.unsafeGetTensorImpl()).second) once.push_back(named);
  }
  return once;
}

}  // namespace

struct DataParallel::State {
  State(ncclComm_t comm, const std::vector<NamedTensor>& given, const std::vector<NamedTensor>& given_buffers,
        const data_parallel::Options& options);
  void arrived(std::size_t index);
  void make_views();
  void before_exchange();
  void after_exchange();

  std::vector<NamedTensor> named;
  std::vector<Entry> parameters;
  std::vector<Entry> buffers;
  std::vector<at::Tensor> views;  // of each parameter's gradient; undefined for frozen ones
  std::unordered_map<const void*, std::size_t> indices;
  std::unique_ptr<data_parallel::Layer> layer;
};

namespace {

/// Tells when a parameter's gradient has been accumulated.
class Hook : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit Hook(std::function<void()> arrived) : arrived_(std::move(arrived)) {}
  void operator()(const at::Tensor& /*parameter*/) override { arrived_(); }

 private:
  std::function<void()> arrived_;
};

}  // namespace

DataParallel::State::State(ncclComm_t comm, const std::vector<NamedTensor>& given,
                           const std::vector<NamedTensor>& given_buffers, const data_parallel::Options& options)
    : named(without_repeats(given)) {
  const at::NoGradGuard no_gradients;
  std::vector<data_parallel::Parameter> descriptions;
  std::vector<data_parallel::Parameter> buffer_descriptions;
  for (const NamedTensor& one : named) {
    if (one.tensor.requires_grad() && !one.tensor.is_leaf()) {
      throw Error("'" + one.name + "' is not a leaf: gradients would not stay in it");
    }
    if (one.tensor.requires_grad() && torch::autograd::impl::post_acc_grad_hooks(one.tensor) != nullptr) {
      throw Error("'" + one.name + "' has a hook already: a parameter belongs to one layer");
    }
    parameters.push_back(entry_of(one));
    descriptions.push_back(describe(one, parameters.back()));
  }
  for (const NamedTensor& one : without_repeats(given_buffers)) {
    buffers.push_back(entry_of(one));
    buffer_descriptions.push_back(describe(one, buffers.back()));
  }
  layer =
      std::make_unique<data_parallel::Layer>(comm, std::move(descriptions), std::move(buffer_descriptions), options);
  after_exchange();
  make_views();
}

/// Gradients lie as their parameters do, as autograd wants it; contiguous if those are not dense.
void DataParallel::State::make_views() {
  views.assign(parameters.size(), {});
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& tensor = parameters[i].dense();
    if (!layer->parameters()[i].trainable) continue;
    views[i] = at::from_blob(layer->gradient(i).data(), tensor.sizes(), tensor.strides(), tensor.options());
  }
}

void DataParallel::State::arrived(std::size_t index) {
  const at::NoGradGuard no_gradients;
  const at::Tensor& view = views[index];
  at::Tensor& gradient = parameters[index].tensor.mutable_grad();
  if (gradient.unsafeGetTensorImpl() != view.unsafeGetTensorImpl()) {
    if (gradient.layout() != at::kStrided) throw Error("the gradient of '" + named[index].name + "' is sparse");
    if (gradient.requires_grad()) {
      throw Error("the gradient of '" + named[index].name + "' has a graph: create_graph does not go with buckets");
    }
    if (gradient.scalar_type() == view.scalar_type() && gradient.strides() == view.strides()) {
      data_parallel::copy_past_caches(view.mutable_data_ptr(), gradient.const_data_ptr(), view.nbytes());
    } else {
      view.copy_(gradient);
    }
    gradient = view;
  }
  layer->ready(index);
}

/// Tells the layer where values lie now.
void DataParallel::State::before_exchange() {
  const at::NoGradGuard no_gradients;
  const auto refresh = [](Entry& entry) {
    if (entry.copy.defined()) entry.copy.copy_(entry.tensor.detach());
    return entry.dense().data_ptr();
  };
  for (std::size_t i = 0; i < parameters.size(); ++i) layer->set_values(i, refresh(parameters[i]));
  for (std::size_t i = 0; i < buffers.size(); ++i) layer->set_buffer(i, refresh(buffers[i]));
}

/// What came into dense copies goes to the model's tensors.
void DataParallel::State::after_exchange() {
  const at::NoGradGuard no_gradients;
  for (const auto* entries : {&parameters, &buffers}) {
    for (const Entry& entry : *entries) {
      if (entry.copy.defined()) entry.tensor.detach().copy_(entry.copy);
    }
  }
}

DataParallel::DataParallel(ncclComm_t comm, const std::vector<NamedTensor>& parameters,
                           const std::vector<NamedTensor>& buffers, const data_parallel::Options& options)
    : state_(std::make_unique<State>(comm, parameters, buffers, options)) {
  for (std::size_t i = 0; i < state_->parameters.size(); ++i) {
    if (state_->views[i].defined()) state_->indices.emplace(state_->parameters[i].tensor.unsafeGetTensorImpl(), i);
  }
  attach();
}

DataParallel::~DataParallel() { detach(); }

void DataParallel::attach() {
  State* state = state_.get();
  for (std::size_t i = 0; i < state->parameters.size(); ++i) {
    if (!state->views[i].defined()) continue;
    torch::autograd::impl::set_post_acc_grad_hooks(state->parameters[i].tensor,
                                                   std::make_unique<Hook>([state, i] { state->arrived(i); }));
  }
  begin_step();
}

void DataParallel::detach() {
  for (std::size_t i = 0; i < state_->parameters.size(); ++i) {
    if (!state_->views[i].defined()) continue;
    torch::autograd::impl::set_post_acc_grad_hooks(state_->parameters[i].tensor, nullptr);
    state_->parameters[i].tensor.mutable_grad() = at::Tensor();
  }
}

data_parallel::Step DataParallel::exchange_alone() {
  begin_step();
  for (std::size_t i = 0; i < state_->parameters.size(); ++i) {
    if (state_->views[i].defined()) state_->layer->ready(i);
  }
  return finish();
}

void DataParallel::begin_step() {
  state_->layer->begin_step();
  for (const Entry& entry : state_->parameters) entry.tensor.mutable_grad() = at::Tensor();
}

data_parallel::Layer::Pause DataParallel::no_sync() { return state_->layer->no_sync(); }

void DataParallel::expect(const at::Tensor& loss) {
  std::unordered_set<const torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> left;
  std::vector<char> reached(state_->parameters.size(), 0);
  const auto visit = [&](torch::autograd::Node* node) {
    if (node == nullptr || !seen.insert(node).second) return;
    left.push_back(node);
    const auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node);
    if (leaf == nullptr) return;
    const auto found = state_->indices.find(leaf->variable.unsafeGetTensorImpl());
    if (found != state_->indices.end()) reached[found->second] = 1;
  };
  visit(torch::autograd::impl::gradient_edge(loss).function.get());
  while (!left.empty()) {
    const torch::autograd::Node* node = left.back();
    left.pop_back();
    for (const torch::autograd::Edge& edge : node->next_edges()) visit(edge.function.get());
  }
  for (std::size_t i = 0; i < reached.size(); ++i) {
    if (state_->views[i].defined() && reached[i] == 0) state_->layer->absent(i);
  }
}

data_parallel::Step DataParallel::finish() {
  const data_parallel::Step step = state_->layer->finish();
  if (step.rebuilt) state_->make_views();
  for (std::size_t i = 0; i < state_->parameters.size(); ++i) {
    if (!state_->views[i].defined()) continue;
    const bool wanted = state_->layer->used(i) && state_->layer->updates();
    state_->parameters[i].tensor.mutable_grad() = wanted ? state_->views[i] : at::Tensor();
  }
  return step;
}

void DataParallel::after_update() {
  state_->before_exchange();
  state_->layer->after_update();
  state_->after_exchange();
}

void DataParallel::check_agreement() {
  state_->before_exchange();
  state_->layer->check_agreement();
}

data_parallel::Layer& DataParallel::layer() { return *state_->layer; }

}  // namespace rondo::adapter
