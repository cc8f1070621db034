// NCCL's calls about ids and communicators: init, queries, the end.
#include <sys/types.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "api/config.h"
#include "api/handle.h"
#include "api/rendezvous.h"
#include "api/start.h"
#include "base/env.h"
#include "base/limits.h"
#include "group.h"
#include "memory.h"
#include "nccl.h"
#include "rondo.h"

namespace rondo::api {
namespace {

static_assert(sizeof(ncclUniqueId) == sizeof(control::UniqueId));

control::UniqueId from_user(const ncclUniqueId& id) noexcept {
  control::UniqueId ours;
  std::memcpy(ours.bytes, id.internal, sizeof(ours.bytes));
  return ours;
}

/// With NCCL_COMM_ID rank 0 serves the id that its text makes, and all join that one.
control::UniqueId id_to_join(const ncclUniqueId& id, int rank) {
  const std::optional<Meeting> named = meeting_of_comm_id();
  if (!named) return from_user(id);
  return id_at(*named, named->name, rank);
}

ncclResult_t init_rank(const char* call, ncclComm_t* comm, int nranks, const ncclUniqueId& id, int rank,
                       const ncclConfig_t* config) {
  return guarded(call, [&] {
    if (comm == nullptr) throw Error(Code::invalid_argument, "comm is NULL; give a place for the handle");
    check_world(rank, nranks);
    const Config parsed = parse_config(config);
    Start start{rank, nranks, device_from_environment(), parsed.blocking, parsed.name, {}};
    start.id = [id, rank] { return id_to_join(id, rank); };
    return api::start(call, comm, std::move(start));
  });
}

ncclResult_t init_all(ncclComm_t* comms, int ranks, const int* devices) {
  if (comms == nullptr) throw Error(Code::invalid_argument, "comm is NULL; give an array of ndev handles");
  check_world(0, ranks);
  for (int rank = 0; devices != nullptr && rank < ranks; ++rank) {
    if (devices[rank] < 0) {
      throw Error(Code::invalid_argument, "devlist[" + std::to_string(rank) + "] is " + std::to_string(devices[rank]));
    }
  }
  const control::UniqueId id = control::create_unique_id();
  std::vector<ncclResult_t> results(static_cast<std::size_t>(ranks), ncclSystemError);
  const auto join = [&](int rank) {
    results[rank] = guarded("ncclCommInitAll", [&] {
      Start start{rank, ranks, devices != nullptr ? devices[rank] : rank, true, "", [&id] { return id; }};
      return api::start("ncclCommInitAll", &comms[rank], std::move(start));
    });
  };
  std::fill(comms, comms + ranks, nullptr);
  std::vector<std::thread> threads;
  threads.reserve(results.size());
  std::string refused;
  try {
    for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(join, rank);
  } catch (const std::exception& error) {
    refused = "cannot start a thread for each rank: " + std::string(error.what());
  }
  for (std::thread& thread : threads) thread.join();
  ncclResult_t first = ncclSuccess;
  for (const ncclResult_t result : results) first = first == ncclSuccess ? result : first;
  if (first == ncclSuccess) return first;
  for (int rank = 0; rank < ranks; ++rank) {
    if (comms[rank] != nullptr) pncclCommAbort(std::exchange(comms[rank], nullptr));
  }
  if (!refused.empty()) throw Error(Code::system_error, refused);
  return first;
}

/// Gives up the user's reference.  Waits a while for calls of other threads, which must have been made to end.
ncclResult_t let_go(const char* call, ncclComm& comm) {
  CallOrder* const order = comm.communicator != nullptr ? &comm.communicator->order() : nullptr;
  if (order != nullptr) order->revoke();
  const control::Deadline deadline = control::Clock::now() + std::chrono::milliseconds(limits::abort_timeout_ms);
  bool busy = true;
  while (busy && control::Clock::now() < deadline) {
    busy = comm.references.load() > 1 + comm.held.load() || (order != nullptr && order->is_inside());
    if (busy) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  if (comm.owner_is_here()) {
    Orphans::add(comm);
  } else {
    comm.release();
  }
  if (!busy) return ncclSuccess;
  return fail(Code::internal_error, std::string(call) +
                                        ": a call on the communicator did not end in time; its memory "
                                        "is freed when it does");
}

/// Claims the handle for Destroy or Abort; gives the state it was in.  Throws Error: another thread was first.
State close(ncclComm* comm) {
  check_handle(comm);
  control::check_not_forked();
  State before = comm->state.load();
  for (;;) {
    if (before == State::closing || before == State::abandoned) {
      throw Error(Code::invalid_usage, "the communicator is being destroyed or aborted by another thread");
    }
    const bool was_ready = before == State::ready || before == State::finalized;
    if (comm->state.compare_exchange_weak(before, was_ready ? State::closing : State::abandoned)) return before;
  }
}

ncclResult_t report(const char* call, ncclComm& comm, Status status) {
  return status.ok() ? ncclSuccess
                     : fail(status.code, std::string(call) + ": " + comm.communicator->failure_sentence());
}

ncclResult_t finalize(ncclComm* comm) {
  check_ready(comm);
  const Use use(comm);
  const Status status = comm->communicator->finalize();
  State expected = State::ready;
  comm->state.compare_exchange_strong(expected, State::finalized);
  return report("ncclCommFinalize", *comm, status);
}

ncclResult_t destroy(ncclComm* comm) {
  const State before = close(comm);
  if (before == State::starting) {
    comm->release();  // its starter frees it
    return ncclSuccess;
  }
  if (before == State::failed) return let_go("ncclCommDestroy", *comm);
  const ncclResult_t result = report("ncclCommDestroy", *comm, comm->communicator->finalize());
  if (result != ncclSuccess) comm->communicator->abort();
  const ncclResult_t freed = let_go("ncclCommDestroy", *comm);
  return result != ncclSuccess ? result : freed;
}

ncclResult_t abort(ncclComm* comm) {
  const State before = close(comm);
  if (before == State::starting) {
    comm->release();  // its starter frees it
    return ncclSuccess;
  }
  if (before != State::failed) comm->communicator->abort();
  return let_go("ncclCommAbort", *comm);
}

/// Now, or at the end of this thread's open group.
ncclResult_t now_or_grouped(const char* call, ncclComm_t comm, ncclResult_t (*end)(ncclComm*)) {
  if (comm == nullptr) return ncclSuccess;
  return guarded(call, [&] {
    if (group::depth == 0) return end(comm);
    check_handle(comm);
    group::add(group::Job::end, [call, comm, end] { return guarded(call, [&] { return end(comm); }); });
    return ncclSuccess;
  });
}

ncclResult_t query(const char* call, const ncclComm* comm, int* place, const char* what, int ncclComm::*field) {
  return guarded(call, [&] {
    check_handle(comm);
    if (place == nullptr) throw Error(Code::invalid_argument, std::string(what) + " is NULL");
    *place = comm->*field;
    return ncclSuccess;
  });
}

}  // namespace
}  // namespace rondo::api

using namespace rondo;
using api::guarded;

extern "C" {

ncclResult_t pncclGetUniqueId(ncclUniqueId* uniqueId) {
  return guarded("ncclGetUniqueId", [&] {
    if (uniqueId == nullptr) throw Error(Code::invalid_argument, "uniqueId is NULL; give a place for the id");
    api::announce();
    const std::optional<api::Meeting> named = api::meeting_of_comm_id();
    const control::UniqueId id =
        named ? control::derived_unique_id({named->name, named->secret}) : control::create_unique_id();
    std::memcpy(uniqueId->internal, id.bytes, sizeof(id.bytes));
    return ncclSuccess;
  });
}

ncclResult_t pncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  return api::init_rank("ncclCommInitRank", comm, nranks, commId, rank, nullptr);
}

ncclResult_t pncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                     ncclConfig_t* config) {
  return api::init_rank("ncclCommInitRankConfig", comm, nranks, commId, rank, config);
}

