/* The one loop that all peers are measured with: float32, sums, root 0, and the time of one call.
 *
 * A driver defines `run` (one call), `barrier`, `slowest` (the largest of all ranks' times, to rank 0) and calls
 * `measure`.  Sizes are bytes of the larger of what a rank gives and gets, at least one element for each rank's part.
 * all_reduce, grouped and broadcast work in place, the others out of place.  grouped: 64 all-reduces of
 * neighbouring parts, started at once; size and time are one's.  sendrecv: each rank sends to the next and receives
 * from the one before.  pingpong, stream and window: pairs of ranks, 0 and 1, 2 and 3: there and back; 64 messages one
 * after another; 64 started at once.  The last two end with an answer of one element, and their time is a message's.
 *
 * hot: calls back to back.  fresh: every rank rewrites its source before every call, and the calls are timed one by one
 * after a barrier.  Each size is measured in 7 loops; printed are the collective, bytes, and the median, least and
 * largest time of a call in microseconds (mean over the loop, slowest rank). */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { loops = 7 };
enum { messages = 64 };
enum Collective {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  gather,
  scatter,
  alltoall,
  sendrecv,
  grouped,
  pingpong,
  stream,
  window
};
static const char* const collective_names[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                                               "gather",     "scatter",        "alltoall",   "sendrecv",  "grouped",
                                               "pingpong",   "stream",         "window"};
enum { collectives = sizeof collective_names / sizeof *collective_names };

struct Work {
  enum Collective what;
  int rank, ranks;
  size_t count; /* elements of a part: of the whole where ranks' parts are not told apart */
  float *source, *target;
};

static void run(const struct Work* work);
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

static int many(enum Collective what) { return what == grouped || what == stream || what == window; }
static int in_place(enum Collective what) { return what == all_reduce || what == grouped || what == broadcast; }
/* How many pieces of work a buffer holds. */
static size_t pieces(enum Collective what) { return what == grouped ? messages : 1; }

/* How many parts a rank gives, and gets. */
static size_t given(const struct Work* work) {
  return work->what == reduce_scatter || work->what == scatter || work->what == alltoall ? (size_t)work->ranks : 1;
}
static size_t got(const struct Work* work) {
  return work->what == all_gather || work->what == gather || work->what == alltoall ? (size_t)work->ranks : 1;
}

static float value(int rank, size_t index) { return (float)(rank + 1) + (float)(index % 7); }

static void rewrite(const struct Work* work) {
  for (size_t i = 0; i < work->count * given(work) * pieces(work->what); ++i) work->source[i] = value(work->rank, i);
}

static double time_loop(const struct Work* work, int iterations, int fresh) {
  double sum_us = 0;
  if (!fresh) {
    barrier();
    const double start = now_us();
    for (int i = 0; i < iterations; ++i) run(work);
    return (now_us() - start) / iterations;
  }
  for (int i = 0; i < iterations; ++i) {
    rewrite(work);
    barrier();
    const double start = now_us();
    run(work);
    sum_us += now_us() - start;
  }
  return sum_us / iterations;
}

static int by_size(const void* one, const void* other) {
  const double a = *(const double*)one, b = *(const double*)other;
  return (a > b) - (a < b);
}

/* What element `i` of the target must be. */
static float expected(const struct Work* work, size_t i) {
  const size_t mine = (size_t)work->rank * work->count;
  float sum = 0;
  switch (work->what) {
    case all_reduce:
    case grouped:
    case reduce:
    case reduce_scatter:
      for (int rank = 0; rank < work->ranks; ++rank) sum += value(rank, work->what == reduce_scatter ? mine + i : i);
      return sum;
    case all_gather:
    case gather: return value((int)(i / work->count), i % work->count);
    case broadcast: return value(0, i);
    case scatter: return value(0, mine + i);
    case alltoall: return value((int)(i / work->count), mine + i % work->count);
    case sendrecv: return value((work->rank + work->ranks - 1) % work->ranks, i);
    case pingpong:
    case stream:
    case window: return value(work->rank ^ 1, i);
  }
  return -1;
}

