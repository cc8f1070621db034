// A training, epoch by epoch: see training.h.  Every rank walks the same steps; rank 0 speaks and writes files.
#include "tools/trainer/training.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "tools/trainer/checkpoint.h"
#include "tools/trainer/data_parallel/replicas.h"
#include "tools/trainer/images.h"
#include "tools/trainer/learner.h"
#include "tools/trainer/reporter.h"
#include "tools/trainer/schedule.h"
#include "tools/trainer/stop.h"
#include "tools/trainer/team.h"

namespace rondo::trainer {
namespace {

/// Where a training stands: what a checkpoint keeps beside tensors.
struct Progress {
  std::int64_t steps = 0;
  std::uint64_t passes = 0;
  std::uint64_t epoch = 0;
  std::uint64_t images = 0;  // of the epoch, over all ranks
  double best = -1;          // share of test images
};

class Training {
 public:
  Training(const Options& options, Team& team);
  /// The signal that asked it to end, or 0.
  int run();

 private:
  void resume();
  void read(const std::string& path);
  int step();
  void end_epoch();
  double evaluate();
  void save(bool best);
  nlohmann::json settings() const;
  double epochs_done() const { return static_cast<double>(progress_.steps) / static_cast<double>(epoch_steps_); }
  bool first() const { return team_.rank() == 0; }