ncclResult_t pncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds,
                                       ncclConfig_t* config) {
  constexpr const char* call = "ncclCommInitRankScalable";
  if (nId < 1 || commIds == nullptr) {
    return api::fail(Code::invalid_argument,
                     std::string(call) + ": there must be at least one id (nId is " + std::to_string(nId) + ")");
  }
  if (nId > 1) {
    return api::fail(Code::invalid_usage, std::string(call) + ": several ids are not built yet; give one (nId 1)");
  }
  return api::init_rank(call, newcomm, nranks, commIds[0], myrank, config);
}

ncclResult_t pncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  return guarded("ncclCommInitAll", [&] { return api::init_all(comm, ndev, devlist); });
}

ncclResult_t pncclCommFinalize(ncclComm_t comm) { return api::now_or_grouped("ncclCommFinalize", comm, api::finalize); }

ncclResult_t pncclCommDestroy(ncclComm_t comm) { return api::now_or_grouped("ncclCommDestroy", comm, api::destroy); }

ncclResult_t pncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return guarded("ncclCommAbort", [&] { return api::abort(comm); });
}

ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  return guarded("ncclCommGetAsyncError", [&] {
    api::check_handle(comm);
    if (asyncError == nullptr) throw Error(Code::invalid_argument, "asyncError is NULL");
    const api::Use use(comm);
    const api::State state = comm->state.load(std::memory_order_acquire);
    const bool started = state == api::State::ready || state == api::State::finalized || state == api::State::closing;
    *asyncError = state == api::State::starting ? ncclInProgress
                  : started                     ? api::translate(comm->communicator->status().code)
                                                : static_cast<ncclResult_t>(comm->async_error.load());
    return ncclSuccess;
  });
}

