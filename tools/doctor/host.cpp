// Reads /proc, /sys and the process's own limits; see host.h.
#include "tools/doctor/host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/membarrier.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/limits.h"
#include "base/nodes.h"
#include "base/result.h"
#include "rondo.h"

namespace rondo::doctor {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// A limit as a number; null where there is none.
json limit(int resource, bool hard) {
  rlimit value{};
  if (getrlimit(resource, &value) != 0) return nullptr;
  const rlim_t number = hard ? value.rlim_max : value.rlim_cur;
  if (number == RLIM_INFINITY) return nullptr;
  return number;
}

/// An IP address in words; empty for an address of another kind.
std::string address_text(const sockaddr& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof text);
  } else if (address.sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text, sizeof text);
  }
  return text;
}

json interfaces() {
  json all = json::object();
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return all;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    json& one = all[entry->ifa_name];
    one["up"] = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_RUNNING) != 0;
    one["loopback"] = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    if (!one.contains("addresses")) one["addresses"] = json::array();
    if (entry->ifa_addr == nullptr) continue;
    if (const std::string text = address_text(*entry->ifa_addr); !text.empty()) one["addresses"].push_back(text);
  }
  freeifaddrs(list);
  for (auto& [name, one] : all.items()) {
    const std::string speed = first_line("/sys/class/net/" + name + "/speed");
    const int megabits = speed.empty() ? -1 : std::atoi(speed.c_str());
    one["megabits"] = megabits > 0 ? json(megabits) : json(nullptr);
  }
  return all;
}

/// The interface of the route to everywhere, of IPv4, else of IPv6; empty: there is none.
std::string default_route() {
  std::ifstream routes("/proc/net/route");
  std::string line;
  while (std::getline(routes, line)) {
    std::istringstream fields(line);
    std::string name;
    std::string destination;
    fields >> name >> destination;
    if (destination == "00000000") return name;
  }
  std::ifstream six("/proc/net/ipv6_route");
  while (std::getline(six, line)) {  // destination, its bits, source, its bits, next hop, three numbers, flags, name
    std::istringstream fields(line);
    const std::vector<std::string> words{std::istream_iterator<std::string>(fields), {}};
    const bool everywhere = words.size() == 10 && words[1] == "00" && words[9] != "lo";
    if (everywhere && words[0].find_first_not_of('0') == std::string::npos) return words[9];
  }
  return {};
}

/// As the launcher says; 1 without one.
int ranks_of_job() {
  for (const char* name : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    if (const char* const text = std::getenv(name)) return std::max(1, std::atoi(text));
  }
  return 1;
}

/// Sockets between two ranks over TCP, as far as this process's variables say so.
limits::TcpSockets tcp_sockets() {
  try {
    const auto threads = static_cast<int>(env::integer("NCCL_SOCKET_NTHREADS", 1, limits::socket_threads_max));
    const auto each = static_cast<int>(env::integer("NCCL_NSOCKS_PERTHREAD", 1, limits::sockets_per_link_max));
    return {threads * each, threads};
  } catch (const Error&) {
    return {};  // joining says what is wrong
  }
}

/// Empty: a page of memory can be made that other processes map; otherwise the system's words.
std::string shared_memory_trouble() {
  const int fd = memfd_create("rondo-doctor", MFD_CLOEXEC);
  if (fd < 0) return std::string("memfd_create: ") + strerror(errno);
  std::string trouble;
  if (posix_fallocate(fd, 0, 1 << 20) != 0) trouble = "1 MiB could not be committed";
  void* const memory = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    trouble = std::string("mmap: ") + strerror(errno);
  } else {
    munmap(memory, 1 << 20);
  }
  close(fd);
  return trouble;
}

