// What the data-parallel layer costs beside communication: steps on ResNet-50's 161 parameters on one rank, where there
// is nothing to reduce.  Prints processor time a step, least and median, without and with the copy of each gradient
// into its bucket.  Measures; asserts nothing.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "rondo.h"
#include "tools/trainer/data_parallel/layer.h"

namespace dp = rondo::data_parallel;

namespace {

/// The number of elements of each parameter, in the order of forward.
std::vector<std::size_t> resnet50() {
  std::vector<std::size_t> counts;
  const auto convolution = [&](std::size_t weights, std::size_t channels) {
    counts.insert(counts.end(), {weights, channels, channels});  // and its norm
  };
  convolution(std::size_t{64} * 3 * 49, 64);
  std::size_t in = 64;
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const std::size_t width = std::size_t{64} << stage;
    for (int block = 0; block < blocks[stage]; ++block) {
      convolution(in * width, width);
      convolution(width * width * 9, width);
      convolution(width * width * 4, width * 4);
      if (block == 0) convolution(in * width * 4, width * 4);
      in = width * 4;
    }
  }
  counts.insert(counts.end(), {in * 1000, 1000});
  return counts;
}

double processor_ms() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

}  // namespace

int main() {
  ncclComm_t comm = nullptr;
  if (ncclCommInitAll(&comm, 1, nullptr) != ncclSuccess) return 1;
  std::vector<std::vector<float>> memory;
  std::vector<dp::Parameter> parameters;
  for (const std::size_t count : resnet50()) {
    memory.emplace_back(count);
    parameters.push_back({std::to_string(memory.size()), ncclFloat32, {static_cast<std::int64_t>(count)}});
    parameters.back().values = memory.back().data();
  }
  {
    dp::Layer layer(comm, parameters, {}, {});
    const std::vector<float> source(std::size_t{512} * 512 * 9);
    std::vector<double> times[2];
    for (int step = 0; step < 40; ++step) {
      for (const bool copies : {false, true}) {
        const double begin = processor_ms();
        layer.begin_step();
        for (std::size_t i = parameters.size(); i-- > 0;) {
          if (copies) std::memcpy(layer.gradient(i).data(), source.data(), layer.gradient(i).size());
          layer.ready(i);
        }
        layer.finish();
        layer.after_update();
        if (step >= 3) times[copies ? 1 : 0].push_back(processor_ms() - begin);
      }
    }
    for (const bool copies : {false, true}) {
      auto& all = times[copies ? 1 : 0];
      std::sort(all.begin(), all.end());
      std::printf("%s copies of gradients: least %.3f ms, median %.3f ms a step\n", copies ? "with" : "without",
                  all.front(), all[all.size() / 2]);
    }
  }
  ncclCommDestroy(comm);
  return 0;
}
