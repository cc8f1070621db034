// memfd segments: see shared_memory.h.
#include "shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "base/memory_file.h"
#include "base/nodes.h"
#include "base/result.h"

namespace rondo {
namespace {

constexpr std::size_t huge_page_bytes = 2u << 20;

constexpr std::size_t checked_bytes_min = 64u << 20;

/// What the kernel says it can give without swapping; the largest number where it does not say.
std::size_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word) {
    std::size_t kilobytes = 0;
    if (word == "MemAvailable:" && file >> kilobytes) return kilobytes * 1024;
  }
  return SIZE_MAX;
}

std::string amount(std::size_t bytes) { return std::to_string(bytes) + " bytes of shared memory"; }

void* map_shared(int fd, std::size_t bytes) {
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) throw_system_error("cannot map " + amount(bytes));
  // Best effort: whether shared memory may use huge pages is the administrator's choice.
  if (bytes >= huge_page_bytes) ::madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

}  // namespace

SharedMemory SharedMemory::create(const char* name, std::size_t bytes) {
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (bytes > SIZE_MAX - page) throw Error(Code::system_error, "cannot allocate " + amount(bytes) + ": too large");
  bytes = (bytes + page - 1) / page * page;
  // Committing more than there is would wake the kernel's out-of-memory killer, not fail.
  if (const std::size_t most = bytes < checked_bytes_min ? SIZE_MAX : available_bytes(); bytes > most) {
    throw Error(Code::system_error,
                "cannot allocate " + amount(bytes) + ": " + std::to_string(most) + " are available");
  }
  Descriptor fd = make_memory_file(name, bytes);
  void* const data = map_shared(fd.get(), bytes);
  return SharedMemory(data, bytes, std::move(fd));
}

void SharedMemory::commit(int fd, std::size_t at, std::size_t bytes, int node) {
  // The kernel keeps the policy with the memory: it holds in whichever process and thread a page is first touched.
  nodes::place(static_cast<std::byte*>(data_) + at, bytes, node);
  int refused;
  while ((refused = ::fallocate(fd, 0, static_cast<off_t>(at), static_cast<off_t>(bytes))) != 0 && errno == EINTR) {
  }
  if (refused != 0) throw_system_error("cannot commit " + amount(bytes));
}

SharedMemory SharedMemory::map(int fd, std::size_t bytes) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) throw_system_error("cannot inspect a peer's shared memory");
  if (static_cast<std::size_t>(info.st_size) < bytes) {
    throw Error(Code::system_error,
                "a peer's shared memory has " + std::to_string(info.st_size) + " bytes, not " + std::to_string(bytes));
  }
  return SharedMemory(map_shared(fd, bytes), bytes, Descriptor());
}

void SharedMemory::empty() noexcept {
  if (data_ == nullptr) return;
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  (void)::mmap(data_, bytes_, PROT_READ | PROT_WRITE, flags, -1, 0);  // refused: the mapping stays as it was
}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) ::munmap(data_, bytes_);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = other.bytes_;
    fd_ = std::move(other.fd_);
  }
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace rondo
