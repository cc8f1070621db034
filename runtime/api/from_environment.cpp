// rondoCommInitFromEnv: a communicator of all ranks of a job, from the variables of its launcher.
//
// `rondo run` gives each job a name and a secret, which make the id of each communicator.  Under another launcher the
// name and secret are made of the user, MASTER_PORT and MASTER_ADDR, which anyone of that user may know: the log says
// so.
#include <unistd.h>

#include <atomic>

#include "api/errors.h"
#include "api/start.h"
#include "base/env.h"
#include "base/limits.h"
#include "base/log.h"
#include "group.h"
#include "rondo.h"

namespace rondo::api {
namespace {

struct Job {
  int rank = 0;
  int ranks = 1;
  std::string name;
  std::string secret;
  bool authenticated = true;
};

void must_be_set(const char* name, const char* meaning) {
  if (env::text(name)) return;
  throw Error(Code::invalid_usage, std::string(name) + " is not set (" + meaning +
                                       "); start the program with `rondo run -n RANKS -- PROGRAM`, or set RANK, "
                                       "WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun does");
}

Job read_job() {
  Job job;
  must_be_set("RANK", "this process's rank");
  must_be_set("WORLD_SIZE", "the number of ranks");
  job.ranks = static_cast<int>(env::integer("WORLD_SIZE", 1, limits::ranks_max));
  job.rank = static_cast<int>(env::integer("RANK", 0, job.ranks - 1));
  (void)device_from_environment();  // a wrong LOCAL_RANK is an error here
  const int local_ranks = static_cast<int>(env::integer("LOCAL_WORLD_SIZE", 0, limits::ranks_max));
  if (local_ranks != 0 && local_ranks < job.ranks) {
    throw Error(Code::invalid_usage, "only LOCAL_WORLD_SIZE=" + std::to_string(local_ranks) +
                                         " of WORLD_SIZE=" + std::to_string(job.ranks) +
                                         " ranks are on this host, and a job of several hosts is not possible yet");
  }
  const std::optional<std::string> name = env::text("RONDO_JOB_NAME");
  const std::optional<std::string> secret = env::text("RONDO_JOB_SECRET");
  if (name && secret) {
    job.name = *name;
    job.secret = *secret;
    return job;
  }
  if (name || secret) {
    throw Error(Code::invalid_usage, "RONDO_JOB_NAME and RONDO_JOB_SECRET must both be set, or neither");
  }
  must_be_set("MASTER_ADDR", "the host of rank 0");
  must_be_set("MASTER_PORT", "a number that names the job on that host");
  const std::string port = std::to_string(env::integer("MASTER_PORT", 1, 65535));
  job.name = "rondo-job-" + std::to_string(::getuid()) + "-" + port;
  job.secret = job.name + "-" + *env::text("MASTER_ADDR");
  job.authenticated = false;
  return job;
}

}  // namespace
}  // namespace rondo::api

extern "C" ncclResult_t rondoCommInitFromEnv(ncclComm_t* comm) {
  using namespace rondo;
  return api::guarded("rondoCommInitFromEnv", [&] {
    static std::atomic<int> calls{0};  // the n-th call of every rank makes the n-th communicator
    if (comm == nullptr) throw Error(Code::invalid_argument, "comm is NULL; give a place for the handle");
    if (group::depth > 0) throw Error(Code::invalid_usage, "it cannot be inside a group; call ncclGroupEnd first");
    api::announce();
    const api::Job job = api::read_job();
    const std::string name = job.name + "-" + std::to_string(calls.fetch_add(1));
    if (!job.authenticated && job.rank == 0) {
      log::info(log::Subsystem::init, "rendezvous " + name +
                                          " is unauthenticated: any process of this user may join; "
                                          "`rondo run` gives jobs a secret");
    }
    api::Start start{job.rank, job.ranks, api::device_from_environment(), true, "", {}};
    start.id = [&] {
      return job.rank == 0 ? control::create_derived_root(name, job.secret)
                           : control::derived_unique_id(name, job.secret);
    };
    return api::start("rondoCommInitFromEnv", comm, std::move(start));
  });
}
