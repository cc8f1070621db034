// The data-parallel layer for libtorch's tensors: gradients are views into the layer's buckets, and a hook on each
// parameter says when its gradient is there.
//
//   adapter::DataParallel parallel(comm, parameters, buffers, options);
//   for (;;) {
//     parallel.begin_step();
//     { auto pause = parallel.no_sync(); loss(...).backward(); }   // accumulation: all passes but the last
//     loss(...).backward();
//     parallel.finish();
//     if (parallel.layer().updates()) optimizer.step();
//     parallel.after_update();
//   }
//
// begin_step() takes the place of zero_grad().  The first gradient of a step is copied into its bucket once (autograd
// makes it elsewhere), further ones are added in place.  What autograd may do: several passes a step, shared modules
// and tied parameters, parameters of several types, views and parameters that are not contiguous, checkpointing.
// What it may not: sparse gradients, create_graph.  The rules of data_parallel/layer.h hold: order, threads, errors.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "tools/trainer/data_parallel/layer.h"

namespace rondo::adapter {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

class DataParallel {
 public:
  /// Parameters that require no gradient are frozen: sent once.  A tensor that appears again under another name counts
  /// once.  Tensors are shared with the caller and must stay on the CPU; their storage may be replaced between steps
  /// (same strides).  Blocks until all ranks have called, as Layer does.
  DataParallel(ncclComm_t comm, const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers,
               const data_parallel::Options& options);
  /// Takes the hooks away; gradients of parameters become undefined.
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// Gradients become undefined.
  void begin_step();
  [[nodiscard]] data_parallel::Layer::Pause no_sync();
  /// Marks the parameters that backward() of `loss` won't reach, so that their buckets need not wait for finish().
  /// Costs a walk through the graph; of use only with find_unused_parameters.  Not where backward() makes a part of the
  /// graph anew (checkpointing), as that part can't be seen yet.
  void expect(const at::Tensor& loss);
  /// As Layer::finish().  Gradients are views into buckets afterwards, and undefined where no rank used the parameter
  /// or this rank does not update.
  data_parallel::Step finish();
  /// As Layer::after_update().
  void after_update();
  /// As Layer::check_agreement().
  void check_agreement();

  /// From here to attach(), between steps, autograd keeps its gradients to itself, as without the layer; this rank
  /// alone. Gradients become undefined.
  void detach();
  void attach();
  /// Exchanges gradient memory as it lies, all of it ready at once, with no pass to hide behind.  All ranks call it
  /// between steps.  Gradients are garbage afterwards.
  data_parallel::Step exchange_alone();

  /// For clip(), join(), updates(), ranks: what needs no tensor.
  data_parallel::Layer& layer();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rondo::adapter
