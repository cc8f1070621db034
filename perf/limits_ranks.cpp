// The methods of limits_ranks.h.
#include "limits_ranks.h"

#include <sched.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "limits_loops.h"

namespace rondo::limits_perf {
namespace {

/// Spins until `value` is at least `wanted`; now and then looks whether the child still lives.
void wait_for(const std::atomic<std::uint64_t>& value, std::uint64_t wanted) {
  for (std::uint64_t spins = 1; value.load(std::memory_order_acquire) < wanted; ++spins) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    if (spins % 1024 == 0) sched_yield();
    if (spins % 65536 != 0) continue;
    int status = 0;
    if (waitpid(-1, &status, WNOHANG) > 0) {
      std::fprintf(stderr, "limits_perf: the other rank ended before its time (status %d)\n", status);
      std::exit(1);
    }
  }
}

void pull_with(Rank& rank, std::size_t count, bool streaming) {
  const std::size_t half = count / 2, own = half * static_cast<std::size_t>(rank.rank()), other = half - own;
  rank.barrier();
  (streaming ? loops().sum_streaming : loops().sum)(rank.mine() + own, rank.mine() + own, rank.peers() + own, half);
  rank.barrier();
  if (streaming)
    loops().copy_streaming(rank.mine() + other, rank.peers() + other, half);
  else
    std::memcpy(rank.mine() + other, rank.peers() + other, half * sizeof(float));
  rank.barrier();
}

void push_with(Rank& rank, std::size_t count, bool streaming) {
  const std::size_t half = count / 2, own = half * static_cast<std::size_t>(rank.rank());
  float *mine = rank.mine() + own, *peers = rank.peers() + own;
  rank.barrier();
  (streaming ? loops().sum_two_targets_streaming : loops().sum_two_targets)(mine, peers, mine, peers, half);
  rank.barrier();
}

void pull(Rank& rank, std::size_t count) { pull_with(rank, count, false); }
void pull_streaming(Rank& rank, std::size_t count) { pull_with(rank, count, true); }
void push(Rank& rank, std::size_t count) { push_with(rank, count, false); }
void push_streaming(Rank& rank, std::size_t count) { push_with(rank, count, true); }

ssize_t read_peer(const Rank& rank, float* target, const float* source, std::size_t count) {
  const iovec here{target, count * sizeof(float)};
  const iovec there{const_cast<float*>(source), count * sizeof(float)};
  return process_vm_readv(rank.shared().process[1 - rank.rank()], &here, 1, &there, 1, 0);
}

void must_read_peer(const Rank& rank, float* target, const float* source, std::size_t count) {
  if (read_peer(rank, target, source, count) == static_cast<ssize_t>(count * sizeof(float))) return;
  std::perror("limits_perf: process_vm_readv");
  std::exit(1);
}

void kernel(Rank& rank, std::size_t count) {
  constexpr std::size_t piece = 64 * 1024 / sizeof(float);
  alignas(64) static float landing[piece];
  const std::size_t half = count / 2, own = half * static_cast<std::size_t>(rank.rank()), other = half - own;
  rank.barrier();
  for (std::size_t at = 0; at < half; at += piece) {
    const std::size_t length = std::min(piece, half - at);
    float* target = rank.mine() + own + at;
    must_read_peer(rank, landing, rank.peers() + own + at, length);
    loops().sum(target, target, landing, length);
  }
  rank.barrier();
  must_read_peer(rank, rank.mine() + other, rank.peers() + other, half);
  rank.barrier();
}

/// The next free slot of the ring that this rank writes.
float* free_slot(SlotRing& ring) {
  const std::uint64_t sent = ring.sent.value.load(std::memory_order_relaxed);
  if (sent >= SlotRing::slots) wait_for(ring.released.value, sent - SlotRing::slots + 1);
  return reinterpret_cast<float*>(ring.data[sent % SlotRing::slots]);
}
void send(SlotRing& ring) { ring.sent.value.fetch_add(1, std::memory_order_release); }

/// The oldest slot of the ring that this rank reads.
const float* full_slot(SlotRing& ring) {
  const std::uint64_t released = ring.released.value.load(std::memory_order_relaxed);
  wait_for(ring.sent.value, released + 1);
  return reinterpret_cast<const float*>(ring.data[released % SlotRing::slots]);
}
void release(SlotRing& ring) { ring.released.value.fetch_add(1, std::memory_order_release); }

/// Slice by slice: send the peer's half; sum the own half as it comes, into the buffer and into the reply; take the
/// replies.  Two slices are sent ahead, so that nobody waits for the slice that he sent last.
void through_slots(Rank& rank, std::size_t count) {
  SlotRing &out = rank.shared().rings[rank.rank()], &in = rank.shared().rings[1 - rank.rank()];
  const std::size_t half = count / 2, slice = SlotRing::slot_bytes / sizeof(float);
  float* own = rank.mine() + half * static_cast<std::size_t>(rank.rank());
  float* other = rank.mine() + half - half * static_cast<std::size_t>(rank.rank());
  const std::size_t slices = (half + slice - 1) / slice;
  const auto length = [&](std::size_t index) { return std::min(slice, half - index * slice); };
  const auto send_slice = [&](std::size_t index) {
    if (index >= slices) return;
    loops().copy(free_slot(out), other + index * slice, length(index));
    send(out);
  };
  const auto take_reply = [&](std::size_t index) {
    loops().copy(other + index * slice, full_slot(in), length(index));
    release(in);
  };
  // Sent, and so read, in this order: slices 0 and 1, then by turns reply i and slice i + 2.
  send_slice(0);
  send_slice(1);
  for (std::size_t index = 0; index < slices; ++index) {
    if (index >= 2) take_reply(index - 2);
    float* target = own + index * slice;
    const float* slot = full_slot(in);
    loops().sum_two_targets(target, free_slot(out), target, slot, length(index));
    send(out);
    release(in);
    send_slice(index + 2);
  }
  for (std::size_t index = slices < 2 ? 0 : slices - 2; index < slices; ++index) take_reply(index);
}

}  // namespace

void Rank::barrier() {
  shared_->arrived[rank_].store(++epoch_, std::memory_order_release);
  wait_for(shared_->arrived[1 - rank_], epoch_);
}

bool kernel_copies(const Rank& rank) {
  float value;
  return read_peer(rank, &value, rank.peers(), 1) == sizeof value;
}

const Method methods[method_count] = {{"pull", pull, false},           {"pull-stream", pull_streaming, false},
                                      {"push", push, false},           {"push-stream", push_streaming, false},
                                      {"slots", through_slots, false}, {"kernel", kernel, true}};

}  // namespace rondo::limits_perf
