// Opens without blocking: a pipe that nobody writes to would keep its reader for ever.
#include "base/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/descriptor.h"

namespace rondo {

SmallFile read_small_file(const std::string& path, std::size_t bytes_max) {
  SmallFile file;
  const auto in_vain = [&](const std::string& why) {
    file.text.clear();
    file.trouble = why;
    return file;
  };
  const Descriptor opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info = {};
  if (!opened || ::fstat(opened.get(), &info) != 0) return in_vain(std::strerror(errno));
  file.mode = info.st_mode;
  if (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode)) return in_vain("it is a pipe or a socket, not a file");
  char part[4096];
  while (true) {
    const ssize_t bytes = ::read(opened.get(), part, sizeof part);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return in_vain(std::strerror(errno));
    if (bytes == 0) return file;
    file.text.append(part, static_cast<std::size_t>(bytes));
    if (file.text.size() > bytes_max) return in_vain("it has more than " + std::to_string(bytes_max) + " bytes");
  }
}

}  // namespace rondo