/* Ends the program unless every element is as it must be: a fast wrong answer is no answer. */
static void verify(const struct Work* work) {
  if (!in_place(work->what)) memset(work->target, 0xff, work->count * got(work) * sizeof(float));
  rewrite(work);
  run(work);
  if ((work->what == reduce || work->what == gather) && work->rank != 0) return;
  if ((work->what == stream || work->what == window) && work->rank % 2 == 0) return;
  for (size_t i = 0; i < work->count * got(work) * pieces(work->what); ++i) {
    if (work->target[i] == expected(work, i)) continue;
    fprintf(stderr, "%s: element %zu is %g, not %g\n", collective_names[work->what], i, (double)work->target[i],
            (double)expected(work, i));
    exit(1);
  }
}

static void measure_size(struct Work work, size_t bytes, int fresh) {
  const size_t parts = given(&work) > got(&work) ? given(&work) : got(&work);
  const int calls = many(work.what) ? messages : 1, iterations = iterations_for(bytes * (size_t)calls);
  double times[loops];
  work.count = bytes / sizeof(float) / parts;
  if (work.count == 0) work.count = 1;
  if (in_place(work.what)) work.target = work.source;
  verify(&work);
  rewrite(&work);
  for (int i = 0; i < (iterations < 10 ? 2 : iterations / 10); ++i) run(&work);
  for (int loop = 0; loop < loops; ++loop) slowest(time_loop(&work, iterations, fresh), &times[loop]);
  if (work.rank != 0) return;
  qsort(times, loops, sizeof(double), by_size);
  printf("%s %zu %.3f %.3f %.3f\n", collective_names[work.what], bytes, times[loops / 2] / calls, times[0] / calls,
         times[loops - 1] / calls);
  fflush(stdout);
}

/* In the first 50 ms of a process copies of 512 KiB may take half as long again (on one machine 87 us for 54), and
 * libraries differ in how busy their start is.  So every process first makes 1,000 calls, of 1 MiB if it measures that
 * much: there they take about that long. */
static void warm_up(struct Work work, size_t bytes) {
  const size_t bytes_max = 1u << 20;
  const size_t parts = given(&work) > got(&work) ? given(&work) : got(&work);
  if (bytes > bytes_max) bytes = bytes_max;
  work.count = bytes / sizeof(float) / parts;
  if (work.count == 0) work.count = 1;
  if (in_place(work.what)) work.target = work.source;
  rewrite(&work);
  for (int i = 0; i < (many(work.what) ? 1000 / messages : 1000); ++i) run(&work);
}

/* The next of `sizes` ("8,64,4096"), which moves on. */
static size_t next_size(const char** sizes) {
  char* end;
  const size_t bytes = strtoull(*sizes, &end, 0);
  if (end == *sizes || (*end && *end != ',')) {
    fprintf(stderr, "sizes are numbers of bytes with commas between, not \"%s\"\n", *sizes);
    exit(2);
  }
  *sizes = *end ? end + 1 : end;
  return bytes;
}

/* Bytes that a buffer needs for the largest of the sizes. */
static size_t room(const char* sizes, int ranks) {
  size_t most = (size_t)ranks * sizeof(float);
  while (*sizes) {
    const size_t bytes = next_size(&sizes);
    if (bytes > most) most = bytes;
  }
  return most;
}

/* `names`: collectives with commas between; each buffer holds `room` bytes, for `grouped` 64 times as many. */
static void measure(const char* names, const char* sizes, int fresh, int rank, int ranks, float* source,
                    float* target) {
  int warm = 0;
  while (*names) {
    const size_t length = strcspn(names, ",");
    int what = 0;
    while (what < collectives &&
           (strlen(collective_names[what]) != length || strncmp(collective_names[what], names, length) != 0))
      ++what;
    if (what == collectives) {
      fprintf(stderr, "no such collective: %s\n", names);
      exit(2);
    }
    if (what >= pingpong && ranks % 2 != 0) {
      fprintf(stderr, "%s needs an even number of ranks\n", collective_names[what]);
      exit(2);
    }
    const struct Work work = {(enum Collective)what, rank, ranks, 0, source, target};
    if (!warm++) warm_up(work, room(sizes, ranks));
    for (const char* at = sizes; *at;) measure_size(work, next_size(&at), fresh);
    names += length + (names[length] == ',');
  }
}
