// What the assembly gives a communicator: the concrete transports and kernels behind their interfaces.
#pragma once

#include <memory>
#include <vector>

#include "communicator.h"
#include "communicator/lanes.h"
#include "communicator/peers.h"
#include "communicator/tuning.h"
#include "control.h"
#include "reducer.h"
#include "transport.h"

namespace rondo {

struct Parts {
  std::vector<std::unique_ptr<Transport>> transports;
  LinkPolicy policy;
  LanePolicy lanes;
  Tuning tuning;
  const Reducer& reducer;
};

/// The ranks of this rank's host, and the CPUs that they may use: sets that overlap in part count whole.
struct Host {
  int cpus = 0;
  int ranks = 0;
  bool crowded() const noexcept { return cpus < ranks; }
};
Host host_of(const control::Membership& membership);

/// Opens the control plane; links open when calls first need them.  Throws Error.
std::unique_ptr<Communicator> make_communicator(const control::Membership& membership, Parts parts,
                                                const Communicator::Options& options, control::Deadline deadline);

}  // namespace rondo
