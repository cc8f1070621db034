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

bool Batch::uses(const ncclComm* comm) const noexcept {
  return std::ranges::find(references_, comm, &Reference::comm) != references_.end();
}

Batch::Reference& Batch::reference_to(const Communicator* communicator) noexcept {
  return *std::ranges::find_if(references_, [&](const Reference& r) { return r.comm->communicator == communicator; });
}

void Batch::refer_to(ncclComm* comm, bool held) noexcept {
  const auto known = std::ranges::find(references_, comm, &Reference::comm);
  if (known != references_.end()) {
    ++known->calls;
    return;
  }
  if (held && comm->communicator->order().hold()) return references_.push_back({comm, 1, 0, Hold::owned});
  references_.push_back({comm, 1, 0, held ? Hold::held : Hold::counted});
  comm->references.fetch_add(1);
  if (held) comm->held.fetch_add(1);
}

void Batch::add(ncclComm* comm, const Call& call, const void* device_scalar, bool held) {
  if (references_.size() == references_.capacity()) references_.reserve(2 * references_.size() + 1);
  calls_.push_back({comm->communicator, call, 0, device_scalar});
  refer_to(comm, held);
}

bool Batch::add_own(ncclComm* comm, const Call& call) noexcept {
  if (calls_.size() == calls_.capacity()) return false;
  auto known = std::ranges::find(references_, comm, &Reference::comm);
  if (known == references_.end()) {
    if (references_.size() == references_.capacity() || !comm->communicator->order().hold()) return false;
    references_.push_back({comm, 0, 0, Hold::owned});
    known = references_.end() - 1;
  }
  ++known->calls;
  calls_.push_back({comm->communicator, call, 0, nullptr});
  return true;
}

Batch Batch::split_messages() {
  Batch messages;
  messages.calls_.reserve(calls_.size());
  messages.references_.reserve(references_.size());
  std::size_t kept = 0;
  for (const PendingCall& call : calls_) {
    if (call.call.kind == CollectiveKind::send_recv) {
      Reference& reference = reference_to(call.communicator);
      --reference.calls;
      messages.calls_.push_back(call);
      messages.refer_to(reference.comm, true);
    } else {
      calls_[kept++] = call;
    }
  }
  calls_.resize(kept);
  return messages;
}

void Batch::put_collectives_first() noexcept {
  for (std::size_t i = 0, collectives = 0; i < calls_.size(); ++i) {
    if (calls_[i].call.kind == CollectiveKind::send_recv) continue;
    if (i != collectives) {
      std::rotate(calls_.begin() + collectives, calls_.begin() + i, calls_.begin() + i + 1);
    }
    ++collectives;
  }
}

void Batch::enter_or_take_turns() noexcept {
  std::size_t entered = 0;
  const auto order = [&](std::size_t i) -> CallOrder& { return references_[i].comm->communicator->order(); };
  while (entered < references_.size() && references_[entered].hold == Hold::owned && order(entered).enter()) ++entered;
  if (entered < references_.size()) {
    while (entered > 0) order(--entered).leave();
    return take_turns();
  }
  for (Reference& reference : references_) reference.hold = Hold::entered;
  put_collectives_first();
  for (PendingCall& call : calls_) call.turn = CallOrder::entered;
}

void Batch::take_turns() noexcept {
  put_collectives_first();
  for (Reference& reference : references_) {
    ncclComm& comm = *reference.comm;
    const Hold before = std::exchange(reference.hold, Hold::counted);
    if (before == Hold::held) comm.held.fetch_sub(1);
    if (before == Hold::owned) {
      comm.references.fetch_add(1);
      comm.communicator->order().let_go();
      api::Orphans::look_after();
    }
    reference.turn = comm.communicator->order().take_turns(reference.calls);
  }
  for (PendingCall& call : calls_) call.turn = reference_to(call.communicator).turn++;
}

Status Batch::run(Patience patience, std::string& sentence) noexcept {
  for (PendingCall& call : calls_) {
    if (call.device_scalar != nullptr) call.call.scalar = scalar_bits(call.device_scalar, call.call.type);
  }
  return end(run_calls(calls_, patience), sentence);
}

Status Batch::end(Status status, std::string& sentence) noexcept {
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
    if (reference.hold == Hold::owned || reference.hold == Hold::entered) {
      CallOrder& order = reference.comm->communicator->order();
      if (reference.hold == Hold::entered) order.leave();
      order.let_go();
      api::Orphans::look_after();
      continue;
    }
    if (reference.hold == Hold::held) reference.comm->held.fetch_sub(1);
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
};

