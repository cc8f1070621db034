// The data-parallel layer: every rank holds the whole model and a part of the batch; gradients are averaged over the
// ranks while the backward pass still runs.
//
// It knows no framework.  A parameter is a named range of memory; its gradient lies in memory that the layer gives,
// inside a bucket; the framework says when a gradient is there.  A bucket is all-reduced when its last gradient is
// ready, in an order that is the same on every rank, on a queue of the layer's own.
//
//   Layer layer(comm, parameters, buffers, options);   // checks that ranks agree; rank 0's values go to all
//   for (;;) {
//     layer.begin_step();
//     { auto pause = layer.no_sync(); /* all backward passes but the last: gradients add up, nothing is sent */ }
//     /* the last backward pass: the framework's hook calls layer.ready(parameter) */
//     const Step step = layer.finish();                 // gradients are the mean over all ranks
//     layer.clip(1.0);
//     if (layer.updates()) /* the optimizer's step */;
//     layer.after_update();
//   }
//
// Every rank makes the same calls in the same order.  Between the first ready() of a pass and finish() nobody else may
// call on the communicator; otherwise several layers, and the program, may share it.  Calls on one layer come from one
// thread at a time.  What fails throws Error, and a failure of the communicator is final.  Left out: model parallelism,
// sparse gradients, gradients of integer or 8-bit type.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "nccl.h"

namespace rondo::data_parallel {

/// Its text is a sentence for the user.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A range of the model's memory: a parameter, or a buffer (state that is not trained, such as running means).
struct Parameter {
  std::string name;
  ncclDataType_t type = ncclFloat32;
  std::vector<std::int64_t> shape;    // {}: one element
  std::vector<std::int64_t> strides;  // how elements lie in memory; ranks must agree; may be left out
  void* values = nullptr;             // dense; stays valid as long as the layer, unless set_values() is called
  bool trainable = true;              // has a gradient; false for buffers and frozen parameters
};

/// What the gradients of the ranks become.
enum class Reduction { mean, sum };
/// The type gradients travel in.  `as_is`: their own; otherwise float32 and float64 gradients are rounded for the way.
enum class WireType { as_is, fp16, bf16 };
/// Who averages and who updates.
enum class Mode {
  all_reduce,  // every rank gets the mean and updates its own copy
  server,      // rank 0 gathers all gradients and updates alone; after_update() sends the parameters (the baseline)
};

struct Options {
  Mode mode = Mode::all_reduce;
  Reduction reduction = Reduction::mean;
  WireType wire_type = WireType::as_is;
  std::size_t first_bucket_bytes = std::size_t{1} << 20;  // small, so that the first all-reduce starts early
  double bucket_cap_mb = 25;                              // of the others, in MiB; exceeded by less than one gradient
  bool find_unused_parameters = false;                    // false: a parameter without gradient is an error
  bool broadcast_buffers = true;                          // after_update() sends rank 0's buffers to all
  bool rebuild = true;                                    // once, in the order in which gradients arrive on rank 0
  int check_every = 0;                                    // after_update() checks agreement each k-th time; 0: never
};

using Clock = std::chrono::steady_clock;

/// One bucket's way through a step.
struct BucketTime {
  std::size_t bytes = 0;  // of one rank, as they travel
  Clock::time_point ready;
  Clock::time_point start;  // the queue was free for it
  Clock::time_point end;
};

/// What finish() did.  finished - called is the exposed communication.
struct Step {
  std::vector<BucketTime> buckets;  // in the order of their launch
  Clock::time_point called;
  Clock::time_point finished;
  bool rebuilt = false;  // gradient() has changed for every parameter
};

class Layer {
 public:
  /// Blocks until all ranks have called.  Checks that parameters, buffers and options are the same on every rank, else
  /// throws on every rank and names the first difference in name, shape or type; then gives rank 0's values to all.
  /// The communicator must outlive the layer.
  Layer(ncclComm_t comm, std::vector<Parameter> parameters, std::vector<Parameter> buffers, const Options& options);
  /// Never waits for other ranks: in the middle of a pass it leaves the calls under way, and their memory, to the end
  /// of the communicator.
  ~Layer();
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  int rank() const;
  int ranks() const;
  std::span<const Parameter> parameters() const;
  /// Where the values lie from now on (same size and strides).
  void set_values(std::size_t parameter, void* values);
  void set_buffer(std::size_t buffer, void* values);

  /// Memory for a trainable parameter's gradient, of the parameter's size and type, aligned to 64 bytes; empty for one
  /// that is not trainable.  The layer's; valid until a finish() that says `rebuilt`, which keeps the contents.
  std::span<std::byte> gradient(std::size_t parameter) const;

  /// A step begins: no parameter has a gradient, and what gradient() holds is garbage.  The first pass of a step must
  /// store into it, further ones add to it.
  void begin_step();
  /// begin_step(), and fills gradient memory with zeros, for frameworks that always add.
  void zero_gradients();

  /// The parameter's gradient of this pass is complete in gradient(parameter): once a parameter and pass.  Launches
  /// what can be launched; never waits for other ranks.
  void ready(std::size_t parameter);
  /// The parameter gets no gradient in this pass: lets its bucket go early.  finish() does so for all that are left.
  void absent(std::size_t parameter);

  /// While one lives, ready() only notes that the parameter has been used: gradients add up until the next pass.
  class Pause {
   public:
    explicit Pause(Layer* layer);
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Layer* layer_;
  };
  [[nodiscard]] Pause no_sync();

  /// Ends a pass that was not paused: launches the remaining buckets, waits, and leaves in gradient() what the
  /// reduction makes of all ranks' gradients: the same bits on every rank (in Mode::server: on rank 0 only).  A
  /// parameter that was used in any pass of the step by any rank is reduced; a rank that did not use it counts as zero.
  /// Without find_unused_parameters, throws on every rank if a rank has not used a parameter in this step, and names
  /// those parameters.  After it another pass may add to the mean and be finished in turn (not with sum nor a server).
  Step finish();
  /// Whether some rank used the parameter in the step that finish() ended.  Else its gradient is zero, and optimizers
  /// that decay or keep momentum should leave it alone, as they would with one rank.
  bool used(std::size_t parameter) const;

  /// For ranks whose inputs do not end together.  All ranks call it before each step: `weight` is how many samples
  /// this rank will feed, 0 if it has none (it then calls begin_step() and finish() without a pass).  Returns the sum
  /// over ranks; 0: the end.  The mean of this step weighs ranks by their samples, so if every rank's loss is the mean
  /// over its samples, the gradient is that of the mean over all.  A sum takes ranks as they are.
  double join(double weight);

  /// The 2-norm of all used gradients, the same bits on every rank; gradients are scaled so that it becomes norm_max if
  /// it is larger.  After finish().  Infinity as norm_max only measures.  In Mode::server 0 but on rank 0.
  double clip(double norm_max);

  /// Whether this rank updates its parameters: false only on ranks other than 0 with a server.
  bool updates() const;
  /// After the update, on all ranks.  With a server: sends the parameters.  Then broadcast_buffers, then check_every.
  void after_update();
  /// Rank 0's buffers to all.
  void broadcast_buffers();
  /// Throws on every rank unless the parameters have the same bits on all; names the first that differs and the ranks.
  void check_agreement();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rondo::data_parallel
