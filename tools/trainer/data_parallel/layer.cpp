// The layer's set-up: ranks compare their models, rank 0's values go to all, gradients get their memory.
#include "layer.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>

#include "state.h"
#include "types.h"

namespace rondo::data_parallel {
namespace {

std::string describe(const Options& options) {
  std::string text = "options";
  const auto add = [&](const char* name, const std::string& value) { text += std::string(" ") + name + "=" + value; };
  add("mode", options.mode == Mode::server ? "server" : "all_reduce");
  add("reduction", options.reduction == Reduction::sum ? "sum" : "mean");
  add("wire_type", options.wire_type == WireType::as_is  ? "as_is"
                   : options.wire_type == WireType::fp16 ? "fp16"
                                                         : "bf16");
  add("first_bucket_bytes", std::to_string(options.first_bucket_bytes));
  add("bucket_cap_mb", std::to_string(options.bucket_cap_mb));
  add("find_unused_parameters", std::to_string(options.find_unused_parameters));
  add("broadcast_buffers", std::to_string(options.broadcast_buffers));
  add("rebuild", std::to_string(options.rebuild));
  add("check_every", std::to_string(options.check_every));
  return text;
}

void check(const Parameter& parameter, const char* kind) {
  const std::string name = std::string(kind) + " '" + parameter.name + "'";
  if (type_bytes(parameter.type) == 0) throw Error(name + " has a type that ncclDataType_t does not have");
  for (const std::int64_t extent : parameter.shape) {
    if (extent < 0) throw Error(name + " has a negative extent in its shape");
  }
  if (parameter.values == nullptr && bytes_of(parameter) > 0) throw Error(name + " has no memory");
  if (!parameter.strides.empty() && parameter.strides.size() != parameter.shape.size()) {
    throw Error(name + " has a stride for some dimensions only");
  }
  if (parameter.trainable && !is_gradient_type(parameter.type)) {
    throw Error(name + " is " + type_name(parameter.type) + "; gradients may be float16, bfloat16, float32 or float64");
  }
}

}  // namespace

Layer::State::State(ncclComm_t communicator, std::vector<Parameter> model, std::vector<Parameter> model_buffers,
                    const Options& wishes)
    : comm(communicator),
      rank([&] {
        int value = 0;
        require(ncclCommUserRank(comm, &value), comm, "ask for the rank");
        return value;
      }()),
      options(wishes),
      parameters(std::move(model)),
      buffers(std::move(model_buffers)),
      broadcaster(comm, rank) {
  require(ncclCommCount(comm, &ranks), comm, "count the ranks");
  for (Parameter& buffer : buffers) buffer.trainable = false;
  check_arguments();
  require_same_model();
  for (std::size_t i = parameters.size(); i-- > 0;) {
    if (parameters[i].trainable) order.push_back(i);
  }
  if (order.empty()) throw Error("the model has no trainable parameter");
  used_here.assign(parameters.size(), 0);
  used_anywhere = missing_anywhere = complete_here = used_here;
  arranged = !options.rebuild;
  weight_sum = ranks;
  allocate();
  broadcaster.send(parameters, 0);
  broadcaster.send(buffers, 0);
}

void Layer::State::check_arguments() const {
  if (!(options.bucket_cap_mb > 0)) throw Error("bucket_cap_mb must be larger than 0");
  if (options.first_bucket_bytes == 0) throw Error("first_bucket_bytes must be larger than 0");
  if (options.check_every < 0) throw Error("check_every must not be negative");
  for (const Parameter& parameter : parameters) check(parameter, "parameter");
  for (const Parameter& buffer : buffers) check(buffer, "buffer");
}

void Layer::State::require_same_model() {
  std::vector<std::string> lines{describe(options)};
  for (const Parameter& parameter : parameters) lines.push_back("parameter " + data_parallel::describe(parameter));
  for (const Parameter& buffer : buffers) lines.push_back("buffer " + data_parallel::describe(buffer));
  for (std::string& line : lines) std::replace(line.begin(), line.end(), '\n', ' ');
  require_same(comm, lines, "the ranks do not train the same model");
}

/// Lays the buckets out by `order`.  Gradients are zero afterwards.
void Layer::State::allocate() {
  plan = plan_buckets(parameters, order, options);
  gradients = Memory(plan.bytes);
  const auto travels_narrow = [&](const Bucket& bucket) { return wire_type(bucket) != bucket.type; };
  if (std::any_of(plan.buckets.begin(), plan.buckets.end(), travels_narrow)) wire = Memory(plan.bytes / 2);
  if (server() && rank == 0) gathered = Memory(plan.bytes * static_cast<std::size_t>(ranks));
  while (ends.size() < plan.buckets.size()) ends.emplace_back();
  ready_times.assign(plan.buckets.size(), {});
  reset_pass();
}

ncclDataType_t Layer::State::wire_type(const Bucket& bucket) const {
  if (options.wire_type == WireType::as_is || type_bytes(bucket.type) == 2) return bucket.type;
  return options.wire_type == WireType::fp16 ? ncclFloat16 : ncclBfloat16;
}

void Layer::State::require_parameter(std::size_t parameter) const {
  if (parameter >= parameters.size()) throw Error("there is no parameter " + std::to_string(parameter));
}

Layer::Layer(ncclComm_t comm, std::vector<Parameter> parameters, std::vector<Parameter> buffers, const Options& options)
    : state_(std::make_unique<State>(comm, std::move(parameters), std::move(buffers), options)) {}

Layer::~Layer() {
  if (rondoStreamQuery(state_->queue) != ncclInProgress) return;
  // An exception in the middle of a pass: peers may never join the calls under way, which still use the memory.  They
  // end with the communicator; a thread waits for that.
  State* state = state_.release();
  try {
    std::thread([state] { delete state; }).detach();
  } catch (const std::system_error&) {
    return;  // no thread to be had: the memory stays
  }
}

int Layer::rank() const { return state_->rank; }
int Layer::ranks() const { return state_->ranks; }
std::span<const Parameter> Layer::parameters() const { return state_->parameters; }

void Layer::set_values(std::size_t parameter, void* values) {
  state_->require_parameter(parameter);
  state_->parameters[parameter].values = values;
}
void Layer::set_buffer(std::size_t buffer, void* values) {
  if (buffer >= state_->buffers.size()) throw Error("there is no buffer " + std::to_string(buffer));
  state_->buffers[buffer].values = values;
}

std::span<std::byte> Layer::gradient(std::size_t parameter) const {
  state_->require_parameter(parameter);
  const BucketPlan::Place& place = state_->plan.places[parameter];
  if (place.bucket == BucketPlan::none) return {};
  return {state_->gradients.data() + place.offset_bytes, place.bytes};
}

Layer::Pause::Pause(Layer* layer) : layer_(layer) { ++layer_->state_->pauses; }
Layer::Pause::~Pause() { --layer_->state_->pauses; }
Layer::Pause Layer::no_sync() { return Pause(this); }

}  // namespace rondo::data_parallel
