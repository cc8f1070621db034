// What a thread collects between GroupStart and the outermost GroupEnd, and how it is run.
#include "group.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>

#include "api/errors.h"
#include "api/handle.h"
#include "queue.h"

namespace rondo {

std::uint64_t scalar_bits(const void* scalar, DataType type) noexcept {
  std::uint64_t bits = 0;
  std::memcpy(&bits, scalar, element_bytes(type));
  return bits;
}

void Batch::add(ncclComm* comm, const Call& call, const void* device_scalar, bool held) {
  calls_.reserve(calls_.size() + 1);
  references_.push_back({comm, device_scalar, held});
  calls_.push_back({comm->communicator, call, 0});
  comm->references.fetch_add(1);
  if (held) comm->held.fetch_add(1);
}

Batch Batch::split_messages() {
  Batch messages;
  messages.calls_.reserve(calls_.size());
  messages.references_.reserve(calls_.size());
  std::size_t kept = 0;
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    if (calls_[i].call.kind == CollectiveKind::send_recv) {
      messages.calls_.push_back(calls_[i]);
      messages.references_.push_back(references_[i]);
    } else {
      calls_[kept] = calls_[i];
      references_[kept++] = references_[i];
    }
  }
  calls_.resize(kept);
  references_.resize(kept);
  return messages;
}

void Batch::take_turns() noexcept {
  for (std::size_t i = 0, collectives = 0; i < calls_.size(); ++i) {
    if (calls_[i].call.kind == CollectiveKind::send_recv) continue;
    std::rotate(calls_.begin() + collectives, calls_.begin() + i, calls_.begin() + i + 1);
    std::rotate(references_.begin() + collectives, references_.begin() + i, references_.begin() + i + 1);
    ++collectives;
  }
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    if (std::exchange(references_[i].held, false)) references_[i].comm->held.fetch_sub(1);
    calls_[i].turn = calls_[i].communicator->take_turn();
  }
}

Status Batch::run(Patience patience, std::string& sentence) noexcept {
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    const void* const scalar = references_[i].device_scalar;
    if (scalar != nullptr) calls_[i].call.scalar = scalar_bits(scalar, calls_[i].call.type);
  }
  const Status status = run_calls(calls_, patience);
  if (!status.ok()) {
    try {
      for (const Reference& reference : references_) {
        if (sentence.empty()) sentence = reference.comm->failure_sentence();
      }
      if (sentence.empty()) sentence = "a collective failed";
    } catch (const std::exception&) {
      // No memory: the code goes out without its sentence.
    }
  }
  release();
  return status;
}

void Batch::release() noexcept {
  for (const Reference& reference : references_) {
    if (reference.held) reference.comm->held.fetch_sub(1);
    reference.comm->release();
  }
  references_.clear();
  calls_.clear();
}

