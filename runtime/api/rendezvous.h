// Where the ranks of a job meet, and what they prove to each other: from the environment alone, alike on every rank.
//
// NCCL_COMM_ID, where it is set, says where; otherwise the launcher does: by the job's name on one host, by MASTER_ADDR
// and RONDO_MASTER_PORT, where rank 0 listens, on several.  The proof is RONDO_JOB_SECRET or the key in RONDO_PSK_FILE;
// without either it is what names the job, which others may know.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/launchers.h"

namespace rondo::api {

struct Meeting {
  std::string name;    // of rank 0's abstract socket
  std::string secret;  // what both sides prove
  bool authenticated = false;
  std::string host;        // of rank 0, for ranks of other hosts; empty: all ranks are on one host
  std::uint16_t port = 0;  // where it listens there
  std::string source;      // the variables that say so, for the log: "MASTER_ADDR and RONDO_MASTER_PORT"
};

/// Throws Error: what is missing, what contradicts itself, a job of several hosts without an address.
Meeting find_meeting(const Place& place);

/// NCCL_COMM_ID for ncclGetUniqueId: a meeting of any processes that have the same.
std::optional<Meeting> meeting_of_comm_id();

/// Whether the text is this host by any name: 127.0.0.0/8, ::1 or localhost.
bool is_this_host_only(const std::string& host);

}  // namespace rondo::api
