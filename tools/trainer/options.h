// What a command line of rondo-train asks for.  Flags are spelled as in timm and in PyTorch's ImageNet example, where
// these have them; docs/trainer.md holds the table.  Knows no torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo::trainer {

enum class Parallel {
  none,  // every rank trains a model of its own
  ddp,   // gradients are averaged over the ranks while backward runs
  ps,    // rank 0 gathers gradients, updates, and sends parameters
  dp,    // one process, a replica a thread; replica 0 gathers, updates, and is copied
};
enum class Norm { batch, group, sync };
enum class Stem { automatic, imagenet, small };
enum class Schedule { cosine, step, constant };
enum class Precision { as_is, bf16, fp16 };

struct Options {
  // The model.
  std::string model = "resnet50";
  int classes = 0;  // 0: those of the data
  int width = 64;   // channels of the stem
  Stem stem = Stem::automatic;
  Norm norm = Norm::batch;
  bool channels_last = false;
  bool recompute = false;
  std::string type = "float32";
  std::string device = "cpu";

  // The data.
  std::string data = "synthetic";
  std::string data_path;
  int image = 0;                 // pixels; 0: the data's own, or 224
  std::int64_t train_count = 0;  // images; 0: all
  std::int64_t test_count = 0;
  int batch = 32;  // images a rank and pass
  int workers = 1;
  bool drop_last = false;  // of images that don't go round; else some are used twice
  bool join = false;       // ranks have unequal shares: each image once an epoch

  // How to train.
  Parallel parallel = Parallel::ddp;
  double bucket_cap_mb = 25;
  Precision wire = Precision::as_is;  // of gradients on their way
  int replicas = 2;                   // threads, with dp
  int check_every = 0;                // steps between checks that all ranks agree; 0: none
  int epochs = 90;
  std::int64_t steps_max = 0;  // 0: as many as the epochs have
  std::uint64_t seed = 42;
  int accumulation = 1;  // passes a step
  double rate = 0;       // learning rate; 0: rate_base * global batch / rate_base_size
  double rate_base = 0.1;
  double rate_base_size = 256;
  Schedule schedule = Schedule::cosine;
  double warmup_epochs = 5;
  double warmup_rate = 1e-5;
  double rate_min = 0;
  double decay_epochs = 30;  // Schedule::step
  double decay_factor = 0.1;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  bool decay_all = true;  // false: none on norms and biases
  bool nesterov = false;
  double smoothing = 0;
  double mixup = 0;          // alpha of the beta distribution; 0: no mixup
  double clip = 0;           // of the gradients' norm; 0: no limit
  double average_decay = 0;  // of the averaged model (EMA); 0: none
  Precision precision = Precision::as_is;
  double loss_scale = 65536;  // at the start, with fp16
  int threads = 1;

  // What is measured besides.
  int exposed_rounds = 0;  // steps with and without exchange, after the training; 0: none
  bool tune = false;       // only sweep bucket sizes and accumulation
  std::vector<double> tune_bucket_caps_mb{1, 5, 25, 100};
  std::vector<int> tune_accumulations{1, 2, 4};
  int tune_rounds = 3;
  int tune_steps = 2;  // of each, a round

  // What comes out.
  std::string output;  // the folder of checkpoints; empty: none
  std::string resume;  // a checkpoint, or "auto": the last whole one in `output`
  int checkpoints_kept = 3;
  std::int64_t save_interval = 0;  // steps; 0: after each epoch only
  int evaluation_interval = 1;     // epochs
  bool evaluate_only = false;
  std::string json;                        // files, empty: none: rows of figures as JSON lines
  std::string csv;                         // the same as CSV
  std::string tensorboard;                 // a folder of event files
  std::string plot;                        // curves, SVG
  std::string trace;                       // of the last steps, for chrome://tracing
  std::string timeline;                    // of buckets against backward, SVG
  std::string report;                      // the final report, JSON
  std::vector<std::string> other_reports;  // of the same training on other numbers of ranks
  std::int64_t log_interval = 50;          // steps
};

/// What read_options() found.
struct CommandLine {
  Options options;
  bool done = false;  // help or version was printed, or the line is wrong: end with `status`
  int status = 0;
};

/// Prints help, version or what is wrong by itself.
CommandLine read_options(int argc, char** argv);

}  // namespace rondo::trainer
