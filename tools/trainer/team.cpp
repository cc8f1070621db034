// The ranks of a training: see team.h.
#include "tools/trainer/team.h"

#include <array>
#include <cstdint>
#include <cstdlib>

#include "rondo.h"
#include "tools/trainer/data_parallel/replicas.h"

namespace rondo::trainer {
namespace {

void check(ncclResult_t result, ncclComm_t comm) {
  if (result == ncclSuccess) return;
  const std::string text = ncclGetLastError(comm);
  throw Error(text.empty() ? ncclGetErrorString(result) : text);
}

/// Whether a launcher says which rank this is: the variables of docs/launchers.md.
bool launched() {
  constexpr std::array names{"RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_STEP_NUM_TASKS"};
  for (const char* name : names) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

}  // namespace

Team::Team() {
  if (launched()) {
    check(rondoCommInitFromEnv(&comm_), nullptr);
  } else {
    check(ncclCommInitAll(&comm_, 1, nullptr), nullptr);
  }
  check(ncclCommUserRank(comm_, &rank_), comm_);
  check(ncclCommCount(comm_, &ranks_), comm_);
}

Team::Team(ncclComm_t comm) : comm_(comm), owner_(false) {
  check(ncclCommUserRank(comm_, &rank_), comm_);
  check(ncclCommCount(comm_, &ranks_), comm_);
}

Team::~Team() {
  for (const ncclComm_t other : others_) ncclCommAbort(other);
  if (owner_ && comm_ != nullptr) ncclCommAbort(comm_);
}

ncclComm_t Team::another() {
  ncclUniqueId id{};
  if (rank_ == 0) check(ncclGetUniqueId(&id), nullptr);
  check(ncclBroadcast(&id, &id, sizeof id, ncclUint8, 0, comm_, nullptr), comm_);
  ncclComm_t other = nullptr;
  check(ncclCommInitRank(&other, ranks_, id, rank_), nullptr);
  others_.push_back(other);
  return other;
}

void Team::scatter(const void* whole, void* part, std::size_t part_bytes) {
  data_parallel::scatter(comm_, whole, part, part_bytes);
}

void Team::finish() {
  for (; !others_.empty(); others_.pop_back()) check(ncclCommDestroy(others_.back()), nullptr);
  if (!owner_) return;
  const ncclComm_t comm = comm_;
  comm_ = nullptr;
  check(ncclCommDestroy(comm), nullptr);
}

void Team::sum(std::span<double> values) {
  check(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat64, ncclSum, comm_, nullptr), comm_);
}

void Team::broadcast(std::vector<std::byte>& bytes) {
  std::uint64_t count = bytes.size();
  check(ncclBroadcast(&count, &count, 1, ncclUint64, 0, comm_, nullptr), comm_);
  bytes.resize(count);
  if (count > 0) check(ncclBroadcast(bytes.data(), bytes.data(), count, ncclUint8, 0, comm_, nullptr), comm_);
}

void Team::barrier() {
  double nothing = 0;
  sum({&nothing, 1});
}

std::vector<double> Team::gather(std::span<const double> values) {
  std::vector<double> all(values.size() * static_cast<std::size_t>(ranks_));
  check(ncclAllGather(values.data(), all.data(), values.size(), ncclFloat64, comm_, nullptr), comm_);
  return all;
}

}  // namespace rondo::trainer
