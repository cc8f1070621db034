// The loops by hand: AVX-512 with intrinsics, and plain C++ for processors without.
#include "limits_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rondo::limits_perf {
namespace {

namespace plain {

void sum(float* target, const float* a, const float* b, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) target[i] = a[i] + b[i];
}

void sum_two_targets(float* target, float* second, const float* a, const float* b, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) target[i] = second[i] = a[i] + b[i];
}

void copy(float* target, const float* source, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) target[i] = source[i];
}

void fill(float* target, float value, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) target[i] = value;
}

const Loops loops{"plain", sum, sum_two_targets, sum, sum_two_targets, copy, copy, fill};

}  // namespace plain

#if defined(__x86_64__)
namespace avx512 {
#pragma GCC push_options
#pragma GCC target("avx512f")

// From here on operands lie in the second-level cache, out of which 256 bits at a time come faster than 512
// (measured.md).
constexpr std::size_t narrow_bytes_min = 64 * 1024;

void sum_narrow(float* target, const float* a, const float* b, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 8) {
    _mm256_storeu_ps(target + i, _mm256_add_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i)));
  }
}

void sum(float* target, const float* a, const float* b, std::size_t count) {
  if (count * sizeof(float) >= narrow_bytes_min) return sum_narrow(target, a, b, count);
  for (std::size_t i = 0; i < count; i += 16) {
    _mm512_storeu_ps(target + i, _mm512_add_ps(_mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i)));
  }
}

void sum_two_targets(float* target, float* second, const float* a, const float* b, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 16) {
    const __m512 value = _mm512_add_ps(_mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i));
    _mm512_storeu_ps(target + i, value);
    _mm512_storeu_ps(second + i, value);
  }
}

void sum_streaming(float* target, const float* a, const float* b, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 16) {
    _mm512_stream_ps(target + i, _mm512_add_ps(_mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i)));
  }
  _mm_sfence();
}

void sum_two_targets_streaming(float* target, float* second, const float* a, const float* b, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 16) {
    const __m512 value = _mm512_add_ps(_mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i));
    _mm512_stream_ps(target + i, value);
    _mm512_stream_ps(second + i, value);
  }
  _mm_sfence();
}

void copy(float* target, const float* source, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 16) _mm512_storeu_ps(target + i, _mm512_loadu_ps(source + i));
}

void copy_streaming(float* target, const float* source, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 16) _mm512_stream_ps(target + i, _mm512_loadu_ps(source + i));
  _mm_sfence();
}

void fill(float* target, float value, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 16) _mm512_storeu_ps(target + i, _mm512_set1_ps(value));
}

const Loops loops{"avx512", sum, sum_two_targets, sum_streaming, sum_two_targets_streaming, copy, copy_streaming, fill};

#pragma GCC pop_options
}  // namespace avx512
#endif

}  // namespace

const Loops& loops() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return avx512::loops;
#endif
  return plain::loops;
}

}  // namespace rondo::limits_perf
