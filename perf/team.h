// The ranks of a measurement: processes times threads times ranks a thread, and how they talk about it.
//
// Every thread runs the same program over its own ranks; what they tell each other goes through the library measured.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "options.h"
#include "runtime/nccl.h"

namespace rondo::perf {

/// Ends the process with status 1 after a sentence on stderr.  For failures of the library and the machine: other
/// threads may be within calls that nothing else would end.
[[noreturn]] void fail(const std::string& sentence);
/// Fails with the library's words unless `result` is success.
void check(ncclResult_t result, std::string_view doing);

struct Member {
  int rank = 0;
  ncclComm_t communicator = nullptr;
};

/// The ranks of one thread.
class Team {
 public:
  Team(std::vector<Member> members, int ranks) : members_(std::move(members)), ranks_(ranks) {}
  std::span<const Member> members() const noexcept { return members_; }
  int ranks() const noexcept { return ranks_; }
  /// Whether this thread has rank 0, which speaks for all.
  bool speaks() const noexcept { return members_.front().rank == 0; }

  /// One call for each member, as a group where there are several.
  void each(std::string_view doing, const std::function<ncclResult_t(const Member&, std::size_t index)>& call) const;
  /// Returns when all ranks have called it.
  void barrier() const;
  /// Gives what each rank gave, by rank: `mine` holds `bytes` bytes for each member.
  std::vector<std::byte> exchange(const std::byte* mine, std::size_t bytes) const;
  template <typename T>
  std::vector<T> exchange(const std::vector<T>& mine) const {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::vector<std::byte> all = exchange(reinterpret_cast<const std::byte*>(mine.data()), sizeof(T));
    std::vector<T> result(static_cast<std::size_t>(ranks_));
    std::memcpy(result.data(), all.data(), all.size());
    return result;
  }

 private:
  std::vector<Member> members_;
  int ranks_;
};

/// Joins the ranks, runs `program` in every thread and takes the communicators down again.
void run_team(const Options& options, const std::function<void(const Team&)>& program);

}  // namespace rondo::perf
