// Which launcher started this process, and as which rank of how many: a table of the variables that launchers set.
//
// `rondo run`, torchrun and whoever sets RANK and WORLD_SIZE by hand; Open MPI's mpirun; MPICH's mpirun and its kin
// (Hydra); Slurm's srun.  Where several speak of a process, the first of this order counts: a launcher inside another's
// job is the nearer one.
#pragma once

#include <string>
#include <vector>

namespace rondo::api {

enum class Launcher { rondo_run, torchrun, variables, open_mpi, mpich, srun };

struct Place {
  Launcher launcher = Launcher::variables;
  std::string launcher_name;  // for users: "torchrun"
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;
  int ranks_here = 0;  // on this host; 0: not known
  /// Whether the launcher says that other hosts have ranks, too.
  bool several_hosts = false;
  std::string job;                    // what names the job on its host; empty where the launcher names none
  std::vector<std::string> notes;     // about launchers that were passed over
  std::vector<std::string> warnings;  // the same, where that may not be what the user meant
};

/// Reads the environment.  Throws Error: no launcher, a half-set one, values that cannot be.
Place find_place();

}  // namespace rondo::api
