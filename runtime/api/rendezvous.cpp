// Where the ranks of a job meet: see rendezvous.h.
#include "api/rendezvous.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "base/env.h"
#include "base/limits.h"
#include "base/result.h"
#include "base/small_file.h"

namespace rondo::api {
namespace {

/// Names of sockets are one user's on a host; across hosts users may have other numbers.
std::string own(const std::string& name) { return "rondo-" + std::to_string(::getuid()) + "-" + name; }

/// What is at the end of a job's name tells jobs apart; all of it is in the secret.
std::string short_name(const std::string& job) {
  constexpr std::size_t most = 20;
  std::string name = job.size() <= most ? job : job.substr(job.size() - most);
  for (char& letter : name) {
    if (letter <= ' ' || letter > '~') letter = '_';
  }
  return name;
}

struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};

HostPort comm_id(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool digits = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  std::string host = text.substr(0, colon == std::string::npos ? 0 : colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const bool plain = bracketed || host.find_first_of(":[]") == std::string::npos;
  if (host.empty() || !plain || !digits || std::stoi(port) < 1 || std::stoi(port) > 65535) {
    throw Error(Code::invalid_argument,
                "NCCL_COMM_ID=" + text + " is not host:port, ipv4:port or [ipv6]:port with a port from 1 to 65535");
  }
  return {host, static_cast<std::uint16_t>(std::stoi(port))};
}

std::string read_key(const std::string& path) {
  const std::string what = "RONDO_PSK_FILE=" + path;
  const SmallFile file = read_small_file(path, limits::key_file_bytes_max);
  if (file.mode != 0 && !S_ISREG(file.mode)) throw Error(Code::invalid_usage, what + " is not a file");
  if (!file.trouble.empty()) throw Error(Code::invalid_usage, what + " cannot be read: " + file.trouble);
  if ((file.mode & 07) != 0) {
    throw Error(Code::invalid_usage, what + " is open to every user of this host: chmod 600 it, or make a new key");
  }
  std::string key = file.text;
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r' || key.back() == ' ')) key.pop_back();
  if (key.size() < limits::key_file_bytes_min) {
    throw Error(Code::invalid_usage, what + " has " + std::to_string(key.size()) + " characters; a key has at least " +
                                         std::to_string(limits::key_file_bytes_min) +
                                         ": make one with `openssl rand -hex 32`");
  }
  return key;
}

/// What both sides prove: `job` so that only ranks of this job meet, and a secret, if there is one.
void prove(Meeting& meeting, const std::string& job) {
  std::optional<std::string> secret = env::text("RONDO_JOB_SECRET");
  const std::optional<std::string> file = env::text("RONDO_PSK_FILE");
  if (!secret && file) secret = read_key(*file);
  meeting.authenticated = secret.has_value();
  meeting.secret = job + "\n" + secret.value_or("");
}

std::string must_be_set(const char* name, const char* meaning) {
  if (const auto value = env::text(name)) return *value;
  throw Error(Code::invalid_usage, std::string(name) + " is not set (" + meaning +
                                       "): start the program with `rondo run -n RANKS -- PROGRAM`, or set RANK, "
                                       "WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun does");
}

[[noreturn]] void refuse_loopback(const Place& place, const std::string& setting) {
  throw Error(Code::invalid_usage, setting + " is every host by itself, but " + place.launcher_name +
                                       " has ranks on several (" + std::to_string(place.ranks_here) + " of " +
                                       std::to_string(place.ranks) +
                                       " are here): set an address of rank 0's host that the others reach");
}

std::uint16_t rondo_port() {
  if (env::text("RONDO_MASTER_PORT")) return static_cast<std::uint16_t>(env::integer("RONDO_MASTER_PORT", 1, 65535));
  const auto port = env::integer("MASTER_PORT", 1, 65535);
  if (port == 65535) {
    throw Error(Code::invalid_usage,
                "MASTER_PORT=65535 leaves Rondo no port behind it: set another, or RONDO_MASTER_PORT");
  }
  return static_cast<std::uint16_t>(port + 1);
}

/// rondo run, torchrun and their like: MASTER_ADDR and a port beside MASTER_PORT, which torch's own store has.
Meeting at_master(const Place& place) {
  Meeting meeting;
  const std::string host = must_be_set("MASTER_ADDR", "the host of rank 0");
  must_be_set("MASTER_PORT", "a port of that host; Rondo uses the next one");
  meeting.port = rondo_port();
  meeting.source =
      env::text("RONDO_MASTER_PORT") ? "MASTER_ADDR and RONDO_MASTER_PORT" : "MASTER_ADDR and MASTER_PORT+1";
  const bool one_host = place.ranks_here == place.ranks || (place.ranks_here == 0 && is_this_host_only(host));
  if (!one_host && is_this_host_only(host)) refuse_loopback(place, "MASTER_ADDR=" + host);
  const std::string job = place.launcher_name + " " + host + " " + std::to_string(meeting.port) + " " + place.job;
  meeting.name = std::to_string(meeting.port);
  if (one_host) {
    meeting.name = own(meeting.name);
    meeting.port = 0;
  } else {
    meeting.name = "rondo-job-" + meeting.name;
    meeting.host = host;
  }
  prove(meeting, job);
  return meeting;
}

/// What NCCL_COMM_ID says; `job` keeps apart what must not meet.
Meeting at_comm_id(const std::string& text, const std::string& job) {
  const HostPort at = comm_id(text);
  Meeting meeting;
  meeting.source = "NCCL_COMM_ID";
  meeting.name = "id-" + std::to_string(at.port);
  if (is_this_host_only(at.host)) {
    meeting.name = own(meeting.name);
  } else {
    meeting.name = "rondo-" + meeting.name;
    meeting.host = at.host;
    meeting.port = at.port;
  }
  prove(meeting, "NCCL_COMM_ID " + text + " " + job);
  return meeting;
}

}  // namespace

bool is_this_host_only(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::optional<Meeting> meeting_of_comm_id() {
  const std::optional<std::string> text = env::text("NCCL_COMM_ID");
  if (!text) return std::nullopt;
  return at_comm_id(*text, "");
}

Meeting find_meeting(const Place& place) {
  if (const std::optional<std::string> text = env::text("NCCL_COMM_ID")) {
    Meeting meeting = at_comm_id(*text, std::to_string(place.ranks));
    if (place.several_hosts && meeting.host.empty()) refuse_loopback(place, "NCCL_COMM_ID=" + *text);
    return meeting;
  }
  Meeting meeting;
  switch (place.launcher) {
    case Launcher::rondo_run:
      if (place.several_hosts) return at_master(place);
      meeting.name = place.job;
      meeting.source = "RONDO_JOB_NAME";
      prove(meeting, place.job);
      return meeting;
    case Launcher::torchrun:
    case Launcher::variables: return at_master(place);
    case Launcher::open_mpi:
    case Launcher::mpich:
    case Launcher::srun: break;
  }
  if (place.several_hosts) {
    throw Error(Code::invalid_usage,
                place.launcher_name +
                    " has ranks on several hosts, and does not say where rank 0 is: set NCCL_COMM_ID="
                    "ADDRESS:PORT for all of them, an address of rank 0's host and a free port");
  }
  if (place.job.empty()) {
    throw Error(Code::invalid_usage, place.launcher_name +
                                         " does not name its job (a wrapper between it and this program may have "
                                         "closed or unset that): set NCCL_COMM_ID=127.0.0.1:PORT for all ranks");
  }
  constexpr const char* kinds[] = {"", "", "", "ompi-", "mpich-", "slurm-"};
  meeting.name = own(kinds[static_cast<int>(place.launcher)] + short_name(place.job));
  meeting.source = "the job's number";
  prove(meeting, place.launcher_name + " " + place.job);
  return meeting;
}

}  // namespace rondo::api
