// What a run was like, at its end: where a step's time went, how buckets travelled, memory, scaling, advice.  From the
// ranks' figures alone; as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tools/trainer/report/exchange_cost.h"
#include "tools/trainer/report/measures.h"
#include "tools/trainer/report/scaling.h"

namespace rondo::report {

struct Run {
  /// What was run, in the order to show: {"model", "resnet50"}, {"parallel", "ddp"}, {"batch a rank", "32"}.
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<Figures> ranks;  // one each, in order; at least one, with steps
  double gradient_bytes = 0;   // of all parameters; 0 if nothing is reduced
  double bucket_bytes = 0;     // the cap on buckets
  int accumulation = 1;        // backwards a step
  /// The same training (the same batch a rank) on other numbers of ranks; this run needn't be among them.
  std::vector<ScalingPoint> others;
  ExchangeCost exchange;
};

/// Of all ranks together: their images, by the longest time.
double images_per_second(const Run& run);

/// The last line is "N images/s", as in "54.1 images/s".
std::string text(const Run& run);

/// The same, for programs; docs/trainer.md lists the fields.
nlohmann::json to_json(const Run& run);

/// What such a JSON file of another run (of one rank, say) says of its speed: for Run::others.  Throws
/// std::runtime_error with a sentence if it can't be read.
ScalingPoint scaling_point_of(const std::string& path);

}  // namespace rondo::report
