// open, write, fsync, rename, fsync of the folder; see atomic_file.h.
#include "tools/trainer/base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

namespace rondo::trainer {

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  std::error_code trouble;
  const auto status = std::filesystem::status(path, trouble);
  const bool direct = std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
  if (std::filesystem::is_symlink(path, trouble) && !direct) {
    path_ = std::filesystem::weakly_canonical(path, trouble).string();
    if (trouble) path_ = path;
  }
  temporary_ = direct ? path_ : path_ + ".part-" + std::to_string(::getpid());
  descriptor_ = ::open(temporary_.c_str(), (direct ? 0 : O_CREAT | O_TRUNC) | O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("cannot create");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (temporary_ != path_) ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* doing) const {
  throw std::runtime_error(std::string(doing) + " " + path_ + ": " + std::strerror(errno));
}

void AtomicFile::write(const void* bytes, std::size_t count) {
  const char* from = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t done = ::write(descriptor_, from, count);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("cannot write");
    from += done;
    count -= static_cast<std::size_t>(done);
  }
}

void AtomicFile::write_at(std::size_t offset, const void* bytes, std::size_t count) {
  const char* from = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t done = ::pwrite(descriptor_, from, count, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("cannot write");
    from += done;
    offset += static_cast<std::size_t>(done);
    count -= static_cast<std::size_t>(done);
  }
}

void AtomicFile::commit() {
  if (temporary_ == path_) {
    ::close(std::exchange(descriptor_, -1));
    return;
  }
  if (::fsync(descriptor_) != 0) fail("cannot flush to the disk");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot put in its place");
  ::close(std::exchange(descriptor_, -1));
  const std::filesystem::path folder = std::filesystem::absolute(path_).parent_path();
  const int entry = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (entry < 0) return;  // the file is there; some systems of files don't let folders be opened
  ::fsync(entry);
  ::close(entry);
}

void write_atomically(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace rondo::trainer