/// What the thread has collected.
struct Collected {
  Batch own;  // calls of End's own, as long as there are no lanes; stays, for its room
  std::vector<Lane> lanes;
  std::vector<std::function<ncclResult_t()>> starts;
  std::vector<std::function<ncclResult_t()>> ends;

  bool only_own() const noexcept { return lanes.empty() && starts.empty() && ends.empty(); }
  /// Makes a lane of the own calls, if there are any.
  void begin_lanes() {
    if (own.empty()) return;
    lanes.reserve(lanes.size() + 1);
    lanes.push_back(Lane{nullptr, std::move(own)});
  }
};
thread_local Collected collected __attribute__((tls_model("initial-exec")));
// collected.own, once it was used, while nothing else is collected.  Every call of a group asks for it, and `collected`
// itself, which has a destructor, would have to be asked whether it is there.
constinit thread_local Batch* only_own __attribute__((tls_model("initial-exec"))) = nullptr;

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
    lanes.push_back(Lane{lanes[i].queue, std::move(messages)});
  }
  std::erase_if(lanes, [](const Lane& lane) { return lane.batch.empty(); });
}

/// Runs a batch in this thread.
ncclResult_t run_here(Batch& batch) noexcept {
  std::string sentence;
  const Status status = batch.run(Patience::caller, sentence);
  if (status.ok()) [[likely]]
    return ncclSuccess;
  return api::guarded("ncclGroupEnd", [&] { return api::fail(status.code, "ncclGroupEnd: " + sentence); });
}

/// Runs calls of which nothing is queued.
ncclResult_t run_own(Batch& batch) noexcept {
  batch.enter_or_take_turns();
  return run_here(batch);
}

ncclResult_t run_lanes(std::vector<Lane> lanes) {
  put_messages_last(lanes);
  std::vector<std::unique_ptr<Queue::Item>> items(lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i].queue == nullptr) continue;
    items[i] = std::make_unique<Queue::Item>();
  }
  // From here nothing may fail until every batch has been run or given to its queue.
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i].queue == nullptr) {
      lanes[i].batch.take_turns();
      continue;
    }
    items[i]->batch = std::move(lanes[i].batch);
    lanes[i].queue->push(std::move(items[i]));
  }
  ncclResult_t result = ncclSuccess;
  for (Lane& lane : lanes) {
    if (lane.queue != nullptr) continue;
    result = first_failure(result, run_here(lane.batch));
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

bool add_quickly(ncclComm* comm, const Call& call) noexcept {
  return only_own != nullptr && only_own->add_own(comm, call);
}

void add(ncclComm* comm, const Call& call, const void* device_scalar, std::shared_ptr<Queue> queue) {
  if (!collected.starts.empty()) {
    throw Error(Code::invalid_usage, "a group cannot hold inits and collectives; end the group of inits first");
  }
  std::vector<Lane>& lanes = collected.lanes;
  if (queue == nullptr && lanes.empty()) return collected.own.add(comm, call, device_scalar, true);
  only_own = nullptr;
  collected.begin_lanes();
  const auto uses = [&](const Lane& lane) { return lane.batch.uses(comm); };
  const auto latest_queue = std::find_if(lanes.rbegin(), lanes.rend(), [&](auto& lane) { return lane.queue == queue; });
  const auto latest_use = std::find_if(lanes.rbegin(), lanes.rend(), uses);
  const bool fits = latest_queue != lanes.rend() && (latest_use == lanes.rend() || latest_use == latest_queue);
  Lane* lane = fits ? &*latest_queue : nullptr;
  if (lane == nullptr) lane = &lanes.emplace_back(Lane{std::move(queue), {}});
  lane->batch.add(comm, call, device_scalar, true);
}

void add(Job kind, std::function<ncclResult_t()> job) {
  if (kind == Job::start && !(collected.lanes.empty() && collected.own.empty())) {
    throw Error(Code::invalid_usage, "a group cannot hold collectives and inits; end the group of collectives first");
  }
  only_own = nullptr;
  (kind == Job::start ? collected.starts : collected.ends).push_back(std::move(job));
}

ncclResult_t end() noexcept {
  if (depth == 1 && only_own != nullptr) [[likely]] {
    depth = 0;
    return run_own(*only_own);
  }
  return api::guarded("ncclGroupEnd", [] {
    if (is_inner_end()) return ncclSuccess;
    if (collected.only_own()) {
      only_own = &collected.own;
      return run_own(collected.own);
    }
    collected.begin_lanes();
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
