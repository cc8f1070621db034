// The rows of the registry of environment variables, in the order in which the documentation shows them.
#include <iterator>

#include "base/env.h"

namespace rondo::env {
namespace {

constexpr Variable rows[] = {
    // Rondo's own.
    {"RONDO_TIMEOUT", "seconds", "300",
     "How long init and every call may wait for other ranks before they fail and name those that were missing."},
    {"RONDO_TRANSPORT", "one of shm|tcp", "",
     "Use this transport between all ranks; an error where it cannot reach a peer.  The same on all ranks.  Unset: "
     "shm.  So far tcp, too, links ranks of one host only, over 127.0.0.1."},
    {"RONDO_DETERMINISTIC", "bool", "0",
     "1: reduce every element from rank 0 to rank n-1 in order, whatever the size and the transport."},
    {"RONDO_NCCL_VERSION", "integer", "22809",
     "The version that ncclGetVersion reports, as NCCL encodes it: major * 10000 + minor * 100 + patch."},
    {"RONDO_JOB_NAME", "text", "", "The rendezvous of rondoCommInitFromEnv; `rondo run` sets it."},
    {"RONDO_JOB_SECRET", "text", "",
     "What the ranks of a job prove to each other in rondoCommInitFromEnv; `rondo run` sets it.  Unset: any process "
     "of the same user may join."},
    {"RONDO_RESTART_COUNT", "integer", "",
     "Not read: `rondo run --restart` tells its ranks how often it has started the job again."},
    // The launcher's: torchrun's names.
    {"RANK", "integer", "", "This process's rank, for rondoCommInitFromEnv."},
    {"WORLD_SIZE", "integer", "", "The number of ranks, for rondoCommInitFromEnv."},
    {"LOCAL_RANK", "integer", "",
     "This process's rank on its host: checked by rondoCommInitFromEnv, and told by "
     "ncclCommCuDevice."},
    {"LOCAL_WORLD_SIZE", "integer", "0", "The number of ranks on this host, for rondoCommInitFromEnv; 0: not known."},
    {"MASTER_ADDR", "text", "",
     "With MASTER_PORT, the rendezvous of rondoCommInitFromEnv where RONDO_JOB_NAME is not set; on one host."},
    {"MASTER_PORT", "integer", "", "See MASTER_ADDR."},
    // Logging.
    {"NCCL_DEBUG", "one of NONE|VERSION|WARN|INFO|ABORT|TRACE", "",
     "What to log, to stderr.  Unset: only warnings; errors are returned to the caller and not logged."},
    {"NCCL_DEBUG_SUBSYS", "list", "INIT,BOOTSTRAP,ENV",
     "The subsystems that INFO logs, or ^ and those it does not: INIT COLL P2P SHM NET GRAPH TUNING ENV ALLOC CALL "
     "PROXY NVLS BOOTSTRAP REG PROFILE RAS DESTROY ALL."},
    {"NCCL_DEBUG_FILE", "file", "", "Log here instead of to stderr; %h is the host and %p the process."},
    {"NCCL_DEBUG_TIMESTAMP_FORMAT", "strftime", "[%F %T] ", "The time before a line; %3f is milliseconds."},
    {"NCCL_DEBUG_TIMESTAMP_LEVELS", "list", "WARN", "The levels whose lines carry the time, or ^ and the others."},
    // Choice of algorithm.
    {"NCCL_ALGO", "[func:][^]a,b;func:[^]a", "",
     "The algorithms that a collective may use: star, ring, one_shot, two_shot, direct, chain; NCCL's other names "
     "are known and have no plans yet.  There is no fallback to another."},
    {"NCCL_PROTO", "[func:][^]a,b;func:[^]a", "", "Accepted, no effect: Rondo has no protocols to choose from."},
    // Rendezvous and identity.
    {"NCCL_COMM_ID", "host:port", "",
     "ncclGetUniqueId gives every process the same id, made of this text, and rank 0 of ncclCommInitRank serves it; "
     "one communicator at a time, on one host."},
    {"NCCL_HOSTID", "text", "", "Accepted, no effect yet: peers that share memory are found by a probe."},
    {"NCCL_COMM_BLOCKING", "bool", "",
     "0: ncclCommInitRankConfig returns ncclInProgress at once; 1: it waits.  Comes before the caller's config."},
    {"NCCL_CONF_FILE", "file", "~/.nccl.conf",
     "NAME=VALUE lines, # comments; the environment comes first, then this file, then /etc/nccl.conf."},
    // Networks: with the TCP transport.
    {"NCCL_SOCKET_IFNAME", "[^][=]name,name", "", "Accepted, no effect yet: all ranks are on one host."},
    {"NCCL_SOCKET_FAMILY", "one of AF_INET|AF_INET6", "", "Accepted, no effect yet."},
    {"NCCL_SOCKET_RETRY_CNT", "integer", "34", "Accepted, no effect yet."},
    {"NCCL_SOCKET_RETRY_SLEEP_MSEC", "integer", "100", "Accepted, no effect yet."},
    {"NCCL_SOCKET_NTHREADS", "integer", "1",
     "Times NCCL_NSOCKS_PERTHREAD, the sockets that link two ranks over TCP, at most 64; the same on all ranks.  No "
     "threads of their own serve them."},
    {"NCCL_NSOCKS_PERTHREAD", "integer", "1", "See NCCL_SOCKET_NTHREADS."},
    {"NCCL_OOB_NET_ENABLE", "bool", "0", "Accepted, no effect yet."},
    {"NCCL_OOB_NET_IFNAME", "[^][=]name,name", "", "Accepted, no effect yet."},
    {"NCCL_NET", "text", "", "Accepted, no effect yet."},
    {"NCCL_NET_PLUGIN", "file", "", "Accepted, no effect yet."},
    {"NCCL_TUNER_PLUGIN", "file", "", "Accepted, no effect yet."},
    {"NCCL_PROFILER_PLUGIN", "file", "", "Accepted, no effect yet."},
    {"NCCL_CROSS_NIC", "integer", "2", "Accepted, no effect yet."},
    {"NCCL_IB_DISABLE", "bool", "0", "Accepted, no effect yet."},
    {"NCCL_IB_HCA", "[^][=]hca[:port],...", "", "Accepted, no effect yet."},
    {"NCCL_IB_TIMEOUT", "integer", "20", "Accepted, no effect yet."},
    {"NCCL_IB_RETRY_CNT", "integer", "7", "Accepted, no effect yet."},
    {"NCCL_IB_GID_INDEX", "integer", "-1", "Accepted, no effect yet."},
    {"NCCL_IB_ADDR_FAMILY", "one of AF_INET|AF_INET6", "", "Accepted, no effect yet."},
    {"NCCL_IB_ADDR_RANGE", "CIDR", "", "Accepted, no effect yet."},
    {"NCCL_IB_ROCE_VERSION_NUM", "integer", "2", "Accepted, no effect yet."},
    {"NCCL_IB_SL", "integer", "0", "Accepted, no effect yet."},
    {"NCCL_IB_TC", "integer", "0", "Accepted, no effect yet."},
    {"NCCL_IB_QPS_PER_CONNECTION", "integer", "1", "Accepted, no effect yet."},
    {"NCCL_IB_*", "text", "", "Accepted, no effect."},
    {"NCCL_NET_*", "text", "", "Accepted, no effect."},
    // Paths within a host.
    {"NCCL_P2P_DISABLE", "bool", "0", "Accepted, no effect yet."},
    {"NCCL_P2P_LEVEL", "one of LOC|NVL|PIX|PXB|PHB|SYS", "", "Accepted, no effect yet."},
    {"NCCL_NET_GDR_LEVEL", "one of LOC|NVL|PIX|PXB|PHB|SYS", "", "Accepted, no effect yet."},
    {"NCCL_SHM_DISABLE", "bool", "0", "Accepted, no effect yet: shared memory is the only transport."},
    {"NCCL_BUFFSIZE", "integer", "4194304", "Accepted, no effect yet."},
    {"NCCL_NTHREADS", "integer", "", "Accepted, no effect."},
    {"NCCL_MIN_NCHANNELS", "integer", "", "Accepted, no effect yet."},
    {"NCCL_MAX_NCHANNELS", "integer", "", "Accepted, no effect yet."},
    {"NCCL_MIN_CTAS", "integer", "", "Accepted, no effect yet."},
    {"NCCL_MAX_CTAS", "integer", "", "Accepted, no effect yet."},
    {"NCCL_TOPO_FILE", "file", "", "Accepted, no effect yet."},
    {"NCCL_LAUNCH_ORDER_IMPLICIT", "bool", "0", "Accepted, no effect."},
    {"NCCL_LAUNCH_MODE", "text", "", "Accepted, no effect."},
    {"NCCL_CHECK_MODE", "text", "", "Accepted, no effect yet."},
    {"NCCL_CHECKS_DISABLE", "bool", "0", "Accepted, no effect: arguments are always checked."},
    {"NCCL_CHECK_POINTERS", "bool", "0", "Accepted, no effect."},
    {"NCCL_IGNORE_CPU_AFFINITY", "bool", "0", "Accepted, no effect: Rondo pins no thread."},
    {"NCCL_RAS_ADDR", "host:port", "", "Accepted, no effect yet."},
    {"NCCL_RAS_ENABLE", "bool", "1", "Accepted, no effect yet."},
    {"NCCL_MULTI_RANK_GPU_ENABLE", "bool", "0", "Accepted, no effect."},
    // Families that speak of hardware that host memory does not use.
    {"NCCL_NVLS_*", "text", "", "Accepted, no effect."},
    {"NCCL_COLLNET_*", "text", "", "Accepted, no effect."},
    {"NCCL_MNNVL_*", "text", "", "Accepted, no effect."},
    {"NCCL_PXN_*", "text", "", "Accepted, no effect."},
    {"NCCL_CGA_*", "text", "", "Accepted, no effect."},
    {"NCCL_GRAPH_*", "text", "", "Accepted, no effect."},
    {"NCCL_CUMEM_*", "text", "", "Accepted, no effect."},
    {"NCCL_TESTS_*", "text", "", "Not the library's: read by performance programs."},
};

}  // namespace

const std::vector<Variable>& table() {
  // Never destroyed: the library's threads may read variables while the process exits.
  static const auto& table = *new std::vector<Variable>(std::begin(rows), std::end(rows));
  return table;
}

}  // namespace rondo::env
