// What a layer remembers.  Its parts: set-up (layer.cpp), a step (step.cpp), after the step (update.cpp).
//
// Flags: the last bucket ends with 2 elements a parameter, 0 or 1 on each rank: "used in this step" and "missing", not
// used though it should have been.  They go through the same reduction; other than 0 afterwards means "on some rank".
// The last bucket leaves when all gradients are ready, so its flags are known by then, and no call is added to a step.
#pragma once

#include <string>
#include <vector>

#include "buckets.h"
#include "exchange.h"
#include "handles.h"
#include "layer.h"

namespace rondo::data_parallel {

struct Layer::State {
  State(ncclComm_t communicator, std::vector<Parameter> model, std::vector<Parameter> model_buffers,
        const Options& wishes);

  // Set-up.
  void check_arguments() const;
  void require_same_model();
  void allocate();

  // A step.
  void complete(std::size_t parameter);
  void launch_complete();
  void launch(std::size_t bucket);
  void send(std::size_t bucket);
  void write_flags();
  void receive(std::size_t bucket);
  void fold_gathered(std::size_t bucket);
  void read_flags();
  /// Those that lack a gradient on some rank, and where, in words.
  std::string names_of_missing() const;
  Step timeline() const;
  bool rebuild();
  void reset_pass();
  /// The factor of this rank's gradients in a sum over ranks.
  double share() const;

  bool server() const { return options.mode == Mode::server; }
  ncclDataType_t wire_type(const Bucket& bucket) const;
  std::byte* flag(std::size_t index) const;
  void require_parameter(std::size_t parameter) const;
  void require_trainable(std::size_t parameter) const;
  void require_not_reduced() const;

  ncclComm_t comm;
  int rank = 0;
  int ranks = 1;
  Options options;
  std::vector<Parameter> parameters;
  std::vector<Parameter> buffers;
  std::vector<std::size_t> order;  // trainable parameters as gradients are expected

  BucketPlan plan;
  Memory gradients;
  Memory wire;      // gradients as they travel, if not as they are; one 16-bit element for each of `gradients`
  Memory gathered;  // a server's: every bucket of every rank
  std::vector<Event> ends;
  Event origin;                   // on the clock of events...
  Clock::time_point origin_time;  // ...and on ours
  std::vector<Clock::time_point> ready_times;
  Broadcaster broadcaster;

  // Of the step.
  std::vector<char> used_here;
  std::vector<char> used_anywhere;
  std::vector<char> missing_anywhere;
  bool reduced = false;  // finish() has been called since begin_step()
  double weight = 1;     // samples of this rank and of all: join()
  double weight_sum = 0;
  bool weighted = false;
  bool takes_part = true;
  bool joined = false;  // since the last finish()
  int source = 0;       // whose buffers count: the first rank that takes part

  // Of the pass.
  int pauses = 0;
  std::vector<char> complete_here;
  std::vector<std::size_t> pending;  // of each bucket: gradients that are not complete
  std::size_t next = 0;              // the bucket to be launched next
  std::vector<std::size_t> arrivals;
  bool arranged = false;  // the buckets have their final order
  std::int64_t updates = 0;

  Queue queue;  // last: it ends first, and waits for what is under way
};

}  // namespace rondo::data_parallel
