// Times Gloo's all-reduce over TCP with the loop of loop.h.  Usage: gloo_all_reduce all_reduce SIZES hot|fresh, with
// RANK, WORLD_SIZE, GLOO_STORE (an empty folder that all ranks see) and GLOO_INTERFACE in the environment.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <memory>
#include <vector>

#include "loop.h"

static std::shared_ptr<gloo::rendezvous::Context> context;

static void run(const struct Work* work) {
  gloo::AllreduceOptions options(context);
  options.setOutput(work->target, work->count);
  options.setReduceFunction(
      [](void* sum, const void* one, const void* other, size_t n) { gloo::sum<float>(sum, one, other, n); });
  gloo::allreduce(options);
}
static void barrier(void) {
  gloo::BarrierOptions options(context);
  gloo::barrier(options);
}
static void slowest(double time_us, double* of_all) {
  *of_all = time_us;
  gloo::AllreduceOptions options(context);
  options.setOutput(of_all, 1);
  options.setReduceFunction(
      [](void* most, const void* one, const void* other, size_t n) { gloo::max<double>(most, one, other, n); });
  gloo::allreduce(options);
}

int main(int argument_count, char** arguments) {
  if (argument_count < 4 || strcmp(arguments[1], "all_reduce") != 0) {
    fprintf(stderr, "usage: gloo_all_reduce all_reduce SIZES hot|fresh\n");
    return 2;
  }
  const int rank = atoi(getenv("RANK")), ranks = atoi(getenv("WORLD_SIZE"));
  gloo::transport::tcp::attr place;
  place.iface = getenv("GLOO_INTERFACE");
  auto device = gloo::transport::tcp::CreateDevice(place);
  gloo::rendezvous::FileStore store(getenv("GLOO_STORE"));
  context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);
  std::vector<float> data(room(arguments[2], ranks) / sizeof(float));
  measure(arguments[1], arguments[2], strcmp(arguments[3], "fresh") == 0, rank, ranks, data.data(), nullptr);
  barrier();
  return 0;
}
