// A step: gradients become ready, buckets leave in their order, finish() waits for them and tells when each went.
#include <algorithm>
#include <cstring>

#include "numbers.h"
#include "state.h"
#include "types.h"

namespace rondo::data_parallel {

void Layer::begin_step() {
  State& state = *state_;
  if (state.next > 0) throw Error("a step may not begin before finish() has ended the one before");
  std::fill(state.used_here.begin(), state.used_here.end(), 0);
  state.reset_pass();
  state.reduced = false;
  if (!state.joined) {
    state.weighted = false;
    state.takes_part = true;
  }
}

void Layer::zero_gradients() {
  begin_step();
  std::memset(state_->gradients.data(), 0, state_->gradients.bytes());
}

void Layer::ready(std::size_t parameter) {
  State& state = *state_;
  state.require_trainable(parameter);
  state.require_not_reduced();
  if (state.pauses == 0) state.complete(parameter);
  state.used_here[parameter] = 1;
  if (state.pauses == 0) state.launch_complete();
}

void Layer::absent(std::size_t parameter) {
  State& state = *state_;
  state.require_trainable(parameter);
  if (state.pauses > 0) return;
  state.complete(parameter);
  state.launch_complete();
}

void Layer::State::require_trainable(std::size_t parameter) const {
  require_parameter(parameter);
  if (!parameters[parameter].trainable) {
    throw Error("parameter '" + parameters[parameter].name + "' has no gradient: it is not trainable");
  }
}

void Layer::State::require_not_reduced() const {
  if (reduced && (options.reduction == Reduction::sum || server())) {
    throw Error(
        "a pass cannot add to gradients that are reduced already, with sum or a server: begin a step, or "
        "run all passes of a step but the last under no_sync()");
  }
}

/// Notes that nothing more will come for a parameter in this pass.
void Layer::State::complete(std::size_t parameter) {
  if (complete_here[parameter] != 0) {
    throw Error("the gradient of '" + parameters[parameter].name +
                "' became ready twice in a pass: call finish() between backward passes, "
                "or run all but the last under no_sync()");
  }
  complete_here[parameter] = 1;
  arrivals.push_back(parameter);
  --pending[plan.places[parameter].bucket];
}

void Layer::State::launch_complete() {
  while (next < pending.size() && pending[next] == 0) launch(next++);
}

void Layer::State::launch(std::size_t index) {
  const Bucket& bucket = plan.buckets[index];
  for (const std::size_t parameter : bucket.parameters) {
    if (used_here[parameter] != 0) continue;
    const BucketPlan::Place& place = plan.places[parameter];
    std::memset(gradients.data() + place.offset_bytes, 0, place.bytes);
  }
  if (index + 1 == plan.buckets.size()) write_flags();
  if (index == 0) {
    origin_time = Clock::now();
    origin.record(nullptr);
  }
  send(index);
  ends[index].record(queue);
}

/// This rank's part of the reduction, given to the queue.
void Layer::State::send(std::size_t index) {
  const Bucket& bucket = plan.buckets[index];
  std::byte* place = gradients.data() + bucket.offset_bytes;
  ncclDataType_t type = wire_type(bucket);
  ncclRedOp_t operation = options.reduction == Reduction::mean ? ncclAvg : ncclSum;
  if (type != bucket.type) {
    std::byte* narrow = wire.data() + bucket.offset_bytes / 2;
    convert(place, bucket.type, narrow, type, bucket.elements, share());
    place = narrow;
    operation = ncclSum;
  } else if (weighted || (server() && options.reduction == Reduction::mean)) {
    if (share() != 1) scale(place, bucket.type, bucket.elements, share());
    operation = ncclSum;
  }
  ready_times[index] = Clock::now();
  if (ranks == 1 && type == bucket.type && !server()) return;  // the mean, or the sum, of one
  if (server()) {
    std::byte* target = rank == 0 ? gathered.data() + bucket.offset_bytes * static_cast<std::size_t>(ranks) : nullptr;
    require(ncclGather(place, target, bucket.elements, type, 0, comm, queue), comm, "gather gradients");
  } else {
    require(ncclAllReduce(place, place, bucket.elements, type, operation, comm, queue), comm, "all-reduce gradients");
  }
}

double Layer::State::share() const {
  if (options.reduction == Reduction::sum) return 1;
  return weighted ? weight / weight_sum : 1.0 / ranks;
}

std::byte* Layer::State::flag(std::size_t index) const {
  return gradients.data() + plan.flags_offset_bytes + index * type_bytes(plan.buckets.back().type);
}

void Layer::State::write_flags() {
  const ncclDataType_t type = plan.buckets.back().type;
  std::memset(flag(0), 0, plan.bytes - plan.flags_offset_bytes);
  if (!takes_part) return;
  for (const std::size_t parameter : order) {
    store_one(flag(2 * parameter + (used_here[parameter] != 0 ? 0 : 1)), type);
  }
}

void Layer::State::read_flags() {
  const ncclDataType_t type = plan.buckets.back().type;
  if (server()) {  // only rank 0 has them all
    require(ncclBcast(flag(0), 2 * parameters.size(), type, 0, comm, nullptr), comm, "send the flags of a step");
  }
  for (const std::size_t parameter : order) {
    used_anywhere[parameter] = is_nonzero(flag(2 * parameter), type) ? 1 : 0;
    missing_anywhere[parameter] = is_nonzero(flag(2 * parameter + 1), type) ? 1 : 0;
  }
}

/// Brings a bucket that has arrived back to where the framework looks.
void Layer::State::receive(std::size_t index) {
  ends[index].wait();
  const Bucket& bucket = plan.buckets[index];
  if (server()) {
    if (rank == 0) fold_gathered(index);
  } else if (wire_type(bucket) != bucket.type) {
    convert(wire.data() + bucket.offset_bytes / 2, wire_type(bucket), gradients.data() + bucket.offset_bytes,
            bucket.type, bucket.elements, 1);
  }
}

/// The server's sum, from the first rank to the last.
void Layer::State::fold_gathered(std::size_t index) {
  const Bucket& bucket = plan.buckets[index];
  const ncclDataType_t type = wire_type(bucket);
  std::byte* place = gradients.data() + bucket.offset_bytes;
  const std::byte* blocks = gathered.data() + bucket.offset_bytes * static_cast<std::size_t>(ranks);
  const std::size_t block_bytes = bucket.elements * type_bytes(type);
  std::vector<std::byte> wide(type != bucket.type ? bucket.elements * type_bytes(bucket.type) : 0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(ranks); ++i) {
    const std::byte* block = blocks + i * block_bytes;
    if (type != bucket.type) {
      convert(block, type, i == 0 ? place : wide.data(), bucket.type, bucket.elements, 1);
      block = i == 0 ? place : wide.data();
    }
    if (i == 0) {
      if (block != place) std::memcpy(place, block, block_bytes);
    } else {
      add(place, block, bucket.type, bucket.elements);
    }
  }
}

Step Layer::finish() {
  State& state = *state_;
  if (state.pauses > 0) throw Error("finish() under no_sync(): end the pause before the step's last pass");
  state.require_not_reduced();
  const Clock::time_point called = Clock::now();
  for (; state.next < state.plan.buckets.size(); ++state.next) state.launch(state.next);
  for (std::size_t i = 0; i < state.plan.buckets.size(); ++i) state.receive(i);
  require(rondoStreamSynchronize(state.queue), state.comm, "reduce gradients");
  state.read_flags();
  Step step = state.timeline();
  const std::string unused = state.options.find_unused_parameters ? "" : state.names_of_missing();
  if (unused.empty()) step.rebuilt = !state.arranged && state.rebuild();
  state.reduced = true;
  state.joined = false;
  // What was reduced is in every rank's memory: a further pass adds to it, whoever had used the parameter.
  state.used_here = state.used_anywhere;
  state.reset_pass();
  if (!unused.empty()) {
    throw Error("no gradient in this step for " + unused + ": set find_unused_parameters if that is meant");
  }
  step.called = called;
  step.finished = Clock::now();
  return step;
}

bool Layer::used(std::size_t parameter) const {
  state_->require_parameter(parameter);
  return state_->used_anywhere[parameter] != 0;
}

std::string Layer::State::names_of_missing() const {
  constexpr std::size_t names_max = 10;
  std::string names;
  std::size_t count = 0;
  for (const std::size_t parameter : order) {
    if (missing_anywhere[parameter] == 0 || ++count > names_max) continue;
    const bool here = takes_part && used_here[parameter] == 0;
    names += (names.empty() ? "'" : ", '") + parameters[parameter].name + (here ? "' here" : "' on another rank");
  }
  if (count > names_max) names += " and " + std::to_string(count - names_max) + " more";
  return names;
}

Step Layer::State::timeline() const {
  Step step;
  Clock::time_point free = origin_time;
  const Clock::time_point now = Clock::now();  // events' times are rounded
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
    const Bucket& bucket = plan.buckets[i];
    BucketTime time;
    time.bytes = bucket.elements * type_bytes(wire_type(bucket));
    time.ready = ready_times[i];
    time.start = std::max(free, time.ready);
    time.end = std::max(time.start, std::min(now, origin_time + ends[i].since(origin)));
    free = time.end;
    step.buckets.push_back(time);
  }
  return step;
}

