// The life of a handle, and the sentences about handles that are no good.
#include "api/handle.h"

#include <utility>

#include "base/barriers.h"

ncclComm::~ncclComm() {
  state.store(rondo::api::State::dead, std::memory_order_release);
  delete communicator;
}

std::string ncclComm::failure_sentence() {
  if (!rondo::api::is_handle(this)) return {};
  const rondo::api::Use use(this);
  using enum rondo::api::State;
  const rondo::api::State now = state.load(std::memory_order_acquire);
  const bool was_ready = now == ready || now == finalized || now == closing;
  if (was_ready && !communicator->status().ok()) return communicator->failure_sentence();
  const std::lock_guard lock(mutex);
  return async_sentence;
}

void ncclComm::fail_start(rondo::Code code, const std::string& sentence) {
  const std::lock_guard lock(mutex);
  async_sentence = sentence;
  async_error.store(static_cast<int>(code), std::memory_order_release);
}

namespace rondo::api {
namespace {

/// Constant, and without a destructor: threads may end calls while the process exits.
constinit std::mutex orphans_mutex;
constinit ncclComm* orphans = nullptr;

}  // namespace

void Orphans::add(ncclComm& comm) noexcept {
  {
    const std::lock_guard lock(orphans_mutex);
    comm.next_orphan = std::exchange(orphans, &comm);
    count_.fetch_add(1);
  }
  barriers::in_this_process();  // the owner sees the count, or has left by now
  release();
}

void Orphans::release() noexcept {
  ncclComm* free = nullptr;
  {
    const std::lock_guard lock(orphans_mutex);
    for (ncclComm** at = &orphans; *at != nullptr;) {
      ncclComm* const comm = *at;
      if (comm->owner_is_here()) {
        at = &comm->next_orphan;
        continue;
      }
      *at = std::exchange(comm->next_orphan, free);
      free = comm;
      count_.fetch_sub(1);
    }
  }
  while (free != nullptr) std::exchange(free, free->next_orphan)->release();
}

void check_handle(const ncclComm* comm) {
  if (comm == nullptr) throw Error(Code::invalid_argument, "comm is NULL; give the handle of ncclCommInitRank");
  if (!is_handle(comm)) {
    throw Error(Code::invalid_argument, "comm is not a communicator, or was destroyed or aborted before");
  }
}

void check_ready(const ncclComm* comm) {
  check_handle(comm);
  control::check_not_forked();
  switch (comm->state.load(std::memory_order_acquire)) {
    case State::starting:
      throw Error(Code::invalid_usage,
                  "the communicator is still starting; end the group, or ask ncclCommGetAsyncError until it gives "
                  "ncclSuccess");
    case State::failed: throw Error(Code::invalid_usage, "the communicator could not start; destroy it and init again");
    case State::finalized:
      throw Error(Code::invalid_usage, "the communicator was finalized; only ncclCommDestroy may follow");
    case State::closing:
    case State::abandoned:
      throw Error(Code::invalid_usage, "the communicator is being destroyed or aborted by another thread");
    default: break;
  }
}

}  // namespace rondo::api
