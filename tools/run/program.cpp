// Where the program of a job is: see program.h.
#include "program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace rondo::run {

Program find_program(const std::string& name) {
  std::vector<std::string> candidates;
  if (name.find('/') != std::string::npos) {
    candidates.push_back(name);
  } else if (!name.empty()) {
    const char* variable = std::getenv("PATH");
    const std::string path = variable ? variable : "/usr/local/bin:/usr/bin:/bin";
    for (std::size_t at = 0; at <= path.size();) {
      const std::size_t end = std::min(path.find(':', at), path.size());
      candidates.push_back((end == at ? "." : path.substr(at, end - at)) + "/" + name);
      at = end + 1;
    }
  }
  Program found{"", 127, "the program '" + name + "' was not found; give a path or a name that PATH knows"};
  for (const std::string& candidate : candidates) {
    struct stat info {};
    if (stat(candidate.c_str(), &info) != 0) continue;
    if (S_ISREG(info.st_mode) && access(candidate.c_str(), X_OK) == 0) return {candidate, 0, ""};
    if (found.status == 127)
      found = {"", 126,
               "'" + candidate + "' cannot be executed: " +
                   (S_ISREG(info.st_mode) ? "it is not marked executable (chmod +x)" : "it is not a file")};
  }
  return found;
}

}  // namespace rondo::run
