// Lines "Name:   123 kB" of /proc's status and smaps_rollup.
#include "tools/trainer/report/memory.h"

#include <fstream>
#include <sstream>

namespace rondo::report {
namespace {

/// The sum of the values of all lines that begin with `name` (which ends in a colon).
double bytes_of(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  double sum = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name, 0) != 0) continue;
    std::istringstream words(line.substr(name.size()));
    double kib = 0;
    if (words >> kib) sum += kib * 1024;
  }
  return sum;
}

}  // namespace

ProcessMemory process_memory(const std::string& folder) {
  const std::string rollup = folder + "/smaps_rollup";
  return {bytes_of(folder + "/status", "VmHWM:"), bytes_of(rollup, "Pss:"),
          bytes_of(rollup, "Private_Clean:") + bytes_of(rollup, "Private_Dirty:")};
}

}  // namespace rondo::report
