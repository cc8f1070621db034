// A communicator's start, blocking, in a group, or in a thread of its own (config.blocking 0).
#include "api/start.h"

#include <atomic>
#include <memory>
#include <thread>

#include "api/handle.h"
#include "base/env.h"
#include "base/limits.h"
#include "base/log.h"
#include "group.h"
#include "rondo.h"

namespace rondo::api {
namespace {

/// Joins and makes the handle ready, or failed with its sentence.  Nothing escapes.
ncclResult_t join(const char* call, ncclComm& comm, const Start& start) noexcept {
  const ncclResult_t result = guarded(call, [&] {
    auto communicator = Communicator::create(start.id(), start.rank, start.ranks, {start.name, start.blocking});
    comm.communicator = communicator.release();
    State expected = State::starting;
    const bool wanted = comm.state.compare_exchange_strong(expected, State::ready);
    if (!wanted) comm.communicator->abort();  // ncclCommAbort came meanwhile; the last reference frees it
    return ncclSuccess;
  });
  if (result != ncclSuccess) {
    guarded(call, [&] {
      comm.fail_start(static_cast<Code>(result), last_error());
      return ncclSuccess;
    });
    State expected = State::starting;
    comm.state.compare_exchange_strong(expected, State::failed);
  }
  return result;
}

/// A handle that has not started yet: gone, with the user's pointer to it, unless it is started or kept.
class Fresh {
 public:
  Fresh(ncclComm_t* place, Start start) : place_(place), comm_(new ncclComm), start_(std::move(start)) {
    comm_->rank = start_.rank;
    comm_->ranks = start_.ranks;
    comm_->device = start_.device;
    *place_ = comm_;
  }
  ~Fresh() {
    if (comm_ == nullptr) return;
    *place_ = nullptr;
    comm_->release();
  }
  Fresh(const Fresh&) = delete;
  Fresh& operator=(const Fresh&) = delete;

  ncclResult_t run(const char* call) {
    if (start_.blocking) {
      const ncclResult_t result = join(call, *comm_, start_);
      if (result == ncclSuccess) comm_ = nullptr;  // it is the user's now
      return result;
    }
    auto use = std::make_unique<Use>(comm_);
    std::thread([call, comm = comm_, start = start_, use = std::move(use)] { join(call, *comm, start); }).detach();
    comm_ = nullptr;
    return ncclInProgress;
  }

 private:
  ncclComm_t* place_;
  ncclComm* comm_;
  Start start_;
};

}  // namespace

control::UniqueId id_at(const Meeting& meeting, const std::string& name, int rank) {
  const std::string variable = meeting.source.substr(0, meeting.source.find(' '));
  const control::Rendezvous rendezvous{name, meeting.secret, meeting.host, meeting.port, variable};
  return rank == 0 ? control::create_derived_root(rendezvous) : control::derived_unique_id(rendezvous);
}

void announce() {
  static std::atomic<bool> done{false};
  if (done.exchange(true)) return;
  log::version(rondoGetVersion());
  env::warn_unknown();
  for (const env::Variable& row : env::table()) {
    if (row.name.ends_with('*') || row.name == "RONDO_JOB_SECRET" || !log::enabled(log::Subsystem::env)) continue;
    if (const auto value = env::text(row.name)) log::info(log::Subsystem::env, std::string(row.name) + "=" + *value);
  }
}

int device_from_environment() {
  return env::text("LOCAL_RANK") ? static_cast<int>(env::integer("LOCAL_RANK", 0, limits::ranks_max - 1)) : 0;
}

void check_world(int rank, int ranks) {
  if (ranks < 1 || ranks > limits::ranks_max) {
    throw Error(Code::invalid_argument, "a communicator of " + std::to_string(ranks) + " ranks cannot be: 1 to " +
                                            std::to_string(limits::ranks_max));
  }
  if (rank < 0 || rank >= ranks) {
    throw Error(Code::invalid_argument,
                "rank " + std::to_string(rank) + " is outside the communicator: 0 to " + std::to_string(ranks - 1));
  }
}

ncclResult_t start(const char* call, ncclComm_t* newcomm, Start start) {
  announce();
  auto fresh = std::make_shared<Fresh>(newcomm, std::move(start));  // shared: std::function copies its captures
  if (group::depth == 0) return fresh->run(call);
  group::add(group::Job::start, [call, fresh = std::move(fresh)] { return fresh->run(call); });
  return ncclSuccess;
}

}  // namespace rondo::api
