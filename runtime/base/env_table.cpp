// The rows of the registry of environment variables, in the order in which the documentation shows them.
#include <iterator>

#include "base/env.h"

namespace rondo::env {
namespace {

constexpr Variable rows[] = {
    // Rondo's own.
    {"RONDO_TIMEOUT", "seconds", "300",
     "How long init and every call may wait for other ranks before they fail and name those that were missing."},
    {"RONDO_HOST_TIMEOUT", "seconds", "20",
     "After so long without a sign of life from another host's kernel its ranks are dead (2 to 100000).  Read once a "
     "process."},
    {"RONDO_PORT_RANGE", "FIRST-LAST", "",
     "The TCP ports that a process may listen on: one for each process, the first that is free.  Unset: any."},
    {"RONDO_TRANSPORT", "one of shm|tcp", "",
     "Use this transport between all ranks; an error where it cannot reach a peer.  The same on all ranks.  Unset: "
     "shm between two ranks that share memory, else tcp."},
    {"RONDO_TCP_CONGESTION", "text", "",
     "Congestion control of data sockets over TCP, one of net.ipv4.tcp_allowed_congestion_control.  Unset: the "
     "system's, but reno in place of bbr and cubic where a round trip takes less than 1 ms."},
    {"RONDO_TCP_ZEROCOPY", "one of off|auto|always", "off",
     "Whether the kernel sends messages of 32 KiB and more from where they are (MSG_ZEROCOPY).  auto: until it says of "
     "a socket that it has copied all the same, as it does within a host.  Without NCCL_SOCKET_NTHREADS's helpers."},
    {"RONDO_DETERMINISTIC", "bool", "0",
     "1: reduce every element from rank 0 to rank n-1 in order, whatever the size and the transport."},
    {"RONDO_GROUP_BYTES", "integer", "8192",
     "All-reduces of one type and operator that follow each other in a group travel as one, up to so many bytes "
     "together, where one hop serves them.  0: never; then ranks need not make the same groups.  The same on all "
     "ranks."},
    {"RONDO_TUNE_FILE", "file", "",
     "A table that `rondo tune` wrote: it chooses algorithms where it has rows for the communicator's ranks and "
     "hosts.  The same on all ranks."},
    {"RONDO_LANE_BYTES", "integer", "1048576",
     "Collectives of so many bytes or more use all lanes of NCCL_MIN_NCHANNELS.  The same on all ranks."},
    {"RONDO_NTHREADS", "integer", "0",
     "Threads that walk the lanes of such a call (1 to 16): the calling one, and helpers of each communicator, from "
     "the first such call on.  0: one a lane, as far as its host has CPUs for those of all its ranks."},
    {"RONDO_NUMA", "one of off|auto", "auto",
     "auto: on a host with several memory nodes, memory of ncclMemAlloc is of the node of the processor that its "
     "caller runs on, and what a rank receives over shared memory lies on the node on which it joined.  Threads with "
     "a memory policy of their own (numactl) keep it.  off: all is left to the kernel."},
    {"RONDO_NCCL_VERSION", "integer", "22809",
     "The version that ncclGetVersion reports, as NCCL encodes it: major * 10000 + minor * 100 + patch."},
    // How rondoCommInitFromEnv finds the ranks of its job: docs/launchers.md.
    {"RONDO_JOB_NAME", "text", "", "Names a job of rondoCommInitFromEnv; `rondo run` sets it."},
    {"RONDO_JOB_SECRET", "text", "",
     "What the ranks of a job prove to each other in rondoCommInitFromEnv, whatever the launcher; `rondo run` sets "
     "it."},
    {"RONDO_PSK_FILE", "file", "",
     "The same from a file: a key of at least 16 characters, the same on every host, not open to other users."},
    {"RONDO_MASTER_PORT", "integer", "MASTER_PORT+1",
     "The port of MASTER_ADDR where rank 0 listens; MASTER_PORT itself is the launcher's."},
    {"RONDO_RESTART_COUNT", "integer", "",
     "Not read: `rondo run --restart` tells its ranks how often it has started the job again."},
    // The launchers'.
    {"RANK", "integer", "", "This process's rank: of rondo run, torchrun, or set by hand."},
    {"WORLD_SIZE", "integer", "", "The number of ranks."},
    {"LOCAL_RANK", "integer", "", "This process's rank on its host; told by ncclCommCuDevice."},
    {"LOCAL_WORLD_SIZE", "integer", "", "The number of ranks on this host."},
    {"MASTER_ADDR", "text", "", "The host of rank 0; a name or an address that the other hosts reach."},
    {"MASTER_PORT", "integer", "", "A port of that host, where torchrun has its own store: see RONDO_MASTER_PORT."},
    {"TORCHELASTIC_RUN_ID", "text", "", "torchrun's name of the job: only ranks of the same meet."},
    {"TORCHELASTIC_RESTART_COUNT", "integer", "0", "How often torchrun has started the job again."},
    {"OMPI_COMM_WORLD_RANK", "integer", "", "This process's rank, of Open MPI's mpirun."},
    {"OMPI_COMM_WORLD_SIZE", "integer", "", "The number of ranks."},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "integer", "", "This process's rank on its host."},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "integer", "", "The number of ranks on this host."},
    {"PMIX_NAMESPACE", "text", "", "Open MPI's name of the job."},
    {"OMPI_MCA_ess_base_jobid", "text", "", "The same, where PMIX_NAMESPACE is not set."},
    {"PMI_RANK", "integer", "", "This process's rank, of MPICH's mpirun, where MPI_LOCALNRANKS is set."},
    {"PMI_SIZE", "integer", "", "The number of ranks."},
    {"PMI_FD", "integer", "", "The socket to MPICH's launcher: the process at its other end names the job."},
    {"MPI_LOCALRANKID", "integer", "", "This process's rank on its host."},
    {"MPI_LOCALNRANKS", "integer", "", "The number of ranks on this host."},
    {"SLURM_PROCID", "integer", "", "This process's rank, of Slurm's srun."},
    {"SLURM_STEP_NUM_TASKS", "integer", "", "The number of ranks."},
    {"SLURM_LOCALID", "integer", "", "This process's rank on its host."},
    {"SLURM_STEP_NUM_NODES", "integer", "", "The number of hosts."},
    {"SLURM_JOB_ID", "text", "", "With SLURM_STEP_ID, Slurm's name of the job."},
    {"SLURM_STEP_ID", "text", "", "See SLURM_JOB_ID."},
    // Logging.
    {"NCCL_DEBUG", "one of NONE|VERSION|WARN|INFO|ABORT|TRACE", "",
     "What to log, to stderr.  Unset: only warnings; errors are returned to the caller and not logged."},
    {"NCCL_DEBUG_SUBSYS", "list", "INIT,BOOTSTRAP,ENV",
     "The subsystems that INFO logs, or ^ and those it does not: INIT COLL P2P SHM NET GRAPH TUNING ENV ALLOC CALL "
     "PROXY NVLS BOOTSTRAP REG PROFILE RAS DESTROY ALL."},
    {"NCCL_DEBUG_FILE", "file", "",
     "Log here instead of to stderr; %h is the host and %p the process; folders that are missing are made."},
    {"NCCL_DEBUG_TIMESTAMP_FORMAT", "strftime", "[%F %T] ", "The time before a line; %3f is milliseconds."},
    {"NCCL_DEBUG_TIMESTAMP_LEVELS", "list", "WARN", "The levels whose lines carry the time, or ^ and the others."},
    // Choice of algorithm.
    {"NCCL_ALGO", "[func:][^]a,b;func:[^]a", "",
     "The algorithms that a collective may use: NCCL's ring, tree and pat (its other names are known and have no "
     "plans), and star, one_shot, two_shot, one_shot_pull, two_shot_pull, recursive_doubling, halving_doubling, "
     "hierarchical, chain, binomial, direct, bruck.  `rondo plan` lists those of each collective.  A collective that "
     "has one of a list's uses no other; of a list without a function those that have none keep their own."},
    {"NCCL_PROTO", "[func:][^]a,b;func:[^]a", "", "Accepted, no effect: Rondo has no protocols to choose from."},
    // Rendezvous and identity.
    {"NCCL_COMM_ID", "host:port", "",
     "ncclGetUniqueId gives every process the same id, made of this text, and rank 0 of ncclCommInitRank serves it; "
     "one communicator at a time.  rondoCommInitFromEnv meets there, whatever the launcher."},
    {"NCCL_HOSTID", "text", "",
     "Ranks that set it alike are on one host, others not; unset: one host is one kernel and one network namespace.  "
     "Ranks of different hosts are linked over TCP, also where they share memory."},
    {"NCCL_COMM_BLOCKING", "bool", "",
     "0: ncclCommInitRankConfig returns ncclInProgress at once; 1: it waits.  Comes before the caller's config."},
    {"NCCL_CONF_FILE", "file", "~/.nccl.conf",
     "NAME=VALUE lines, # comments; the environment comes first, then this file, then /etc/nccl.conf."},
    // Networks: with the TCP transport.
    {"NCCL_SOCKET_IFNAME", "[^][=]name,name", "",
     "The interfaces at which other hosts reach this one: those that begin with a name; after = those of that name, "
     "after ^ all others.  Unset: ib*, else those in the network of NCCL_COMM_ID's address, else all but those for "
     "containers (docker, virbr, veth, br-, ...) and loopback, else those for containers, else loopback."},
    {"NCCL_SOCKET_FAMILY", "one of AF_INET|AF_INET6", "", "Listen at, and tell, addresses of this family only."},
    {"NCCL_SOCKET_RETRY_CNT", "integer", "34", "Accepted, no effect yet."},
    {"NCCL_SOCKET_RETRY_SLEEP_MSEC", "integer", "100", "Accepted, no effect yet."},
    {"NCCL_SOCKET_NTHREADS", "integer", "1",
     "Threads that move the bytes of messages from 32 KiB on over TCP (1 to 16): the calling one, and helpers of each "
     "communicator, from its first link on.  Times NCCL_NSOCKS_PERTHREAD, the sockets that link two ranks, at most 64: "
     "their number must be the same on all ranks."},
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
    {"NCCL_SHM_DISABLE", "bool", "0", "1: TCP between all ranks, as by RONDO_TRANSPORT=tcp.  The same on all ranks."},
    {"NCCL_BUFFSIZE", "integer", "4194304", "Accepted, no effect yet."},
    {"NCCL_NTHREADS", "integer", "", "Accepted, no effect."},
    {"NCCL_MIN_NCHANNELS", "integer", "1",
     "Lanes over which a large call is striped (RONDO_LANE_BYTES), as NCCL's channels; more than 16 count as 16.  Each "
     "has links of its own: 1 MiB a pair that shares memory, sockets over TCP.  The same on all ranks."},
    {"NCCL_MAX_NCHANNELS", "integer", "16", "At the most so many, whatever NCCL_MIN_NCHANNELS asks for."},
    {"NCCL_MIN_CTAS", "integer", "1", "As NCCL_MIN_NCHANNELS; the larger of the two counts."},
    {"NCCL_MAX_CTAS", "integer", "16", "As NCCL_MAX_NCHANNELS; the smaller of the two counts."},
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
