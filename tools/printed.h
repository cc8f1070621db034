// The last thing a program does: what it printed must have arrived.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace rondo {

/// `status`, or 1 in place of 0 where the standard output could not be written, which is then said.  A full disk or a
/// closed descriptor shows only when what was printed is flushed.
inline int status_when_printed(const char* program, int status) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  // Of what failed before, only the stream's mark is left.
  std::fprintf(stderr, "%s: cannot write the standard output%s%s\n", program, errno != 0 ? ": " : "",
               errno != 0 ? std::strerror(errno) : "");
  return status == 0 ? 1 : status;
}

}  // namespace rondo
