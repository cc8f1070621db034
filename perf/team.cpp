// See team.h.  One process: the ranks meet by an id of their own.  Several, where a launcher says so:
// rondoCommInitFromEnv joins the processes, and where a process has several ranks, rank 0's id travels through that.
#include "team.h"

#include <errno.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "runtime/rondo.h"

namespace rondo::perf {

void fail(const std::string& sentence) {
  std::fflush(stdout);
  const char* rank = std::getenv("RANK");
  std::fprintf(stderr, "%s: %s%s%s%s\n", program_invocation_short_name, rank ? "rank " : "", rank ? rank : "",
               rank ? ": " : "", sentence.c_str());
  _exit(1);
}

void check(ncclResult_t result, std::string_view doing) {
  if (result == ncclSuccess) return;
  const std::string last = ncclGetLastError(nullptr);
  fail(std::string(doing) + " failed: " + ncclGetErrorString(result) + (last.empty() ? "" : ": " + last));
}

void Team::each(std::string_view doing, const std::function<ncclResult_t(const Member&, std::size_t)>& call) const {
  if (members_.size() > 1) check(ncclGroupStart(), "ncclGroupStart");
  for (std::size_t index = 0; index < members_.size(); ++index) check(call(members_[index], index), doing);
  if (members_.size() > 1) check(ncclGroupEnd(), doing);
}

void Team::barrier() const {
  std::vector<float> values(members_.size(), 1);
  each("a barrier", [&](const Member& member, std::size_t index) {
    return ncclAllReduce(&values[index], &values[index], 1, ncclFloat32, ncclSum, member.communicator, nullptr);
  });
}

std::vector<std::byte> Team::exchange(const std::byte* mine, std::size_t bytes) const {
  const std::size_t all = bytes * static_cast<std::size_t>(ranks_);
  std::vector<std::byte> received(all * members_.size());
  each("an exchange of results", [&](const Member& member, std::size_t index) {
    return ncclAllGather(mine + index * bytes, received.data() + index * all, bytes, ncclUint8, member.communicator,
                         nullptr);
  });
  received.resize(all);
  return received;
}

namespace {

// Whether rondo run, torchrun, mpirun or srun has started several processes; rondoCommInitFromEnv knows the rest.
bool launched() {
  for (const char* name : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char* size = std::getenv(name);
    if (size && std::string_view(size) != "1") return true;
  }
  return false;
}

// Joins ranks [first, first + members.size()).
void join(std::span<Member> members, const ncclUniqueId& id, int first, int ranks) {
  check(ncclGroupStart(), "ncclGroupStart");
  for (std::size_t i = 0; i < members.size(); ++i) {
    members[i].rank = first + static_cast<int>(i);
    check(ncclCommInitRank(&members[i].communicator, ranks, id, members[i].rank), "ncclCommInitRank");
  }
  check(ncclGroupEnd(), "joining the ranks");
}

void run_threads(int threads, const std::function<void(int)>& body) {
  const auto guarded = [&body](int thread) {
    try {
      body(thread);
    } catch (const std::exception& error) {
      fail(error.what());
    }
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(guarded, thread);
  guarded(0);
  for (std::thread& other : others) other.join();
}

}  // namespace

void run_team(const Options& options, const std::function<void(const Team&)>& program) {
  if (options.timeout_s > 0) setenv("RONDO_TIMEOUT", std::to_string(options.timeout_s).c_str(), 1);
  int world_size = 1;
  Member world;
  if (launched()) {
    check(rondoCommInitFromEnv(&world.communicator), "rondoCommInitFromEnv");
    check(ncclCommUserRank(world.communicator, &world.rank), "ncclCommUserRank");
    check(ncclCommCount(world.communicator, &world_size), "ncclCommCount");
  }
  const int mine = options.threads * options.ranks_per_thread;
  const int ranks = world_size * mine;
  std::vector<Member> members(static_cast<std::size_t>(mine));
  ncclUniqueId id{};
  if (ranks == world_size && world.communicator) {
    members[0] = world;
  } else {
    if (world.rank == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    if (world.communicator)
      check(ncclBroadcast(&id, &id, sizeof id, ncclUint8, 0, world.communicator, nullptr), "passing on the id");
    if (!options.parallel_init) join(members, id, world.rank * mine, ranks);
  }
  const bool init_in_thread = members[0].communicator == nullptr;
  run_threads(options.threads, [&](int thread) {
    const auto size = static_cast<std::size_t>(options.ranks_per_thread);
    const std::span<Member> own(members.data() + static_cast<std::size_t>(thread) * size, size);
    if (init_in_thread) join(own, id, world.rank * mine + thread * options.ranks_per_thread, ranks);
    program(Team({own.begin(), own.end()}, ranks));
  });
  check(ncclGroupStart(), "ncclGroupStart");
  for (const Member& member : members) check(ncclCommDestroy(member.communicator), "ncclCommDestroy");
  check(ncclGroupEnd(), "ncclCommDestroy");
  if (world.communicator && world.communicator != members[0].communicator)
    check(ncclCommDestroy(world.communicator), "ncclCommDestroy");
}

}  // namespace rondo::perf
