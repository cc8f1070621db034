// What memory a process takes, as Linux counts it.
#pragma once

#include <string>

namespace rondo::report {

struct ProcessMemory {
  double peak_bytes = 0;          // the most that was ever resident (VmHWM): shared pages count whole
  double proportional_bytes = 0;  // now resident, a page that n processes map counting 1/n (PSS)
  double private_bytes = 0;       // now resident and mapped by no other process
};

/// Of a process of this host; `folder` is /proc/self or the like.  What can't be read is 0.
ProcessMemory process_memory(const std::string& folder = "/proc/self");

}  // namespace rondo::report
