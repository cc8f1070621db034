// rondoCommInitFromEnv: a communicator of all ranks of a job, from the variables of its launcher.
#include <atomic>

#include "api/errors.h"
#include "api/launchers.h"
#include "api/rendezvous.h"
#include "api/start.h"
#include "base/log.h"
#include "group.h"
#include "rondo.h"

namespace rondo::api {
namespace {

/// How the ranks find each other, for users who wonder.
void tell(const Place& place, const Meeting& meeting) {
  for (const std::string& sentence : place.warnings) log::warn(sentence);
  for (const std::string& sentence : place.notes) log::info(log::Subsystem::init, sentence);
  const std::string where =
      meeting.host.empty() ? "abstract socket " + meeting.name : meeting.host + ":" + std::to_string(meeting.port);
  log::info(log::Subsystem::init, "rendezvous: rank " + std::to_string(place.rank) + " of " +
                                      std::to_string(place.ranks) + " by " + place.launcher_name + ", at " + where +
                                      " by " + meeting.source +
                                      (meeting.authenticated ? ", with a secret" : ", unauthenticated"));
  if (meeting.authenticated || place.rank != 0 || place.ranks == 1) return;
  if (meeting.host.empty()) {
    log::info(log::Subsystem::init,
              "the rendezvous is unauthenticated: any process of this user on this host may join; `rondo run` gives "
              "jobs a secret, and RONDO_PSK_FILE gives one to any job");
  } else {
    log::warn("the rendezvous at " + where +
              " is unauthenticated: whoever reaches it may join this job; set RONDO_PSK_FILE, a file with the same key "
              "on every host, or RONDO_JOB_SECRET");
  }
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
    const api::Place place = api::find_place();
    const api::Meeting meeting = api::find_meeting(place);
    const int call = calls.fetch_add(1);
    if (call == 0) api::tell(place, meeting);
    api::Start start{place.rank, place.ranks, place.local_rank, true, "", {}};
    start.id = [&] { return api::id_at(meeting, meeting.name + "-" + std::to_string(call), place.rank); };
    return api::start("rondoCommInitFromEnv", comm, std::move(start));
  });
}
