// This host and this process: facts, and what is wrong with them.
#pragma once

#include "tools/doctor/finding.h"

namespace rondo::doctor {

/// Everything that is looked at, as one object; what could not be read is null.  Tries shared memory and kernel copies
/// with a child process.  Variables are those of NCCL and Rondo, without secrets.
json host_facts();

/// What the facts of one process say.  A pure function.
Findings check_host(const json& facts);

}  // namespace rondo::doctor
