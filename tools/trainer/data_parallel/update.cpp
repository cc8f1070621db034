// Around a step: the weights of ranks, the norm of gradients, and what goes to all ranks after the update.
#include <algorithm>
#include <cmath>
#include <limits>

#include "numbers.h"
#include "state.h"
#include "types.h"

namespace rondo::data_parallel {

double Layer::join(double weight) {
  State& state = *state_;
  if (!(weight >= 0) || std::isinf(weight)) throw Error("a weight given to join() must be a number of samples");
  if (state.next > 0 || !state.arrivals.empty()) throw Error("join() must come before the step's passes");
  std::vector<double> weights(static_cast<std::size_t>(state.ranks));
  require(ncclAllGather(&weight, weights.data(), 1, ncclFloat64, state.comm, nullptr), state.comm,
          "agree on the weights of the ranks");
  double sum = 0;
  for (const double one : weights) sum += one;
  state.weight = weight;
  state.weight_sum = sum;
  state.weighted =
      sum > 0 && std::any_of(weights.begin(), weights.end(), [&](double one) { return one != weights[0]; });
  state.takes_part = weight > 0 || sum == 0;
  state.joined = true;
  const auto first = std::find_if(weights.begin(), weights.end(), [](double one) { return one > 0; });
  if (first != weights.end()) state.source = static_cast<int>(first - weights.begin());
  return sum;
}

double Layer::clip(double norm_max) {
  State& state = *state_;
  if (!updates()) return 0;
  double squares = 0;
  for (std::size_t i = 0; i < state.parameters.size(); ++i) {  // in the order of parameters, whatever the buckets
    const Parameter& parameter = state.parameters[i];
    if (!parameter.trainable || !used(i)) continue;
    squares += sum_of_squares(gradient(i).data(), parameter.type, elements_of(parameter));
  }
  const double norm = std::sqrt(squares);
  if (!(norm > norm_max) || std::isinf(norm)) return norm;
  for (std::size_t i = 0; i < state.parameters.size(); ++i) {
    const Parameter& parameter = state.parameters[i];
    if (parameter.trainable) scale(gradient(i).data(), parameter.type, elements_of(parameter), norm_max / norm);
  }
  return norm;
}

bool Layer::updates() const { return !state_->server() || state_->rank == 0; }

void Layer::after_update() {
  State& state = *state_;
  if (state.server()) {
    std::vector<Parameter> trained;
    for (const Parameter& parameter : state.parameters) {
      if (parameter.trainable) trained.push_back(parameter);
    }
    state.broadcaster.send(trained, 0);
  }
  if (state.options.broadcast_buffers) broadcast_buffers();
  ++state.updates;
  if (state.options.check_every > 0 && state.updates % state.options.check_every == 0) check_agreement();
}

void Layer::broadcast_buffers() {
  if (!state_->buffers.empty()) state_->broadcaster.send(state_->buffers, state_->source);
}

void Layer::check_agreement() { require_agreement(state_->comm, state_->ranks, state_->parameters); }

}  // namespace rondo::data_parallel