  const Options options_;
  Team& team_;
  Images images_;
  Learner learner_;
  std::optional<CheckpointFolder> folder_;  // on rank 0, if there is one
  std::unique_ptr<Feed> feed_;
  Reporter reporter_;
  Progress progress_;
  std::size_t position_ = 0;  // among this rank's images of the epoch
  bool resumed_ = false;
  std::int64_t saved_steps_ = -1;
  std::int64_t epoch_steps_;
  std::int64_t steps_planned_;
  double peak_rate_;
};

std::int64_t divided_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

Training::Training(const Options& options, Team& team)
    : options_(options),
      team_(team),
      images_(options, team.rank(), team.ranks()),
      learner_(options, team, {images_.classes(), images_.size(), images_.normalisation()}),
      reporter_(options, team, learner_.gradient_bytes()) {
  const std::int64_t step_images = std::int64_t{options_.batch} * options_.accumulation;
  epoch_steps_ = divided_up(static_cast<std::int64_t>(images_.training_count()), step_images);
  steps_planned_ = options_.epochs * epoch_steps_;
  if (options_.steps_max > 0) steps_planned_ = std::min(steps_planned_, options_.steps_max);
  const int together = options_.parallel == Parallel::none ? 1 : team_.ranks();
  peak_rate_ = peak_rate(options_, static_cast<double>(step_images * together));
  if (first() && !options_.output.empty()) folder_.emplace(options_.output, options_.checkpoints_kept);
}

// ---- checkpoints ----------------------------------------------------------------------------------------------------

/// What a continuation must have in common with what it continues.
nlohmann::json Training::settings() const {
  return {{"model", options_.model},
          {"width", options_.width},
          {"norm", static_cast<int>(options_.norm)},
          {"average", options_.average_decay > 0}};
}

void Training::save(bool best) {
  if (first() && folder_) {
    Learner::Snapshot snapshot = learner_.snapshot();
    snapshot.state["settings"] = settings();
    snapshot.state["steps"] = progress_.steps;
    snapshot.state["passes"] = progress_.passes;
    snapshot.state["epoch"] = progress_.epoch;
    snapshot.state["images"] = progress_.images;
    snapshot.state["best"] = progress_.best;
    if (best) folder_->save_best(snapshot.state, snapshot.tensors);
    if (saved_steps_ != progress_.steps) folder_->save(progress_.steps, snapshot.state, snapshot.tensors);
    saved_steps_ = progress_.steps;
  }
  reporter_.pause();
}

/// Rank 0 reads, all continue.
void Training::read(const std::string& path) {
  std::vector<std::byte> bytes;
  if (first()) bytes = read_file(path);
  team_.broadcast(bytes);
  const Checkpoint checkpoint(std::move(bytes), path);
  if (checkpoint.state().at("settings") != settings()) {
    throw CommonError(path + " is of a training with " + checkpoint.state().at("settings").dump() +
                      ", and this one has " + settings().dump() +
                      ": give the same --model, --width, --norm and --model-ema");
  }
  learner_.restore(checkpoint);
  progress_.steps = checkpoint.state().at("steps");
  progress_.passes = checkpoint.state().at("passes");
  progress_.epoch = checkpoint.state().at("epoch");
  progress_.images = checkpoint.state().at("images");
  progress_.best = checkpoint.state().at("best");
}

void Training::resume() {
  if (options_.resume.empty()) return;
  std::vector<std::string> candidates{options_.resume};
  if (options_.resume == "auto") {
    candidates.clear();
    if (first()) candidates = folder_->newest_first();
  }
  // Whether a file is whole is for rank 0 to see; the others hear its name.
  std::string chosen = candidates.empty() ? "" : candidates.front();
  if (first() && options_.resume == "auto") {
    chosen.clear();
    for (const std::string& path : candidates) {
      try {
        const Checkpoint whole(read_file(path), path);
        chosen = path;
        break;
      } catch (const Error& error) {
        std::fprintf(stderr, "rondo-train: %s; trying the one before it\n", error.what());
      }
    }
  }
  std::vector<std::byte> name(chosen.size());
  std::transform(chosen.begin(), chosen.end(), name.begin(), [](char letter) { return std::byte(letter); });
  team_.broadcast(name);
  chosen.assign(reinterpret_cast<const char*>(name.data()), name.size());
  if (chosen.empty()) return;
  read(chosen);
  resumed_ = true;
  if (first()) reporter_.say("resuming at step " + std::to_string(progress_.steps) + " from " + chosen);
}

// ---- steps and epochs -----------------------------------------------------------------------------------------------

/// The signal that asked a rank to end, or 0.
int Training::step() {
  const std::size_t count = images_.training_count();
  const std::size_t position = position_;
  StepPlan plan;
  plan.number = static_cast<std::uint64_t>(progress_.steps) + 1;
  const double epoch = epochs_done();
  plan.rate = rate_at(options_, peak_rate_, epoch, options_.epochs);
  const std::size_t wanted = static_cast<std::size_t>(options_.batch) * static_cast<std::size_t>(options_.accumulation);
  plan.images = std::min(wanted, count - position);
  plan.passes = static_cast<int>(divided_up(static_cast<std::int64_t>(plan.images), options_.batch));
  plan.first_pass = progress_.passes;
  plan.signal = stop_signal();
  StepResult result = learner_.step(*feed_, plan);
  ++progress_.steps;
  progress_.passes += static_cast<std::uint64_t>(plan.passes);
  const bool ended = position + plan.images == count;
  progress_.epoch += ended ? 1 : 0;
  position_ = ended ? 0 : position + plan.images;
  progress_.images = position_ * static_cast<std::size_t>(team_.ranks());
  reporter_.step(result, plan.rate, epoch);
  return result.signal;
}

double Training::evaluate() {
  const std::unique_ptr<Feed> feed = images_.test();
  const Scores own = learner_.evaluate(*feed);
  std::array<double, 3> sums{own.images, own.correct, own.loss};
  if (options_.parallel != Parallel::none || options_.evaluate_only) team_.sum(sums);
  reporter_.evaluation(progress_.steps, epochs_done(), sums[1] / sums[0], sums[2] / sums[0], sums[0]);
  return sums[1] / sums[0];
}

void Training::end_epoch() {
  bool best = false;
  if (progress_.epoch % static_cast<std::uint64_t>(options_.evaluation_interval) == 0 ||
      progress_.steps == steps_planned_) {
    const double share = evaluate();
    best = share > progress_.best;
    progress_.best = std::max(share, progress_.best);
  }
  save(best);
}

int Training::run() {
  resume();
  if (options_.evaluate_only) {
    evaluate();
    return 0;
  }
  position_ = progress_.images / static_cast<std::size_t>(team_.ranks());
  feed_ = images_.training(progress_.epoch, position_, team_);
  reporter_.begin(steps_planned_, resumed_ ? std::optional(progress_.steps) : std::nullopt);
  take_stop_signals();
  int signal = 0;
  while (signal == 0 && progress_.steps < steps_planned_) {
    signal = step();
    if (progress_.images == 0) {
      end_epoch();
    } else if (options_.save_interval > 0 && progress_.steps % options_.save_interval == 0) {
      save(false);
    }
  }
  if (saved_steps_ != progress_.steps) save(false);
  if (options_.parallel != Parallel::none) team_.barrier();  // a rank that ended would end rank 0, which is writing
  if (signal == 0) {
    reporter_.finish();
  } else if (first()) {
    reporter_.say(folder_ ? "stopped by a signal after step " + std::to_string(progress_.steps) + "; " +
                                "go on with --resume auto"
                          : "stopped by a signal after step " + std::to_string(progress_.steps));
  }
  return signal;
}

Ending train_with(const Options& options, Team& team) {
  Ending ending;
  try {
    Training training(options, team);
    ending.signal = training.run();
  } catch (const CommonError& error) {
    if (team.rank() == 0) std::fprintf(stderr, "rondo-train: %s\n", error.what());
    ending.status = 1;
  }
  team.finish();
  return ending;
}

}  // namespace

Ending train(const Options& options) {
  if (options.parallel != Parallel::dp) {
    Team team;
    return train_with(options, team);
  }
  if (const char* ranks = std::getenv("WORLD_SIZE"); ranks != nullptr && std::string(ranks) != "1") {
    throw Error("--parallel dp is one process with --replicas threads: start it on one rank");
  }
  Ending ending;
  data_parallel::run_replicas(options.replicas, [&](int rank, ncclComm_t comm) {
    Team team(comm);
    const Ending own = train_with(options, team);
    if (rank == 0) ending = own;
  });
  return ending;
}

}  // namespace rondo::trainer
