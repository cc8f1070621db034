// Chooses the instruction set, once.
#include "kernels/host_reducer.h"

#include "kernels/table.h"

namespace rondo {
namespace {

struct Registry {
  kernels::Table portable;
  HostReducer reducers[1] = {{"portable", &portable}};
  Registry() { kernels::add_portable(portable); }
};

const Registry& registry() {
  static const Registry instance;
  return instance;
}

}  // namespace

std::span<const HostReducer> host_reducers() { return registry().reducers; }

const Reducer& host_reducer() { return *registry().reducers[0].reducer; }

}  // namespace rondo
