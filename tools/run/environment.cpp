// What ranks find in their environment: see environment.h.  Names and secrets come from the kernel's randomness.
#include "environment.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
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

// Free now; somebody may take it before rank 0 does, as with every launcher that chooses a port.
std::string free_port() {
  Descriptor socket_fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!socket_fd || bind(socket_fd.get(), generic, size) != 0 || getsockname(socket_fd.get(), generic, &size) != 0)
    throw_system_error("cannot find a free port on 127.0.0.1 for MASTER_PORT");
  return std::to_string(ntohs(address.sin_port));
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
    set("MASTER_ADDR=127.0.0.1");
    set("MASTER_PORT=" + (options.master_port != 0 ? std::to_string(options.master_port) : free_port()));
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