ncclResult_t pncclCommCount(const ncclComm_t comm, int* count) {
  return api::query("ncclCommCount", comm, count, "count", &ncclComm::ranks);
}

ncclResult_t pncclCommUserRank(const ncclComm_t comm, int* rank) {
  return api::query("ncclCommUserRank", comm, rank, "rank", &ncclComm::rank);
}

ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int* device) {
  return api::query("ncclCommCuDevice", comm, device, "device", &ncclComm::device);
}

ncclResult_t rondoCommHosts(ncclComm_t comm, int* hosts) {
  return guarded("rondoCommHosts", [&] {
    api::check_ready(comm);
    if (hosts == nullptr) throw Error(Code::invalid_argument, "hosts is NULL");
    const api::Use use(comm);
    *hosts = comm->communicator->hosts();
    return ncclSuccess;
  });
}

ncclResult_t pncclGroupStart(void) {
  group::start();
  return ncclSuccess;
}

ncclResult_t pncclGroupEnd(void) { return group::end(); }

ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t*) { return group::drop(); }

ncclResult_t pncclMemAlloc(void** ptr, size_t size) {
  return guarded("ncclMemAlloc", [&] {
    if (ptr == nullptr) throw Error(Code::invalid_argument, "ptr is NULL; give a place for the address");
    *ptr = nullptr;
    if (size > 0) *ptr = memory_alloc(size);
    return ncclSuccess;
  });
}

ncclResult_t pncclMemFree(void* ptr) {
  return guarded("ncclMemFree", [&] {
    if (ptr != nullptr && !memory_free(ptr)) {
      throw Error(Code::invalid_argument, "ptr is not memory of ncclMemAlloc, or was freed before");
    }
    return ncclSuccess;
  });
}

// The weak names that programs call.
[[gnu::weak, gnu::alias("pncclGetUniqueId")]] decltype(ncclGetUniqueId) ncclGetUniqueId;
[[gnu::weak, gnu::alias("pncclCommInitRank")]] decltype(ncclCommInitRank) ncclCommInitRank;
[[gnu::weak, gnu::alias("pncclCommInitRankConfig")]] decltype(ncclCommInitRankConfig) ncclCommInitRankConfig;
[[gnu::weak, gnu::alias("pncclCommInitRankScalable")]] decltype(ncclCommInitRankScalable) ncclCommInitRankScalable;
[[gnu::weak, gnu::alias("pncclCommInitAll")]] decltype(ncclCommInitAll) ncclCommInitAll;
[[gnu::weak, gnu::alias("pncclCommFinalize")]] decltype(ncclCommFinalize) ncclCommFinalize;
[[gnu::weak, gnu::alias("pncclCommDestroy")]] decltype(ncclCommDestroy) ncclCommDestroy;
[[gnu::weak, gnu::alias("pncclCommAbort")]] decltype(ncclCommAbort) ncclCommAbort;
[[gnu::weak, gnu::alias("pncclCommGetAsyncError")]] decltype(ncclCommGetAsyncError) ncclCommGetAsyncError;
[[gnu::weak, gnu::alias("pncclCommCount")]] decltype(ncclCommCount) ncclCommCount;
[[gnu::weak, gnu::alias("pncclCommUserRank")]] decltype(ncclCommUserRank) ncclCommUserRank;
[[gnu::weak, gnu::alias("pncclCommCuDevice")]] decltype(ncclCommCuDevice) ncclCommCuDevice;
[[gnu::weak, gnu::alias("pncclGroupStart")]] decltype(ncclGroupStart) ncclGroupStart;
[[gnu::weak, gnu::alias("pncclGroupEnd")]] decltype(ncclGroupEnd) ncclGroupEnd;
[[gnu::weak, gnu::alias("pncclGroupSimulateEnd")]] decltype(ncclGroupSimulateEnd) ncclGroupSimulateEnd;
[[gnu::weak, gnu::alias("pncclMemAlloc")]] decltype(ncclMemAlloc) ncclMemAlloc;
[[gnu::weak, gnu::alias("pncclMemFree")]] decltype(ncclMemFree) ncclMemFree;

}  // extern "C"
