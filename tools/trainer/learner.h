// What learns: the model, its optimizer and average, the precision, and the exchange of gradients with other ranks. One
// step at a time; when, from which data and at which rate is the caller's.  Shows no torch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "tools/trainer/checkpoint.h"
#include "tools/trainer/data/dataset.h"
#include "tools/trainer/data/loader.h"
#include "tools/trainer/feed.h"
#include "tools/trainer/options.h"
#include "tools/trainer/report/measures.h"
#include "tools/trainer/team.h"

namespace rondo::trainer {

/// What the model has to know of the data.
struct DataTraits {
  int classes = 0;
  int image = 0;  // pixels
  data::Normalisation normalisation;
};

/// What a step has to do with the other ranks.
enum class Exchange {
  usual,     // gradients become those of all ranks, and all agree on loss and end
  paused,    // under no_sync(): gradients go into their buckets and stay there
  detached,  // without the layer
};

struct StepPlan {
  std::uint64_t number = 0;      // from 1
  double rate = 0;               // learning rate
  int passes = 1;                // batches to take
  std::size_t images = 0;        // in all of them
  std::uint64_t first_pass = 0;  // over the whole training
  int signal = 0;                // asked of this rank, or 0
  Exchange exchange = Exchange::usual;
};

struct StepResult {
  double loss = 0;      // mean over the images of all ranks that train together
  bool updated = true;  // false: a gradient overflowed, and the loss scale was halved
  int signal = 0;       // asked of one of them, or 0
  double norm = 0;      // of the gradients, before clipping; 0 unless it was asked for
  report::Step times;
};

/// Sums over images.
struct Scores {
  double images = 0;
  double correct = 0;
  double loss = 0;
};

class Learner {
 public:
  /// With other ranks: blocks until they have called; their models are then equal.
  Learner(const Options& options, Team& team, const DataTraits& data);
  ~Learner();

  /// Throws CommonError if the loss is no number, on all ranks that train together.
  StepResult step(Feed& feed, const StepPlan& plan);
  /// Of this rank's images, until `enough` says so between batches; by the averaged model, if there is one.
  Scores evaluate(Feed& feed, const std::function<bool()>& enough);

  // With Parallel::ddp and ps, on all ranks.
  /// Lays gradients out anew, in buckets of this size; rank 0's parameters go to all.
  void lay_out(double bucket_cap_mb);
  /// The seconds that the exchange of gradients, and of what goes to all after the update, takes by itself.
  double exchange_alone();

  /// All that a continuation needs.  The tensors' bytes are copies.
  class Snapshot {
   public:
    nlohmann::json state;
    std::vector<TensorBytes> tensors;
    std::shared_ptr<void> memory;  // behind `tensors`; its type is torch's
  };
  Snapshot snapshot() const;
  /// Throws Error if it is of another model or training.
  void restore(const Checkpoint& checkpoint);

  /// For batches on their way to the model's device; nothing: plain memory.
  std::function<data::Memory(std::size_t bytes)> batch_memory() const;
  double gradient_bytes() const;
  std::int64_t parameter_count() const;

 private:
  class Machine;
  std::unique_ptr<Machine> machine_;
};

}  // namespace rondo::trainer
