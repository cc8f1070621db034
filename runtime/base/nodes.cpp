// sysfs, getcpu, get_mempolicy and mbind: see nodes.h.  Two system calls are no reason for a library (libnuma).
#include "base/nodes.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>

#include "base/env.h"
#include "base/limits.h"
#include "base/log.h"

namespace rondo::nodes {
namespace {

constinit std::atomic<bool> refused{false};

void give_up(const char* call) noexcept {
  const int error = errno;
  if (refused.exchange(true) || !log::enabled(log::Subsystem::init)) return;
  log::info(log::Subsystem::init, std::string("memory is not placed on nodes: ") + call + ": " + std::strerror(error));
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The policy of the calling thread, or -1.
int own_policy() noexcept {
  int mode = MPOL_DEFAULT;
  return ::syscall(SYS_get_mempolicy, &mode, nullptr, 0, nullptr, 0) == 0 ? mode : -1;
}

/// 0, or -1 with errno.
long prefer(void* data, std::size_t bytes, int node) noexcept {
  constexpr std::size_t bits = 8 * sizeof(unsigned long);
  unsigned long mask[limits::memory_nodes_max / bits] = {};
  mask[static_cast<std::size_t>(node) / bits] |= 1ul << (static_cast<std::size_t>(node) % bits);
  // The kernel counts one bit less than it is told.
  return ::syscall(SYS_mbind, data, bytes, MPOL_PREFERRED, mask, limits::memory_nodes_max + 1, 0);
}

}  // namespace

std::vector<int> numbers_in(std::string_view list) {
  std::vector<int> numbers;
  const char* at = list.data();
  const char* const end = at + list.size();
  const auto read = [&](int& number) {
    const auto [next, error] = std::from_chars(at, end, number);
    at = next;
    return error == std::errc() && number >= 0 && number < limits::processors_max;
  };
  do {
    int first = 0;
    if (!read(first)) return {};
    int last = first;
    if (at != end && *at == '-' && (++at, !read(last))) return {};
    for (int number = first; number <= last; ++number) numbers.push_back(number);
    if (at == end) return numbers;
  } while (*at++ == ',');
  return {};
}

Machine::Machine(const std::string& folder) {
  names_ = first_line(folder + "/has_memory");
  if (names_.empty()) names_ = first_line(folder + "/online");  // from before Linux 3.8
  with_memory_ = numbers_in(names_);
  std::erase_if(with_memory_, [](int node) { return node >= limits::memory_nodes_max; });
  for (const int node : with_memory_) {
    for (const int processor : numbers_in(first_line(folder + "/node" + std::to_string(node) + "/cpulist"))) {
      if (of_processor_.size() <= static_cast<std::size_t>(processor)) of_processor_.resize(processor + 1, none);
      of_processor_[processor] = node;
    }
  }
}

int Machine::of_processor(int processor) const noexcept {
  return processor >= 0 && static_cast<std::size_t>(processor) < of_processor_.size() ? of_processor_[processor] : none;
}

const Machine& machine() {
  static const Machine& read = *new Machine("/sys/devices/system/node");
  return read;
}

int of_this_thread() {
  if (env::choice("RONDO_NUMA", {"auto", "off"}) == "off" || !machine().several()) return none;
  if (refused.load(std::memory_order_relaxed)) return none;
  const int policy = own_policy();
  if (policy < 0) give_up("get_mempolicy");
  return policy == MPOL_DEFAULT ? machine().of_processor(::sched_getcpu()) : none;
}

void place(void* data, std::size_t bytes, int node) noexcept {
  if (node == none || refused.load(std::memory_order_relaxed)) return;
  if (prefer(data, bytes, node) != 0) give_up("mbind");
}

std::string trouble() {
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const memory = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return std::string("mmap: ") + std::strerror(errno);
  std::string trouble;
  const int node = std::max(machine().of_processor(::sched_getcpu()), 0);
  if (own_policy() < 0) {
    trouble = std::string("get_mempolicy: ") + std::strerror(errno);
  } else if (prefer(memory, page, node) != 0) {
    trouble = std::string("mbind: ") + std::strerror(errno);
  }
  ::munmap(memory, page);
  return trouble;
}

}  // namespace rondo::nodes