namespace group {

constinit thread_local int depth = 0;

namespace {

struct Lane {
  std::shared_ptr<Queue> queue;  // shared: another thread may destroy the stream before the group ends
  Batch batch;
  std::vector<ncclComm*> comms;
};

/// What the thread has collected.
struct Collected {
  std::vector<Lane> lanes;
  std::vector<std::function<ncclResult_t()>> starts;
  std::vector<std::function<ncclResult_t()>> ends;
};
thread_local Collected collected;

ncclResult_t first_failure(ncclResult_t first, ncclResult_t next) noexcept {
  if (first == ncclSuccess || (first == ncclInProgress && next != ncclSuccess)) return next;
  return first;
}

/// Runs all at once; what cannot have its own thread runs in this one.
ncclResult_t run_jobs(const std::vector<std::function<ncclResult_t()>>& jobs) {
  std::vector<ncclResult_t> results(jobs.size(), ncclSuccess);
  std::vector<std::thread> threads;
  threads.reserve(jobs.size());
  std::vector<std::size_t> here;
  here.reserve(jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (i + 1 == jobs.size()) {
      here.push_back(i);  // this thread has nothing else to do
      continue;
    }
    try {
      threads.emplace_back([&, i] { results[i] = jobs[i](); });
    } catch (const std::exception&) {
      here.push_back(i);
    }
  }
  for (const std::size_t i : here) results[i] = jobs[i]();
  for (std::thread& thread : threads) thread.join();
  ncclResult_t result = ncclSuccess;
  for (const ncclResult_t next : results) result = first_failure(result, next);
  return result;
}

/// Where a communicator's calls are spread over queues, its sends and receives go behind all collectives.
void put_messages_last(std::vector<Lane>& lanes) {
  const std::size_t count = lanes.size();
  if (count < 2) return;
  for (std::size_t i = 0; i < count; ++i) {
    lanes.reserve(lanes.size() + 1);
    Batch messages = lanes[i].batch.split_messages();
    if (messages.empty()) continue;
    lanes.push_back(Lane{lanes[i].queue, std::move(messages), {}});
  }
  std::erase_if(lanes, [](const Lane& lane) { return lane.batch.empty(); });
}

ncclResult_t run_lanes(std::vector<Lane> lanes) {
  put_messages_last(lanes);
  std::vector<std::unique_ptr<Queue::Item>> items(lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i].queue == nullptr) continue;
    items[i] = std::make_unique<Queue::Item>();
  }
  for (Lane& lane : lanes) lane.batch.take_turns();
  // From here nothing may fail until every batch has been run or given to its queue.
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i].queue == nullptr) continue;
    items[i]->batch = std::move(lanes[i].batch);
    lanes[i].queue->push(std::move(items[i]));
  }
  ncclResult_t result = ncclSuccess;
  for (Lane& lane : lanes) {
    if (lane.queue != nullptr) continue;
    std::string sentence;
    const Status status = lane.batch.run(Patience::caller, sentence);
    if (!status.ok()) result = first_failure(result, api::fail(status.code, "ncclGroupEnd: " + sentence));
  }
  return result;
}

/// Whether this End is the innermost of several, or of none.
bool is_inner_end() {
  if (depth == 0) throw Error(Code::invalid_usage, "no group is open; call ncclGroupStart first");
  return --depth > 0;
}

}  // namespace

void start() noexcept { ++depth; }

void add(ncclComm* comm, const Call& call, const void* device_scalar, std::shared_ptr<Queue> queue) {
  if (!collected.starts.empty()) {
    throw Error(Code::invalid_usage, "a group cannot hold inits and collectives; end the group of inits first");
  }
  std::vector<Lane>& lanes = collected.lanes;
  const auto uses = [&](const Lane& lane) { return std::ranges::find(lane.comms, comm) != lane.comms.end(); };
  const auto latest_queue = std::find_if(lanes.rbegin(), lanes.rend(), [&](auto& lane) { return lane.queue == queue; });
  const auto latest_use = std::find_if(lanes.rbegin(), lanes.rend(), uses);
  const bool fits = latest_queue != lanes.rend() && (latest_use == lanes.rend() || latest_use == latest_queue);
  Lane* lane = fits ? &*latest_queue : nullptr;
  if (lane == nullptr) lane = &lanes.emplace_back(Lane{std::move(queue), {}, {}});
  lane->batch.add(comm, call, device_scalar, true);
  if (!uses(*lane)) lane->comms.push_back(comm);
}

void add(Job kind, std::function<ncclResult_t()> job) {
  if (kind == Job::start && !collected.lanes.empty()) {
    throw Error(Code::invalid_usage, "a group cannot hold collectives and inits; end the group of collectives first");
  }
  (kind == Job::start ? collected.starts : collected.ends).push_back(std::move(job));
}

ncclResult_t end() noexcept {
  return api::guarded("ncclGroupEnd", [] {
    if (is_inner_end()) return ncclSuccess;
    Collected mine = std::exchange(collected, {});
    ncclResult_t result = run_jobs(mine.starts);
    result = first_failure(result, run_lanes(std::move(mine.lanes)));
    return first_failure(result, run_jobs(mine.ends));
  });
}

ncclResult_t drop() noexcept {
  return api::guarded("ncclGroupSimulateEnd", [] {
    if (!is_inner_end()) collected = {};
    return api::fail(Code::invalid_usage,
                     "ncclGroupSimulateEnd is not built yet; the group was ended and none of its calls was run");
  });
}

}  // namespace group
}  // namespace rondo
