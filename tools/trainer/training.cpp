// A training, epoch by epoch: see training.h.  Every rank walks the same steps; rank 0 speaks and writes files.
#include "tools/trainer/training.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
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
#include "tools/trainer/trials.h"

namespace rondo::trainer {
namespace {

/// Where a training stands: what a checkpoint keeps beside tensors.
struct Progress {
  std::int64_t steps = 0;
  std::uint64_t passes = 0;
  std::uint64_t epoch = 0;
  std::uint64_t images = 0;     // of the epoch, over all ranks
  double best = -1;             // share of test images
  bool evaluation_due = false;  // a signal came in the midst of it
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
  int end_epoch();
  std::optional<double> evaluate(int& signal);
  int tune();
  int finish();
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
  images_.set_memory(learner_.batch_memory());
  const std::int64_t step_images = std::int64_t{options_.batch} * options_.accumulation;
  epoch_steps_ = divided_up(static_cast<std::int64_t>(images_.training_count_max()), step_images);
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
    snapshot.state["evaluation_due"] = progress_.evaluation_due;
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
  progress_.evaluation_due = checkpoint.state().at("evaluation_due");
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
  const std::size_t longest = images_.training_count_max();
  const std::size_t position = std::min(position_, images_.training_count());
  StepPlan plan;
  plan.number = static_cast<std::uint64_t>(progress_.steps) + 1;
  const double epoch = epochs_done();
  plan.rate = rate_at(options_, peak_rate_, epoch, options_.epochs);
  const std::size_t wanted = static_cast<std::size_t>(options_.batch) * static_cast<std::size_t>(options_.accumulation);
  plan.images = std::min(wanted, images_.training_count() - position);
  plan.passes = static_cast<int>(divided_up(static_cast<std::int64_t>(plan.images), options_.batch));
  plan.first_pass = progress_.passes;
  plan.signal = stop_signal();
  StepResult result = learner_.step(*feed_, plan);
  ++progress_.steps;
  // As the rank with the most images counts: what is drawn by pass does not depend on who had a pass less.
  const auto largest = static_cast<std::int64_t>(std::min(wanted, longest - position_));
  progress_.passes += static_cast<std::uint64_t>(divided_up(largest, options_.batch));
  const bool ended = position_ + wanted >= longest;
  progress_.epoch += ended ? 1 : 0;
  position_ = ended ? 0 : position_ + wanted;
  progress_.images = position_ * static_cast<std::size_t>(team_.ranks());
  reporter_.step(result, plan.rate, epoch);
  return result.signal;
}

/// The share of test images that the model names; nothing if a signal came to a rank: then that is in `signal`.
std::optional<double> Training::evaluate(int& signal) {
  const std::unique_ptr<Feed> feed = images_.test();
  const Scores own = learner_.evaluate(*feed, [] { return stop_signal() != 0; });
  const int here = stop_signal();
  std::array<double, 5> sums{own.images, own.correct, own.loss, here == SIGINT ? 1.0 : 0.0,
                             here != 0 && here != SIGINT ? 1.0 : 0.0};
  if (options_.parallel != Parallel::none || options_.evaluate_only) team_.sum(sums);
  signal = sums[4] > 0 ? SIGTERM : sums[3] > 0 ? SIGINT : 0;
  if (signal != 0) return std::nullopt;  // some rank left images out
  reporter_.evaluation(progress_.steps, epochs_done(), sums[1] / sums[0], sums[2] / sums[0], sums[0]);
  return sums[1] / sums[0];
}

/// The signal that asked a rank to end, or 0.
int Training::end_epoch() {
  int signal = 0;
  bool best = false;
  if (progress_.epoch % static_cast<std::uint64_t>(options_.evaluation_interval) == 0 ||
      progress_.steps == steps_planned_) {
    const std::optional<double> share = evaluate(signal);
    progress_.evaluation_due = !share;
    best = share && *share > progress_.best;
    if (best) progress_.best = *share;
  }
  save(best);
  return signal;
}

// ---- what is measured besides ---------------------------------------------------------------------------------------

/// The signal that ended it early, or 0.
int Training::tune() {
  report::TunePoint usual{options_.bucket_cap_mb * 1024 * 1024, options_.accumulation, 0, 0};
  reporter_.say("measuring " + std::to_string(options_.tune_rounds) + " rounds of each size and number of passes");
  Trials trials(options_, team_, images_, learner_);
  const std::vector<report::TunePoint> points = trials.tune(usual);
  for (const report::TunePoint& point : points) {
    if (point.bucket_bytes == usual.bucket_bytes && point.accumulation == usual.accumulation) usual = point;
  }
  if (trials.signal() == 0) reporter_.tuned(points, usual);
  return trials.signal();
}

/// The report; before it the rounds of --measure-exposed.  The signal that ended these early, or 0.
int Training::finish() {
  reporter_.note_memory();
  report::ExchangeCost exchange;
  if (options_.exposed_rounds > 0) {
    feed_.reset();
    Trials trials(options_, team_, images_, learner_);
    exchange = trials.exchange(options_.exposed_rounds);
    if (trials.signal() != 0) return trials.signal();
  }
  reporter_.finish(exchange);
  return 0;
}

int Training::run() {
  resume();
  take_stop_signals();
  int signal = 0;
  if (options_.evaluate_only) {
    evaluate(signal);
    return signal;
  }
  if (options_.tune) return tune();
  position_ = progress_.images / static_cast<std::size_t>(team_.ranks());
  feed_ = images_.training(progress_.epoch, position_, team_);
  reporter_.begin(steps_planned_, resumed_ ? std::optional(progress_.steps) : std::nullopt);
  if (progress_.evaluation_due) signal = end_epoch();
  while (signal == 0 && progress_.steps < steps_planned_) {
    signal = step();
    if (progress_.images == 0) {
      const int asked = end_epoch();
      if (signal == 0) signal = asked;
    } else if (options_.save_interval > 0 && progress_.steps % options_.save_interval == 0) {
      save(false);
    }
  }
  if (saved_steps_ != progress_.steps) save(false);
  if (options_.parallel != Parallel::none) team_.barrier();  // a rank that ended would end rank 0, which is writing
  if (signal == 0) signal = finish();
  if (signal != 0) {
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
