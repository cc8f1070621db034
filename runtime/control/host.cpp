// Which host a process is on: see host.h.
#include "control/host.h"

#include <sched.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>

#include "base/env.h"
#include "control/crypto.h"
#include "control/words.h"

namespace rondo::control {
namespace {

std::string identity() {
  if (const auto id = env::text("NCCL_HOSTID")) return "id " + *id;
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::array<char, 64> network = {};
  const ssize_t bytes = ::readlink("/proc/self/ns/net", network.data(), network.size());
  if (boot.empty() || bytes <= 0) return "name " + host_name();  // no /proc
  return "boot " + boot + " " + std::string(network.data(), static_cast<std::size_t>(bytes));
}

}  // namespace

Cpus cpus_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return {};  // more than 1,024 CPUs: as if there were enough
  const View bytes(reinterpret_cast<const std::byte*>(&set), sizeof set);
  return {ByteReader(sha256(bytes)).number<std::uint64_t>(), static_cast<std::uint16_t>(CPU_COUNT(&set))};
}

std::uint64_t host_key() { return ByteReader(sha256(view(identity()))).number<std::uint64_t>(); }

}  // namespace rondo::control
