// The table of launchers: see launchers.h.
#include "api/launchers.h"

#include <sys/socket.h>

#include <optional>

#include "base/env.h"
#include "base/limits.h"
#include "base/result.h"

namespace rondo::api {
namespace {

struct Row {
  Launcher launcher;
  const char* name;
  const char* rank;
  const char* ranks;
  const char* local_rank;
  const char* ranks_here;  // nullptr: see hosts
  const char* hosts;
  const char* marker;  // set by this launcher alone; nullptr: the rank says it
  const char* advice;  // where the number of ranks is missing
};

constexpr const char* by_hand =
    "set RANK and WORLD_SIZE both, or start the program with `rondo run -n RANKS -- PROGRAM`";

constexpr Row rows[] = {
    {Launcher::rondo_run, "rondo run", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", nullptr,
     "RONDO_JOB_NAME", by_hand},
    {Launcher::torchrun, "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", nullptr,
     "TORCHELASTIC_RUN_ID", by_hand},
    {Launcher::variables, "RANK and WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", nullptr,
     nullptr, by_hand},
    {Launcher::open_mpi, "Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr, nullptr,
     "mpirun sets both: pass its environment on unchanged"},
    {Launcher::mpich, "MPICH's mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", nullptr,
     "MPI_LOCALNRANKS",  // PMI's own names are srun's, too
     "mpirun sets both: pass its environment on unchanged"},
    {Launcher::srun, "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr, "SLURM_STEP_NUM_NODES",
     nullptr, "a batch script itself is one process: start the ranks in it with srun"},
};

int number(const char* name, int low, int high) { return static_cast<int>(env::integer(name, low, high)); }

bool is_set(const char* name) { return env::text(name).has_value(); }

/// The process at the other end of PMI_FD: the one that MPICH's launcher has on this host for the job.  It is found
/// behind any wrapper script, and no message is sent.
std::string hydra_job() {
  if (!is_set("PMI_FD")) return "";
  ucred peer = {};
  socklen_t bytes = sizeof peer;
  const int fd = number("PMI_FD", 0, 1 << 20);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 || peer.pid <= 0) return "";
  return std::to_string(peer.pid);
}

std::string job_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::rondo_run: return env::text("RONDO_JOB_NAME").value_or("");
    case Launcher::torchrun:  // restarted ranks must not meet those they replace
      return env::text("TORCHELASTIC_RUN_ID").value_or("") + "/" +
             env::text("TORCHELASTIC_RESTART_COUNT").value_or("0");
    case Launcher::open_mpi: {
      const auto job = env::text("PMIX_NAMESPACE");
      return job ? *job : env::text("OMPI_MCA_ess_base_jobid").value_or("");
    }
    case Launcher::mpich: return hydra_job();
    case Launcher::srun:
      if (!is_set("SLURM_JOB_ID") || !is_set("SLURM_STEP_ID")) return "";
      return *env::text("SLURM_JOB_ID") + "." + *env::text("SLURM_STEP_ID");
    case Launcher::variables: break;
  }
  return "";
}

/// "srun (SLURM_PROCID=1 of SLURM_STEP_NUM_TASKS=2)"
std::string in_words(const Row& row) {
  return std::string(row.name) + " (" + row.rank + "=" + *env::text(row.rank) + " of " + row.ranks + "=" +
         *env::text(row.ranks) + ")";
}

Place read(const Row& row) {
  Place place;
  place.launcher = row.launcher;
  place.launcher_name = row.name;
  place.ranks = number(row.ranks, 1, limits::ranks_max);
  place.rank = number(row.rank, 0, limits::ranks_max - 1);
  if (place.rank >= place.ranks) {
    throw Error(Code::invalid_argument, std::string(row.rank) + "=" + std::to_string(place.rank) + " is outside " +
                                            row.ranks + "=" + std::to_string(place.ranks) + ": ranks count from 0 to " +
                                            std::to_string(place.ranks - 1));
  }
  if (is_set(row.local_rank)) place.local_rank = number(row.local_rank, 0, limits::ranks_max - 1);
  if (row.ranks_here != nullptr && is_set(row.ranks_here)) {
    place.ranks_here = number(row.ranks_here, 1, limits::ranks_max);
    if (place.ranks_here > place.ranks) {
      throw Error(Code::invalid_argument, std::string(row.ranks_here) + "=" + std::to_string(place.ranks_here) +
                                              " is more than " + row.ranks + "=" + std::to_string(place.ranks));
    }
    place.several_hosts = place.ranks_here < place.ranks;
  }
  if (row.hosts != nullptr && is_set(row.hosts)) place.several_hosts = number(row.hosts, 1, limits::ranks_max) > 1;
  place.job = job_of(row.launcher);
  return place;
}

/// What the chosen row should say of another one that is as complete.
void compare(Place& place, const Row& chosen, const Row& other) {
  const std::string sentence = in_words(chosen) + " counts, and not " + in_words(other);
  const std::string theirs = *env::text(other.rank) + "/" + *env::text(other.ranks);
  const bool same = theirs == *env::text(chosen.rank) + "/" + *env::text(chosen.ranks);
  const bool alone = *env::text(other.ranks) == "1";  // it started something that starts ranks
  if (chosen.launcher == Launcher::variables && !same && !alone) {
    place.warnings.push_back(sentence + "; unset RANK and WORLD_SIZE if they are left from something else");
  } else {
    place.notes.push_back(sentence);
  }
}

}  // namespace

Place find_place() {
  const Row* chosen = nullptr;
  const Row* half = nullptr;
  Place place;
  for (const Row& row : rows) {
    if (row.marker != nullptr && !is_set(row.marker)) continue;
    const bool rank = is_set(row.rank), ranks = is_set(row.ranks);
    if (rank != ranks && half == nullptr) half = &row;
    if (!rank || !ranks) continue;
    if (chosen == nullptr) {
      chosen = &row;
      place = read(row);
    } else if (std::string_view(row.rank) != chosen->rank) {
      compare(place, *chosen, row);
    }
  }
  const auto halfness = [&] {
    const bool rank = is_set(half->rank);
    return std::string(rank ? half->ranks : half->rank) + " is not set, but " + (rank ? half->rank : half->ranks) +
           " is";
  };
  if (chosen == nullptr && half != nullptr) throw Error(Code::invalid_usage, halfness() + ": " + half->advice);
  if (chosen == nullptr) {
    throw Error(Code::invalid_usage,
                "no launcher has started this process (RANK is not set, nor what mpirun and srun set): start it with "
                "`rondo run -n RANKS -- PROGRAM`, torchrun, mpirun or srun, or set RANK, WORLD_SIZE, MASTER_ADDR and "
                "MASTER_PORT");
  }
  if (half != nullptr && half < chosen) place.warnings.push_back(halfness() + ": " + in_words(*chosen) + " counts");
  return place;
}

}  // namespace rondo::api
