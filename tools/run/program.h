// The program of a job: where it is, as a shell would look for it.
#pragma once

#include <string>

namespace rondo::run {

/// Where the program is, or the status (127: not found, 126: cannot be executed) and the sentence why not.
struct Program {
  std::string path;
  int status = 0;
  std::string why;
};

/// A name with a slash is a path; any other is searched for in PATH.
Program find_program(const std::string& name);

}  // namespace rondo::run