/// Lays buckets out anew in the order in which gradients arrived on rank 0; keeps their contents.  Whether it did.
bool Layer::State::rebuild() {
  arranged = true;
  std::vector<std::size_t> wished = arrivals;
  for (const std::size_t parameter : order) {
    if (complete_here[parameter] == 0) wished.push_back(parameter);
  }
  std::vector<std::uint64_t> numbers(wished.begin(), wished.end());
  require(ncclBcast(numbers.data(), numbers.size(), ncclUint64, 0, comm, nullptr), comm,
          "agree on the order of buckets");
  wished.assign(numbers.begin(), numbers.end());
  if (wished == order) return false;
  order = wished;
  const Memory before = std::move(gradients);
  const BucketPlan plan_before = plan;
  allocate();
  for (const std::size_t parameter : order) {
    std::memcpy(gradients.data() + plan.places[parameter].offset_bytes,
                before.data() + plan_before.places[parameter].offset_bytes, plan.places[parameter].bytes);
  }
  return true;
}

void Layer::State::reset_pass() {
  std::fill(complete_here.begin(), complete_here.end(), 0);
  pending.clear();
  for (const Bucket& bucket : plan.buckets) pending.push_back(bucket.parameters.size());
  arrivals.clear();
  next = 0;
}

}  // namespace rondo::data_parallel
