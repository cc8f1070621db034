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

/// Opens the control plane; links open when calls first need them.  Throws Error.
std::unique_ptr<Communicator> make_communicator(const control::Membership& membership, Parts parts,
                                                const Communicator::Options& options, control::Deadline deadline);

}  // namespace rondo
