// memfd_create, the limit of file sizes, the size, the seals: see memory_file.h.
#include "base/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>

#include "base/result.h"

namespace rondo {
namespace {

std::string amount(std::size_t bytes) { return std::to_string(bytes) + " bytes of shared memory"; }

}  // namespace

/// Beyond this limit ftruncate raises SIGXFSZ, and the signals of a process are its program's.
std::string memory_file_limit(std::size_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur) return "";
  return "this process may make files of at most " + std::to_string(limit.rlim_cur) + " bytes (ulimit -f)";
}

Descriptor make_memory_file(const char* name, std::size_t bytes) {
  if (const std::string limit = memory_file_limit(bytes); !limit.empty()) {
    throw Error(Code::system_error, "cannot size " + amount(bytes) + ": " + limit);
  }
  keep_standard_descriptors();
  Descriptor fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) throw_system_error("cannot create " + amount(bytes) + " (memfd_create)");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) throw_system_error("cannot size " + amount(bytes));
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw_system_error("cannot seal " + amount(bytes));
  return fd;
}

}  // namespace rondo
