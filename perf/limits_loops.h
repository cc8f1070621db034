// The plainest loops that this processor runs fast: what the kernels and the collectives are measured against.  Written
// by hand, whole vectors only, no regard for anything but speed; they share no code with kernels/.
#pragma once

#include <cstddef>

namespace rondo::limits_perf {

/// Loops over `count` float32, a multiple of 16.  Ranges are equal or apart.
struct Loops {
  const char* name;  // of the instruction set
  void (*sum)(float* target, const float* a, const float* b, std::size_t count);
  void (*sum_two_targets)(float* target, float* second, const float* a, const float* b, std::size_t count);
  void (*sum_streaming)(float* target, const float* a, const float* b, std::size_t count);  // past the caches
  void (*sum_two_targets_streaming)(float* target, float* second, const float* a, const float* b, std::size_t count);
  void (*copy)(float* target, const float* source, std::size_t count);
  void (*copy_streaming)(float* target, const float* source, std::size_t count);
  void (*fill)(float* target, float value, std::size_t count);
};

/// The loops of the best instruction set here: AVX-512, else what the compiler makes of plain C++ (whose streaming
/// loops do not stream).
const Loops& loops();

}  // namespace rondo::limits_perf