/// Whether a process that is not an ancestor may read this one's memory, as ranks would: a child tries.
std::string kernel_copy_trouble() {
  const std::uint64_t value = 0x526f6e646fULL;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return std::string("fork: ") + strerror(errno);
  if (child == 0) {
    std::uint64_t found = 0;
    iovec here{&found, sizeof found};
    iovec there{const_cast<std::uint64_t*>(&value), sizeof value};
    const bool read = process_vm_readv(parent, &here, 1, &there, 1, 0) == sizeof found && found == value;
    _exit(read ? 0 : errno);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return std::string("process_vm_readv: ") + strerror(WIFEXITED(status) ? WEXITSTATUS(status) : EPERM);
}

bool has_membarrier() {
  const long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  return commands > 0 && (commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0;
}

/// Processors' worth of time the control group grants; null: no bound.
json processor_quota() {
  std::istringstream fields(first_line("/sys/fs/cgroup/cpu.max"));
  double quota = 0;
  double period = 0;
  if (!(fields >> quota >> period) || period <= 0) return nullptr;
  return quota / period;
}

json variables() {
  json set = json::object();
  for (const env::Variable& row : env::table()) {
    const bool prefixed = row.name.starts_with("NCCL_") || row.name.starts_with("RONDO_");
    if (!prefixed || row.name.ends_with('*') || row.name.starts_with("RONDO_JOB_")) continue;
    if (const auto value = env::text(row.name)) set[std::string(row.name)] = *value;
  }
  return set;
}

std::string count_text(const json& number) { return number.is_null() ? "no limit" : number.dump(); }

void check_processors(const json& facts, Findings& findings) {
  const int processors = facts["processors"];
  const int ranks = facts["ranks_here"];
  const std::string ranks_text = std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
  if (!facts["processor_quota"].is_null() && facts["processor_quota"] < processors) {
    findings.push_back({Level::note, "processors",
                        std::to_string(processors) + " usable, but time for " + facts["processor_quota"].dump(),
                        "the control group's cpu.max", "raise the container's CPU limit, or start fewer ranks"});
  }
  if (ranks > processors) {
    findings.push_back({Level::note, "processors",
                        ranks_text + " share " + std::to_string(processors) + " usable processors",
                        "waiting ranks give their processor up, which costs microseconds a message",
                        "start at most one rank a processor, or widen the binding of this job"});
  } else {
    findings.push_back({Level::good, "processors", std::to_string(processors) + " usable for " + ranks_text});
  }
}

void check_memory(const json& facts, Findings& findings) {
  if (const std::string trouble = facts["shared_memory"]; !trouble.empty()) {
    findings.push_back({Level::problem, "shared memory", "ranks of this host can't share memory", trouble,
                        "raise the memory limit of the container, or permit memfd_create"});
  } else {
    findings.push_back({Level::good, "shared memory", "memory for other processes can be made"});
  }
  if (const std::string trouble = facts["kernel_copy"]; !trouble.empty()) {
    findings.push_back({Level::note, "shared memory", "ranks can't copy from each other's memory", trouble,
                        "set kernel.yama.ptrace_scope=0, or run the container with the capability SYS_PTRACE; without "
                        "it plain buffers above 8 KiB take a copy more (memory of ncclMemAlloc does not)"});
  } else {
    findings.push_back({Level::good, "shared memory", "ranks can copy from each other's memory"});
  }
  if (facts["memory_nodes"] != "") {
    const std::string nodes = "memory nodes " + facts["memory_nodes"].get<std::string>();
    if (const std::string trouble = facts["placing"]; !trouble.empty()) {
      findings.push_back({Level::note, "memory nodes", nodes + ", and memory can't be placed on one of them", trouble,
                          "permit mbind and get_mempolicy (a container: the capability SYS_NICE), or bind each rank to "
                          "the processors of one node"});
    } else {
      findings.push_back({Level::good, "memory nodes", nodes + "; memory can be placed"});
    }
  }
  if (!facts["membarrier"]) {
    findings.push_back({Level::note, "waiting", "the kernel has no membarrier",
                        "an old kernel, or a filter of system calls",
                        "permit membarrier; without it ranks that wait long wake up to 1 ms late"});
  }
}

void check_limits(const json& facts, Findings& findings) {
  const json& soft = facts["files_soft"];
  const std::string text = count_text(soft) + " open files (hard limit: " + count_text(facts["files_hard"]) + ")";
  const long needed =
      limits::descriptors_of_process +
      limits::descriptors_of_communicator(facts["ranks"].get<int>(),
                                          {facts["sockets_per_link"].get<int>(), facts["socket_threads"].get<int>()});
  if (!soft.is_null() && soft < needed) {
    findings.push_back({Level::problem, "limits", text,
                        "a job of " + facts["ranks"].dump() + " ranks that are all linked over TCP takes " +
                            std::to_string(needed) + ", besides the program's own files",
                        "ulimit -n " + std::to_string(2 * needed) + ", before the launcher starts"});
  } else {
    findings.push_back({Level::good, "limits", text});
  }
  const json& locked = facts["locked_bytes"];
  const std::string bytes = locked.is_null() ? "unlimited" : locked.dump() + " bytes";
  findings.push_back({Level::good, "limits", "locked memory: " + bytes + " (only InfiniBand needs it)"});
}

void check_network(const json& facts, Findings& findings) {
  int outward = 0;
  for (const auto& [name, one] : facts["interfaces"].items()) {
    if (one["loopback"]) continue;
    std::string text = name + (one["up"] ? ":" : " (down):");
    for (const auto& address : one["addresses"]) text.append(" ").append(address.get<std::string>());
    if (!one["megabits"].is_null()) text.append(", ").append(one["megabits"].dump()).append(" Mbit/s");
    if (name == facts["default_route"]) text += ", default route";
    findings.push_back({Level::good, "network", text});
    if (one["up"] && !one["addresses"].empty()) ++outward;
  }
  if (outward > 0) return;
  findings.push_back({Level::note, "network", "no interface but loopback is up with an address",
                      "a container or namespace without network", "jobs of one host work; for several, give it one"});
}

}  // namespace

json host_facts() {
  utsname system{};
  uname(&system);
  cpu_set_t processors;
  CPU_ZERO(&processors);
  sched_getaffinity(0, sizeof processors, &processors);
  int version = 0;
  (void)ncclGetVersion(&version);
  json bound = json::array();
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &processors)) bound.push_back(i);
  }
  return {{"host", system.nodename},
          {"kernel", system.release},
          {"version", rondoGetVersion()},
          {"nccl_version", version},
          {"user", getuid()},
          {"pid", getpid()},
          {"ranks", ranks_of_job()},
          {"ranks_here", 1},
          {"processors", CPU_COUNT(&processors)},
          {"bound_to", bound},
          {"processor_quota", processor_quota()},
          {"files_soft", limit(RLIMIT_NOFILE, false)},
          {"files_hard", limit(RLIMIT_NOFILE, true)},
          {"locked_bytes", limit(RLIMIT_MEMLOCK, false)},
          {"shared_memory", shared_memory_trouble()},
          {"kernel_copy", kernel_copy_trouble()},
          {"membarrier", has_membarrier()},
          {"memory_nodes", nodes::machine().several() ? nodes::machine().names() : ""},
          {"placing", nodes::machine().several() ? nodes::trouble() : ""},
          {"interfaces", interfaces()},
          {"default_route", default_route()},
          {"sockets_per_link", tcp_sockets().per_link},
          {"socket_threads", tcp_sockets().threads},
          {"variables", variables()},
          {"complaints", env::complaints()}};
}

Findings check_host(const json& facts) {
  Findings findings;
  check_processors(facts, findings);
  check_memory(facts, findings);
  check_limits(facts, findings);
  check_network(facts, findings);
  for (const std::string complaint : facts["complaints"]) {
    findings.push_back({Level::problem, "variables", complaint, "a variable that Rondo does not understand",
                        "correct it or unset it; `rondo info --env` lists what there is"});
  }
  return findings;
}

}  // namespace rondo::doctor
