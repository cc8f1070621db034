// How communicators start: shared by NCCL's inits and rondoCommInitFromEnv.
#pragma once

#include <functional>
#include <string>

#include "api/rendezvous.h"
#include "control.h"
#include "nccl.h"

namespace rondo::api {

/// What a communicator is to be.
struct Start {
  int rank = 0;
  int ranks = 1;
  int device = 0;
  bool blocking = true;
  std::string name;
  /// Gives the id to join with, in the thread that joins; on rank 0 it may start to serve it.  May throw Error.
  std::function<control::UniqueId()> id;
};

/// Starts a communicator: now, or in this thread's open group.  *newcomm is the handle, or NULL after a failure.
/// Throws Error.
ncclResult_t start(const char* call, ncclComm_t* newcomm, Start start);

/// The id that this rank joins with at a meeting, by that name; rank 0 starts to serve it.  Throws Error.
control::UniqueId id_at(const Meeting& meeting, const std::string& name, int rank);

/// The first time: logs the version, what the environment sets, and what is wrong with it.
void announce();

/// LOCAL_RANK, or 0.
int device_from_environment();

/// Throws the Error of a rank or a number of ranks that cannot be.
void check_world(int rank, int ranks);

}  // namespace rondo::api
