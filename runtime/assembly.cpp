// The only file that names concrete transports and kernels: it puts a communicator together.
#include <algorithm>
#include <set>
#include <utility>

#include "base/env.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/nodes.h"
#include "communicator/choice.h"
#include "communicator/make.h"
#include "kernels/host_reducer.h"
#include "memory.h"
#include "transports/regions.h"
#include "transports/shm.h"
#include "transports/tcp.h"

namespace rondo {
namespace {

/// As NCCL counts: sockets a thread times threads.  The calling thread is one of them.
limits::TcpSockets tcp_sockets() {
  const std::int64_t threads = env::integer("NCCL_SOCKET_NTHREADS", 1, limits::socket_threads_max);
  const std::int64_t sockets = threads * env::integer("NCCL_NSOCKS_PERTHREAD", 1, limits::sockets_per_link_max);
  if (sockets > limits::sockets_per_link_max) {
    throw Error(Code::invalid_usage, "NCCL_NSOCKS_PERTHREAD times NCCL_SOCKET_NTHREADS is " + std::to_string(sockets) +
                                         ", and at most " + std::to_string(limits::sockets_per_link_max) +
                                         " sockets link two ranks");
  }
  return {static_cast<int>(sockets), static_cast<int>(threads)};
}

LinkPolicy link_policy() {
  LinkPolicy policy{env::choice("RONDO_TRANSPORT", {"shm", "tcp"})};
  if (env::integer("NCCL_SHM_DISABLE", 0, 1) != 0) {
    if (policy.only == "shm") throw Error(Code::invalid_usage, "RONDO_TRANSPORT=shm, but NCCL_SHM_DISABLE=1");
    policy.only = "tcp";
  }
  return policy;
}

tcp::ZeroCopyUse zero_copy_use() {
  const std::string word = env::choice("RONDO_TCP_ZEROCOPY", {"off", "auto", "always"});
  if (word == "auto") return tcp::ZeroCopyUse::trial;
  return word == "always" ? tcp::ZeroCopyUse::always : tcp::ZeroCopyUse::off;
}

/// Ranks of one host share memory and those of different hosts are linked by TCP, unless all are told what links them.
Reach reach_of(const LinkPolicy& policy, const control::Membership& membership, int sockets) {
  std::set<std::uint64_t> hosts;
  for (const control::Member& member : membership.members) hosts.insert(member.host_key);
  const bool all_tcp = policy.only == "tcp" || (policy.only.empty() && hosts.size() == membership.members.size());
  const bool some_tcp = policy.only == "tcp" || (policy.only.empty() && hosts.size() > 1);
  if (!some_tcp) return Reach::near;
  return all_tcp && sockets == 1 ? Reach::one_socket : Reach::far;
}

/// The memory node of the calling thread, told where there are several.
int own_node(int rank) {
  const int node = nodes::of_this_thread();
  if (!nodes::machine().several() || !log::enabled(log::Subsystem::init)) return node;
  std::string text = "rank " + std::to_string(rank) + ": memory nodes " + nodes::machine().names();
  text += node == nodes::none ? ", placing is left to the kernel" : ", on node ";
  if (node != nodes::none) text += std::to_string(node);
  log::info(log::Subsystem::init, text);
  return node;
}

}  // namespace

std::unique_ptr<Communicator> Communicator::create(const control::UniqueId& id, int rank, int ranks,
                                                   const Options& options) {
  control::check_not_forked();
  LinkPolicy policy = link_policy();  // before the other ranks are met: what is wrong here is no matter of theirs
  const LanePolicy lanes = LanePolicy::from_environment();
  policy.lanes = lanes.lanes;
  limits::TcpSockets sockets = tcp_sockets();
  sockets.lanes = std::max(lanes.lanes, limits::plan_lanes_max);
  const std::string congestion = env::text("RONDO_TCP_CONGESTION").value_or("");
  const tcp::ZeroCopyUse zero_copy = zero_copy_use();
  Tuning tuning = Tuning::from_environment();
  const int node = own_node(rank);
  const auto deadline = control::Clock::now() + std::chrono::seconds(env::integer("RONDO_TIMEOUT", 1, 1'000'000));
  std::string settings = Chooser::settings(tuning);
  if (lanes.lanes > 1) settings.append(settings.empty() ? "" : " ").append(lanes.settings());
  const control::Membership membership = control::join(id, rank, ranks, deadline, settings);
  policy.reach = reach_of(policy, membership, sockets.per_link);
  Parts parts{{}, std::move(policy), lanes, std::move(tuning), host_reducer()};
  parts.transports.push_back(make_shm_transport(control::doorbell(), lanes.lanes, node, host_of(membership).crowded()));
  parts.transports.push_back(make_tcp_transport(control::doorbell(), sockets, congestion, zero_copy));
  return make_communicator(membership, std::move(parts), options, deadline);
}

void* memory_alloc(std::size_t bytes) { return Regions::instance().allocate(bytes); }
bool memory_free(void* memory) { return Regions::instance().release(memory); }
bool memory_is_mappable(const void* memory, std::size_t bytes) {
  Regions::Found found;
  return Regions::instance().find(memory, bytes, found);
}

}  // namespace rondo
