// Hosts for tests: network namespaces of this machine, joined by a switch (a bridge in a namespace of its own).
//
// Each namespace lives as long as a process that the fixture forked, and that dies with the test: nothing is left
// behind, however the test ends.  Every host has `lo` and `eth0`, and no way out.  The test process forks before it
// uses Rondo (see ../control/processes.h).
#pragma once

#include <sys/types.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace rondo::test {

/// Namespaces cannot be made here: why.
class Unavailable : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Hosts {
 public:
  /// Hosts 0.. with 10.77.0.1, ... and fd77::1, ...  Throws Unavailable.
  explicit Hosts(int count);
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;
  /// This process is on that host from here on: before it uses Rondo.
  void enter(int host) const;
  /// Runs `ip ARGUMENTS` on that host; throws if it fails.
  void ip(int host, const std::string& arguments) const;

 private:
  pid_t hold();
  void command(pid_t holder, const std::string& words) const;
  std::vector<pid_t> holders_;  // by host, then the switch
};

}  // namespace rondo::test
