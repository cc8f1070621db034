// The flags of rondo-train, by CLI11: see options.h.
#include "tools/trainer/options.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "rondo.h"
#include "tools/trainer/data/open.h"
#include "tools/trainer/data/pack_command.h"

namespace rondo::trainer {
namespace {

/// An option whose values are names of an enumeration's.
template <typename Value>
CLI::Option* add_choice(CLI::App& app, const std::string& name, Value& value, std::map<std::string, Value> choices,
                        const std::string& help) {
  const auto described = [choices, &value] {
    for (const auto& [word, choice] : choices) {
      if (choice == value) return word;
    }
    return std::string();
  };
  return app.add_option(name, value, help)
      ->transform(CLI::CheckedTransformer(choices).description(""))
      ->default_str(described());
}

void add_model(CLI::App& app, Options& options) {
  const std::string group = "Model";
  app.add_option("-a,--arch,--model", options.model, "resnet18, resnet34, resnet50, resnet101, resnet152")
      ->check(CLI::IsMember({"resnet18", "resnet34", "resnet50", "resnet101", "resnet152"}).description(""))
      ->group(group);
  app.add_option("--num-classes", options.classes, "0: those of the data")->check(CLI::NonNegativeNumber)->group(group);
  app.add_option("--width", options.width, "channels of the stem")->check(CLI::Range(8, 1024))->group(group);
  add_choice(app, "--stem", options.stem,
             {{"auto", Stem::automatic}, {"imagenet", Stem::imagenet}, {"small", Stem::small}},
             "imagenet: 7x7, stride 2, and a pool; small: 3x3; auto: small below 64 pixels")
      ->group(group);
  add_choice(app, "--norm", options.norm, {{"batch", Norm::batch}, {"group", Norm::group}, {"sync", Norm::sync}},
             "batch, group (at most 32 groups), or sync: batch over all ranks")
      ->group(group);
  app.add_flag("--channels-last", options.channels_last, "keep channels beside each other")->group(group);
  app.add_flag("--grad-checkpointing", options.recompute, "keep a block's input only, and compute the rest again")
      ->group(group);
  app.add_option("--dtype", options.type, "float32, float64: of parameters")
      ->check(CLI::IsMember({"float32", "float64"}).description(""))
      ->group(group);
  app.add_option("--device", options.device, "where tensors live, as torch names it")->group(group);
}

void add_data(CLI::App& app, Options& options) {
  const std::string group = "Data";
  std::string kinds;
  for (const std::string& kind : data::kinds()) kinds += (kinds.empty() ? "" : ", ") + kind;
  app.add_option("--data,--dataset", options.data, kinds)->group(group);
  app.add_option("--data-dir", options.data_path, "file or folder of the data")->group(group);
  app.add_option("--image,--img-size", options.image, "height and width in pixels; 0: the data's own, or 224")
      ->check(CLI::Range(0, 4096))
      ->group(group);
  app.add_option("--train-num-samples", options.train_count, "only the first so many images; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  app.add_option("--val-num-samples", options.test_count, "the same for evaluation")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  app.add_option("-b,--batch-size,--batch", options.batch, "images a rank and pass")
      ->check(CLI::Range(1, 1 << 20))
      ->group(group);
  app.add_flag("--drop-last", options.drop_last, "leave out images that don't go round; else some are used twice")
      ->group(group);
  app.add_flag("--join", options.join, "each image once: ranks with fewer wait for the others, and images weigh alike")
      ->group(group);
  app.add_option("-j,--workers", options.workers, "threads that load; 0: the one that trains")
      ->check(CLI::Range(0, 256))
      ->group(group);
}

void add_rate(CLI::App& app, Options& options) {
  const std::string group = "Learning rate";
  app.add_option("--lr", options.rate, "0: --lr-base * global batch / --lr-base-size")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  app.add_option("--lr-base", options.rate_base, "")->check(CLI::NonNegativeNumber)->group(group);
  app.add_option("--lr-base-size", options.rate_base_size, "")->check(CLI::PositiveNumber)->group(group);
  add_choice(app, "--sched", options.schedule,
             {{"cosine", Schedule::cosine}, {"step", Schedule::step}, {"none", Schedule::constant}},
             "cosine (to --min-lr), step (--decay-epochs, --decay-rate), none")
      ->group(group);
  app.add_option("--warmup-epochs", options.warmup_epochs, "linear, from --warmup-lr")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  app.add_option("--warmup-lr", options.warmup_rate, "")->check(CLI::NonNegativeNumber)->group(group);
  app.add_option("--min-lr", options.rate_min, "")->check(CLI::NonNegativeNumber)->group(group);
  app.add_option("--decay-epochs", options.decay_epochs, "")->check(CLI::PositiveNumber)->group(group);
  app.add_option("--decay-rate", options.decay_factor, "")->check(CLI::PositiveNumber)->group(group);
}

void add_training(CLI::App& app, Options& options) {
  const std::string group = "Training";
  add_choice(app, "--parallel", options.parallel,
             {{"none", Parallel::none}, {"ddp", Parallel::ddp}, {"ps", Parallel::ps}, {"dp", Parallel::dp}},
             "ddp: gradients averaged while backward runs; ps: rank 0 gathers, updates, sends; dp: the same in "
             "the threads of one process; none: each rank alone")
      ->group(group);
  app.add_option("--epochs", options.epochs, "")->check(CLI::Range(1, 1 << 20))->group(group);
  app.add_option("--max-steps", options.steps_max, "0: as many as the epochs have")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  app.add_option("--seed", options.seed, "of everything random")->group(group);
  app.add_option("--grad-accum-steps", options.accumulation, "passes before an update")
      ->check(CLI::Range(1, 1 << 16))
      ->group(group);
  app.add_option("--momentum", options.momentum, "")->check(CLI::Range(0.0, 1.0).description(""))->group(group);
  app.add_option("--wd,--weight-decay", options.weight_decay, "")->check(CLI::NonNegativeNumber)->group(group);
  app.add_flag("!--no-norm-decay", options.decay_all, "no weight decay on norms and biases")->group(group);
  app.add_flag("--nesterov", options.nesterov, "")->group(group);
  app.add_option("--smoothing", options.smoothing, "of labels")
      ->check(CLI::Range(0.0, 1.0).description(""))
      ->group(group);
  app.add_option("--mixup", options.mixup, "alpha; 0: none")->check(CLI::NonNegativeNumber)->group(group);
  app.add_option("--clip-grad", options.clip, "limit of the gradients' norm; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  app.add_option("--loss-scale", options.loss_scale, "at the start, with --amp-dtype float16")
      ->check(CLI::PositiveNumber)
      ->group(group);
  app.add_option("--threads", options.threads, "of a rank's computation")->check(CLI::Range(1, 1024))->group(group);
}

void add_exchange(CLI::App& app, Options& options) {
  const std::string group = "Exchange of gradients";
  app.add_option("--bucket-cap-mb", options.bucket_cap_mb, "MiB a bucket; the first has 1")
      ->check(CLI::PositiveNumber)
      ->group(group);
  add_choice(app, "--wire-dtype", options.wire,
             {{"same", Precision::as_is}, {"bfloat16", Precision::bf16}, {"float16", Precision::fp16}},
             "type in which gradients travel")
      ->group(group);
  app.add_option("--replicas", options.replicas, "threads, with --parallel dp")
      ->check(CLI::Range(1, 256))
      ->group(group);
  app.add_option("--check-every", options.check_every, "steps between checks that ranks agree; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
}

void add_output(CLI::App& app, Options& options) {
  const std::string group = "Output";
  app.add_option("--output", options.output, "folder of checkpoints; empty: none")->group(group);
  app.add_option("--resume", options.resume, "a checkpoint, or auto: the last one in --output, if there is one")
      ->group(group);
  app.add_option("--checkpoint-hist", options.checkpoints_kept, "checkpoints to keep, beside the best")
      ->check(CLI::Range(1, 1 << 20))
      ->group(group);
  app.add_option("--recovery-interval", options.save_interval, "steps between checkpoints; 0: after epochs only")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  app.add_option("--val-interval", options.evaluation_interval, "epochs between evaluations")
      ->check(CLI::Range(1, 1 << 20))
      ->group(group);
  app.add_flag("-e,--evaluate", options.evaluate_only, "only evaluate, with --resume the checkpoint's model")
      ->group(group);
  app.add_option("--json", options.json, "file of losses, rates and accuracies by step, as JSON lines")->group(group);
  app.add_option("--csv", options.csv, "the same as CSV")->group(group);
  app.add_option("--tensorboard", options.tensorboard, "folder of TensorBoard's event files")->group(group);
  app.add_option("--plot", options.plot, "curves as SVG; after --resume those of --json, too")->group(group);
  app.add_option("--timeline", options.timeline, "the report's buckets against backward, as SVG")->group(group);
  app.add_option("--trace", options.trace, "the last steps of all ranks, for chrome://tracing")->group(group);
  app.add_option("--report", options.report, "the final report as JSON")->group(group);
  app.add_option("--compare", options.other_reports, "reports of the same training on other numbers of ranks: scaling")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
  app.add_option("--log-interval", options.log_interval, "steps between lines")
      ->check(CLI::PositiveNumber)
      ->group(group);
}

void add_measuring(CLI::App& app, Options& options) {
  const std::string group = "Measuring";
  app.add_option("--measure-exposed", options.exposed_rounds,
                 "rounds of steps with and without exchange, in turns, after the training; 0: none")
      ->check(CLI::Range(0, 1 << 20))
      ->group(group);
  app.add_flag("--tune", options.tune, "only sweep bucket size x passes a step, and tell which is fastest")
      ->group(group);
  app.add_option("--tune-bucket-cap-mb", options.tune_bucket_caps_mb, "sizes to try")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CLI::PositiveNumber)
      ->group(group);
  app.add_option("--tune-grad-accum-steps", options.tune_accumulations, "passes a step to try")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CLI::Range(1, 1 << 16))
      ->group(group);
  app.add_option("--tune-rounds", options.tune_rounds, "")->check(CLI::Range(1, 1 << 20))->group(group);
  app.add_option("--tune-steps", options.tune_steps, "of each, a round")->check(CLI::Range(1, 1 << 20))->group(group);
}

/// What the flags say together that can't be; empty if all is well.
std::string contradiction(const Options& options) {
  if (options.resume == "auto" && options.output.empty()) return "--resume auto needs --output: where it looks";
  if (options.precision != Precision::as_is && options.type != "float32") return "--amp is for --dtype float32";
  const bool exchanging = options.parallel == Parallel::ddp || options.parallel == Parallel::ps;
  if (options.device.rfind("cpu", 0) != 0 && options.parallel != Parallel::none) {
    return "gradients on --device " + options.device +
           " can't be exchanged: Rondo moves host memory only; give --device cpu, or --parallel none";
  }
  if (options.join && !exchanging) return "--join is for --parallel ddp or ps";
  if (options.join && options.drop_last) return "--join leaves no image out: it does not go with --drop-last";
  if (options.join && options.norm == Norm::sync) {
    return "--join does not go with --norm sync: a rank without images has no mean";
  }
  if (options.exposed_rounds > 0 && !exchanging) return "--measure-exposed is for --parallel ddp or ps";
  if (options.tune && !exchanging) return "--tune is for --parallel ddp or ps";
  return "";
}

}  // namespace

CommandLine read_options(int argc, char** argv) {
  CommandLine line;
  Options& options = line.options;
  CLI::App app("Trains a ResNet on one or several ranks: rondo run -n RANKS -- rondo-train [OPTIONS]", "rondo-train");
  app.set_version_flag("--version", rondoGetVersion());
  app.option_defaults()->always_capture_default()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.get_formatter()->column_width(36);
  bool mixed = false;
  bool averaged = false;
  double average_decay = 0.9998;
  Precision mixed_type = Precision::bf16;
  add_model(app, options);
  add_data(app, options);
  add_rate(app, options);
  add_training(app, options);
  add_exchange(app, options);
  add_output(app, options);
  add_measuring(app, options);
  const std::string group = "Training";
  app.add_flag("--amp", mixed, "compute in --amp-dtype where that is safe")->group(group);
  add_choice(app, "--amp-dtype", mixed_type, {{"bfloat16", Precision::bf16}, {"float16", Precision::fp16}}, "")
      ->group(group);
  app.add_flag("--model-ema", averaged, "average the model; evaluate the average")->group(group);
  app.add_option("--model-ema-decay", average_decay, "")->check(CLI::Range(0.0, 1.0).description(""))->group(group);
  data::add_pack_command(app);
  try {
    app.parse(argc, argv);
    line.done = app.got_subcommand("pack");
  } catch (const CLI::RuntimeError& error) {
    line.done = true;
    line.status = error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    line.done = true;
    line.status = app.exit(error) == 0 ? 0 : 2;
  }
  if (mixed) options.precision = mixed_type;
  if (averaged) options.average_decay = average_decay;
  if (const std::string text = contradiction(options); !line.done && !text.empty()) {
    std::fprintf(stderr, "rondo-train: %s\n", text.c_str());
    line.done = true;
    line.status = 2;
  }
  return line;
}

}  // namespace rondo::trainer
