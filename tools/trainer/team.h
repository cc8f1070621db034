// The ranks of a training: those that a launcher started, or this process alone.  Small sums and broadcasts over them,
// which block.  What fails throws Error, with the library's sentence.  Knows no torch.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "nccl.h"

namespace rondo::trainer {

/// Its text is a sentence for the user.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Thrown by every rank: one of them need tell it.
struct CommonError : Error {
  using Error::Error;
};

class Team {
 public:
  /// Joins the other ranks if the environment names a rank (docs/launchers.md); blocks until all are there.
  Team();
  /// Ranks that others joined, who also end the communicator.
  explicit Team(ncclComm_t comm);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  ncclComm_t comm() const { return comm_; }

  /// The sum over ranks, in place, the same bits on every rank.
  void sum(std::span<double> values);
  /// The bytes of rank 0 (others' are replaced).
  void broadcast(std::vector<std::byte>& bytes);
  /// A further communicator of the same ranks, which ends with the team.
  ncclComm_t another();
  /// part = this rank's of the equal parts of rank 0's `whole`.
  void scatter(const void* whole, void* part, std::size_t part_bytes);
  /// Returns when all ranks have called.
  void barrier();
  /// Every rank's values one after another; all give equally many.
  std::vector<double> gather(std::span<const double> values);

  /// Ends the communicator in order: every rank has to.  Without it, other ranks see this one leave.
  void finish();

 private:
  ncclComm_t comm_ = nullptr;
  bool owner_ = true;
  std::vector<ncclComm_t> others_;
  int rank_ = 0;
  int ranks_ = 1;
};

}  // namespace rondo::trainer
