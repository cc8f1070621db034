// What ranks find in their environment: see environment.h.  Names and secrets come from the kernel's randomness.
#include "environment.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string_view>

#include "base/descriptor.h"
#include "base/result.h"

namespace rondo::run {

namespace {

std::string random_hex(std::size_t bytes) {
  std::string hex;
  for (std::size_t i = 0; i < bytes; ++i) {
    unsigned char byte = 0;
    if (getrandom(&byte, 1, 0) != 1) throw_system_error("cannot draw random bytes for the job's secret");
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    hex += digits;
  }
  return hex;
}

std::optional<std::string> free_port_of(int family, const sockaddr* any_port, socklen_t size) {
  Descriptor socket_fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage bound{};
  socklen_t bound_size = sizeof bound;
  if (!socket_fd || bind(socket_fd.get(), any_port, size) != 0 ||
      getsockname(socket_fd.get(), reinterpret_cast<sockaddr*>(&bound), &bound_size) != 0)
    return {};
  return std::to_string(ntohs(family == AF_INET ? reinterpret_cast<sockaddr_in&>(bound).sin_port
                                                : reinterpret_cast<sockaddr_in6&>(bound).sin6_port));
}

struct Master {
  std::string address, port;
};

// A port of this host's loopback, of whichever family it has.  Free now; somebody may take it before rank 0 does, as
// with every launcher that chooses a port.
Master free_master() {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (const auto port = free_port_of(AF_INET, reinterpret_cast<sockaddr*>(&four), sizeof four))
    return {"127.0.0.1", *port};
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_loopback;
  if (const auto port = free_port_of(AF_INET6, reinterpret_cast<sockaddr*>(&six), sizeof six)) return {"::1", *port};
  throw_system_error("cannot find a free port on 127.0.0.1 or ::1 for MASTER_PORT (--master-port gives one)");
}

}  // namespace

Environment::Environment(const LaunchOptions& options, int attempt) {
  for (char** entry = environ; *entry; ++entry) entries_.emplace_back(*entry);
  set("WORLD_SIZE=" + std::to_string(options.hosts * options.ranks));
  set("LOCAL_WORLD_SIZE=" + std::to_string(options.ranks));
  set("RONDO_RESTART_COUNT=" + std::to_string(attempt));
  if (options.hosts > 1) {
    set("MASTER_ADDR=" + options.master_address);
    set("MASTER_PORT=" + std::to_string(options.master_port));
    set("RONDO_JOB_NAME=rondo-run-" + std::to_string(options.master_port));
  } else {
    const Master master =
        options.master_port != 0 ? Master{"127.0.0.1", std::to_string(options.master_port)} : free_master();
    set("MASTER_ADDR=" + master.address);
    set("MASTER_PORT=" + master.port);
    set("RONDO_JOB_NAME=rondo-" + std::to_string(getpid()) + "-" + random_hex(8));
    set("RONDO_JOB_SECRET=" + random_hex(32));
  }
  for (const std::string& assignment : options.environment) set(assignment);
}

void Environment::set(const std::string& assignment) {
  const std::string_view name = std::string_view(assignment).substr(0, assignment.find('=') + 1);
  std::erase_if(entries_, [&](const std::string& entry) { return entry.starts_with(name); });
  entries_.push_back(assignment);
}

std::vector<char*> Environment::pointers() {
  std::vector<char*> result;
  for (std::string& entry : entries_) result.push_back(entry.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace rondo::run
