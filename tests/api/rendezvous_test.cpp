// Which launcher counts and where ranks meet, from every launcher's variables, whole, half set and contradictory.
#define CATCH_CONFIG_MAIN
#include "api/rendezvous.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "api/launchers.h"
#include "base/env.h"
#include "base/result.h"

namespace {

using namespace rondo;
using api::Launcher;
using api::Meeting;
using api::Place;

using Variables = std::map<std::string, std::string>;

/// The variables of rendezvous, and no others, for the life of a scene.
class Scene {
 public:
  explicit Scene(const Variables& variables) {
    clear();
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Scene() { clear(); }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

 private:
  static void clear() {
    for (const env::Variable& row : env::table()) unsetenv(std::string(row.name).c_str());
  }
};

Variables operator+(Variables left, const Variables& right) {
  for (const auto& [name, value] : right) left[name] = value;
  return left;
}

const Variables by_hand = {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "4000"}};
const Variables by_torchrun = by_hand + Variables{{"LOCAL_RANK", "1"},
                                                  {"LOCAL_WORLD_SIZE", "4"},
                                                  {"TORCHELASTIC_RUN_ID", "job"},
                                                  {"TORCHELASTIC_RESTART_COUNT", "0"}};
const Variables by_rondo_run = by_hand + Variables{{"LOCAL_RANK", "1"},
                                                   {"LOCAL_WORLD_SIZE", "4"},
                                                   {"RONDO_JOB_NAME", "rondo-1-a"},
                                                   {"RONDO_JOB_SECRET", "s"}};
const Variables by_open_mpi = {{"OMPI_COMM_WORLD_RANK", "2"},
                               {"OMPI_COMM_WORLD_SIZE", "3"},
                               {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                               {"PMIX_NAMESPACE", "1419051009"}};
const Variables by_srun = {{"SLURM_PROCID", "1"},         {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_LOCALID", "1"},
                           {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_JOB_ID", "77"},        {"SLURM_STEP_ID", "3"}};
const Variables several_hosts = {{"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "10.0.0.1"}};

Place place_in(const Variables& variables) {
  const Scene scene(variables);
  return api::find_place();
}

Meeting meeting_in(const Variables& variables) {
  const Scene scene(variables);
  return api::find_meeting(api::find_place());
}

std::string trouble_in(const Variables& variables) {
  try {
    (void)meeting_in(variables);
  } catch (const Error& error) {
    CHECK((error.code() == Code::invalid_usage || error.code() == Code::invalid_argument));
    return error.what();
  }
  return "none";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string uid() { return std::to_string(::getuid()); }

}  // namespace

TEST_CASE("each launcher is known by its variables") {
  const struct {
    Variables variables;
    Launcher launcher;
    int rank, ranks, local_rank;
  } rows[] = {{by_rondo_run, Launcher::rondo_run, 1, 4, 1},
              {by_torchrun, Launcher::torchrun, 1, 4, 1},
              {by_hand, Launcher::variables, 1, 4, 0},
              {by_open_mpi, Launcher::open_mpi, 2, 3, 2},
              {by_srun, Launcher::srun, 1, 2, 1}};
  for (const auto& row : rows) {
    const Place place = place_in(row.variables);
    INFO(place.launcher_name);
    CHECK(place.launcher == row.launcher);
    CHECK(place.rank == row.rank);
    CHECK(place.ranks == row.ranks);
    CHECK(place.local_rank == row.local_rank);
    CHECK_FALSE(place.several_hosts);
    CHECK((place.notes.empty() && place.warnings.empty()));
  }
}

TEST_CASE("PMI's variables are MPICH's only with its own, as srun sets them, too") {
  const Variables pmi = {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}};
  CHECK(place_in(by_srun + pmi).launcher == Launcher::srun);
  const Place place = place_in(pmi + Variables{{"MPI_LOCALNRANKS", "1"}, {"MPI_LOCALRANKID", "0"}});
  CHECK(place.launcher == Launcher::mpich);
  CHECK(place.several_hosts);
}

TEST_CASE("the nearer launcher counts, and says so") {
  Place place = place_in(by_torchrun + by_srun);
  CHECK(place.launcher == Launcher::torchrun);
  REQUIRE(place.notes.size() == 1);
  CHECK(place.notes[0] ==
        "torchrun (RANK=1 of WORLD_SIZE=4) counts, and not srun (SLURM_PROCID=1 of SLURM_STEP_NUM_TASKS=2)");
  CHECK(place.warnings.empty());
  place = place_in(by_open_mpi + by_srun);
  CHECK(place.launcher == Launcher::open_mpi);
  CHECK(place.notes.size() == 1);
}

TEST_CASE("RANK and WORLD_SIZE that contradict a launcher are warned of") {
  const Place place = place_in(by_hand + by_open_mpi);
  CHECK(place.launcher == Launcher::variables);
  REQUIRE(place.warnings.size() == 1);
  CHECK(contains(place.warnings[0], "OMPI_COMM_WORLD_RANK=2 of OMPI_COMM_WORLD_SIZE=3"));
  CHECK(contains(place.warnings[0], "unset RANK and WORLD_SIZE"));
  CHECK(place_in(by_hand + by_open_mpi + Variables{{"RANK", "2"}, {"WORLD_SIZE", "3"}}).warnings.empty());
  CHECK(place_in(by_hand + Variables{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}).warnings.empty());
}

TEST_CASE("half a launcher is an error, or passed over with a warning") {
  CHECK(contains(trouble_in({{"RANK", "0"}}), "WORLD_SIZE is not set, but RANK is: set RANK and WORLD_SIZE both"));
  CHECK(contains(trouble_in({{"WORLD_SIZE", "2"}}), "RANK is not set, but WORLD_SIZE is"));
  CHECK(contains(trouble_in({{"OMPI_COMM_WORLD_RANK", "0"}}), "OMPI_COMM_WORLD_SIZE is not set"));
  CHECK(contains(trouble_in({{"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "7"}}), "with srun"));
  CHECK(contains(trouble_in({}), "no launcher has started this process"));
  const Place place = place_in(by_open_mpi + Variables{{"RANK", "0"}});
  CHECK(place.launcher == Launcher::open_mpi);
  REQUIRE(place.warnings.size() == 1);
  CHECK(contains(place.warnings[0], "WORLD_SIZE is not set, but RANK is: Open MPI's mpirun"));
}

TEST_CASE("values that cannot be are named") {
  CHECK(contains(trouble_in(by_hand + Variables{{"RANK", "4"}}), "RANK=4 is outside WORLD_SIZE=4"));
  CHECK(contains(trouble_in(by_hand + Variables{{"RANK", "-1"}}), "RANK=-1"));
  CHECK(contains(trouble_in(by_hand + Variables{{"WORLD_SIZE", "0"}}), "WORLD_SIZE=0"));
  CHECK(contains(trouble_in(by_hand + Variables{{"WORLD_SIZE", "many"}}), "WORLD_SIZE=many"));
  CHECK(contains(trouble_in(by_torchrun + Variables{{"LOCAL_WORLD_SIZE", "5"}}), "LOCAL_WORLD_SIZE=5 is more than"));
  CHECK(contains(trouble_in(by_hand + Variables{{"LOCAL_RANK", "x"}}), "LOCAL_RANK=x"));
  CHECK(contains(trouble_in(by_hand + Variables{{"MASTER_PORT", "65536"}}), "MASTER_PORT=65536"));
  CHECK(contains(trouble_in(by_hand + Variables{{"MASTER_PORT", "65535"}}), "set another, or RONDO_MASTER_PORT"));
  CHECK(contains(trouble_in(by_hand + Variables{{"RONDO_MASTER_PORT", "0"}}), "RONDO_MASTER_PORT=0"));
  CHECK(contains(trouble_in(by_hand + Variables{{"MASTER_ADDR", ""}}), "MASTER_ADDR is not set"));
  CHECK(contains(trouble_in(by_hand + Variables{{"MASTER_PORT", ""}}), "MASTER_PORT is not set"));
}

TEST_CASE("on one host a job has a socket of its own") {
  CHECK(meeting_in(by_rondo_run).name == "rondo-1-a");
  CHECK(meeting_in(by_torchrun).name == "rondo-" + uid() + "-4001");
  CHECK(meeting_in(by_hand + Variables{{"RONDO_MASTER_PORT", "5000"}}).name == "rondo-" + uid() + "-5000");
  CHECK(meeting_in(by_open_mpi).name == "rondo-" + uid() + "-ompi-1419051009");
  CHECK(meeting_in(by_srun).name == "rondo-" + uid() + "-slurm-77.3");
  const std::string longer = meeting_in(by_open_mpi + Variables{{"PMIX_NAMESPACE", std::string(90, 'x') + "@1"}}).name;
  CHECK(longer.size() < 47);
  CHECK(longer.ends_with("x@1"));
  CHECK(contains(trouble_in(by_open_mpi + Variables{{"PMIX_NAMESPACE", ""}}), "set NCCL_COMM_ID=127.0.0.1:PORT"));
  for (const Variables& launcher : {by_rondo_run, by_torchrun, by_hand, by_open_mpi, by_srun}) {
    const Meeting meeting = meeting_in(launcher);
    CHECK(meeting.host.empty());
    CHECK(meeting.authenticated == launcher.contains("RONDO_JOB_SECRET"));
  }
}

TEST_CASE("only ranks of the same job and attempt have the same proof") {
  const std::string secret = meeting_in(by_torchrun).secret;
  CHECK(secret == meeting_in(by_torchrun + Variables{{"RANK", "0"}, {"LOCAL_RANK", "0"}}).secret);
  CHECK(secret != meeting_in(by_torchrun + Variables{{"TORCHELASTIC_RUN_ID", "other"}}).secret);
  CHECK(secret != meeting_in(by_torchrun + Variables{{"TORCHELASTIC_RESTART_COUNT", "1"}}).secret);
  CHECK(secret != meeting_in(by_torchrun + Variables{{"RONDO_JOB_SECRET", "s"}}).secret);
}

TEST_CASE("several hosts meet where rank 0 is reached") {
  for (const Variables& launcher : {by_torchrun, by_hand}) {
    const Meeting meeting = meeting_in(launcher + several_hosts);
    CHECK((meeting.host == "10.0.0.1" && meeting.port == 4001));
    CHECK(meeting.name == "rondo-job-4001");
  }
  CHECK(meeting_in(by_rondo_run + several_hosts + Variables{{"RONDO_MASTER_PORT", "77"}}).port == 77);
  CHECK(meeting_in(by_hand + Variables{{"MASTER_ADDR", "10.0.0.1"}}).host == "10.0.0.1");
}

TEST_CASE("several hosts never meet at loopback") {
  for (const char* host : {"localhost", "127.0.0.1", "127.1.2.3", "::1"}) {
    const std::string said = trouble_in(by_torchrun + several_hosts + Variables{{"MASTER_ADDR", host}});
    CHECK(contains(said, "MASTER_ADDR=" + std::string(host) + " is every host by itself"));
    CHECK(contains(said, "2 of 4 are here"));
  }
  const Variables mpi = by_open_mpi + Variables{{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  CHECK(contains(trouble_in(mpi), "set NCCL_COMM_ID=ADDRESS:PORT"));
  CHECK(contains(trouble_in(by_srun + Variables{{"SLURM_STEP_NUM_NODES", "2"}}), "set NCCL_COMM_ID=ADDRESS:PORT"));
  CHECK(contains(trouble_in(mpi + Variables{{"NCCL_COMM_ID", "127.0.0.1:80"}}), "NCCL_COMM_ID=127.0.0.1:80 is every"));
  CHECK(meeting_in(mpi + Variables{{"NCCL_COMM_ID", "10.0.0.1:80"}}).port == 80);
}

TEST_CASE("NCCL_COMM_ID has NCCL's three forms") {
  for (const auto& [text, host] :
       Variables{{"10.0.0.1:80", "10.0.0.1"}, {"[fd00::1]:80", "fd00::1"}, {"n1:80", "n1"}}) {
    const Meeting meeting = meeting_in(by_srun + Variables{{"NCCL_COMM_ID", text}});
    CHECK((meeting.host == host && meeting.port == 80));
  }
  CHECK(meeting_in(by_srun + Variables{{"NCCL_COMM_ID", "[::1]:80"}}).host.empty());
  for (const char* wrong : {"10.0.0.1", ":80", "n1:", "n1:0", "n1:65536", "n1:8x", "fd00::1:80", "[]:80"}) {
    CHECK(contains(trouble_in(by_srun + Variables{{"NCCL_COMM_ID", wrong}}), "NCCL_COMM_ID=" + std::string(wrong)));
  }
}

TEST_CASE("a key file authenticates what carries no secret") {
  char path[] = "/tmp/rondo-key-XXXXXX";
  const int fd = ::mkstemp(path);
  REQUIRE(fd >= 0);
  ::close(fd);
  const auto key = [&](const std::string& text) { std::ofstream(path) << text; };
  const Variables with_key = by_torchrun + Variables{{"RONDO_PSK_FILE", path}};
  key("0123456789abcdef\n");
  const Meeting meeting = meeting_in(with_key);
  CHECK(meeting.authenticated);
  CHECK(meeting_in(with_key + Variables{{"TORCHELASTIC_RUN_ID", "other"}}).secret != meeting.secret);
  CHECK(meeting_in(by_rondo_run + Variables{{"RONDO_PSK_FILE", path}}).secret == meeting_in(by_rondo_run).secret);
  key("0123456789abcdeg");
  CHECK(meeting_in(with_key).secret != meeting.secret);
  key("short");
  CHECK(contains(trouble_in(with_key), "has 5 characters; a key has at least 16"));
  key(std::string(5000, 'x'));
  CHECK(contains(trouble_in(with_key), "it has more than 4096 bytes"));
  key("0123456789abcdef");
  ::chmod(path, 0644);
  CHECK(contains(trouble_in(with_key), "is open to every user"));
  ::unlink(path);
  CHECK(contains(trouble_in(with_key), "cannot be read: No such file"));
  CHECK(contains(trouble_in(by_torchrun + Variables{{"RONDO_PSK_FILE", "/tmp"}}), "RONDO_PSK_FILE=/tmp is not a file"));
  REQUIRE(::mkfifo(path, 0600) == 0);
  CHECK(contains(trouble_in(with_key), "is not a file"));
  ::unlink(path);
}
