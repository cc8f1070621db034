/* The one loop that all peers are measured with: all-reduce of float32 sums in place, and the time of one call.
 *
 * A driver defines `reduce` (the call), `barrier`, `slowest` (the largest of all ranks' times, to rank 0) and calls
 * `measure`.  hot: calls back to back.  fresh: every rank rewrites its buffer before every call, and the calls are
 * timed one by one after a barrier.  Each size is measured in 7 loops; printed are bytes, and the median, least and
 * largest time of a call in microseconds (mean over the loop, slowest rank). */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { loops = 7 };

static void reduce(float* data, size_t count);
static void barrier(void);
static void slowest(double time_us, double* of_all);

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static int iterations_for(size_t bytes) {
  if (bytes <= 4096) return 2000;
  if (bytes <= 262144) return 300;
  return bytes <= (8u << 20) ? 20 : 5;
}

static void rewrite(float* data, size_t count) {
  for (size_t i = 0; i < count; ++i) data[i] = 1.0f;
}

static double time_loop(float* data, size_t count, int iterations, int fresh) {
  double sum_us = 0;
  if (!fresh) {
    barrier();
    const double start = now_us();
    for (int i = 0; i < iterations; ++i) reduce(data, count);
    return (now_us() - start) / iterations;
  }
  for (int i = 0; i < iterations; ++i) {
    rewrite(data, count);
    barrier();
    const double start = now_us();
    reduce(data, count);
    sum_us += now_us() - start;
  }
  return sum_us / iterations;
}

static int by_size(const void* one, const void* other) {
  const double a = *(const double*)one, b = *(const double*)other;
  return (a > b) - (a < b);
}

/* Ends the program unless every element is `ranks`: a fast wrong answer is no answer. */
static void verify(float* data, size_t count, int ranks) {
  rewrite(data, count);
  reduce(data, count);
  for (size_t i = 0; i < count; ++i) {
    if (data[i] == (float)ranks) continue;
    fprintf(stderr, "element %zu of %zu is %g, not %d\n", i, count, (double)data[i], ranks);
    exit(1);
  }
}

/* `sizes`: "8,64,4096" in bytes; `data` holds the largest. */
static void measure(float* data, const char* sizes, int fresh, int rank, int ranks) {
  for (const char* at = sizes; *at;) {
    char* end;
    const size_t bytes = strtoull(at, &end, 0), count = bytes / sizeof(float);
    at = *end ? end + 1 : end;
    const int iterations = iterations_for(bytes);
    double times[loops];
    verify(data, count, ranks);
    rewrite(data, count);
    for (int i = 0; i < (iterations < 10 ? 2 : iterations / 10); ++i) reduce(data, count);
    for (int loop = 0; loop < loops; ++loop) slowest(time_loop(data, count, iterations, fresh), &times[loop]);
    if (rank != 0) continue;
    qsort(times, loops, sizeof(double), by_size);
    printf("%zu %.3f %.3f %.3f\n", bytes, times[loops / 2], times[0], times[loops - 1]);
    fflush(stdout);
  }
}

/* The largest of the sizes. */
static size_t largest(const char* sizes) {
  size_t most = 0;
  for (const char* at = sizes; *at;) {
    char* end;
    const size_t bytes = strtoull(at, &end, 0);
    if (bytes > most) most = bytes;
    at = *end ? end + 1 : end;
  }
  return most;
}
