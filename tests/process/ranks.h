// Ranks of a test, as processes or as threads of one process, through the C interface only; and what they use together.
//
// The test process itself never uses Rondo: it forks, and everything runs in its children (see ../control/processes.h).
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>

#include "../control/processes.h"
#include "rondo.h"
#include "tests/setting.h"

namespace rondo::test {

/// A T in memory that the test shares with the processes it forks.
template <class T>
class Shared {
 public:
  Shared() {
    void* const page = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) throw std::bad_alloc();
    value_ = new (page) T;
  }
  ~Shared() { ::munmap(value_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T* operator->() const { return value_; }
  T& operator*() const { return *value_; }

 private:
  T* value_;
};

/// How ranks of one test meet: rank 0 makes the n-th id, the others read it.
struct Meeting {
  static constexpr int ids_max = 64;
  std::atomic<int> ready[ids_max] = {};
  ncclUniqueId ids[ids_max];
  std::atomic<int> arrived{0};

  ncclUniqueId id(int number, int rank);
  /// The n-th communicator.  Throws if init fails.
  ncclComm_t join(int number, int rank, int ranks);
  /// Waits until all ranks have come here as often as this one.
  void barrier(int ranks, int& passed);
};

/// Throws what ncclGetLastError says unless the result is the wanted one.
void expect_result(ncclResult_t result, ncclResult_t wanted, const std::string& what);
inline void expect_success(ncclResult_t result, const std::string& what) { expect_result(result, ncclSuccess, what); }
/// Throws unless the text holds every part.
void expect_says(const std::string& text, std::initializer_list<std::string> parts);

/// Runs `body(rank)` for every rank; "" or what went wrong.
enum class Ranks : std::uint8_t { processes, threads };
std::string run_ranks(Ranks how, int ranks, const std::function<void(int rank)>& body);

/// From now on this process may use one CPU, the first that it may: so there are fewer of them than ranks.
void share_a_core();

/// Keeps a handle that this process will not destroy: left behind on purpose, it is no leak.
void leave(ncclComm_t comm);

/// What a call said, and how long it took.
struct Said {
  ncclResult_t result = ncclSuccess;
  std::string sentence;
  double seconds = 0;
};
Said timed(ncclComm_t comm, const std::function<ncclResult_t()>& call);

/// A blocking all-reduce of `count` floats, in place, of a buffer of its own.
ncclResult_t all_reduce_floats(ncclComm_t comm, std::size_t count, cudaStream_t stream = nullptr);

/// A number of the environment, or what it is otherwise: seeds, so that the nightly run can ask for more.
int environment_number(const char* name, int otherwise);

}  // namespace rondo::test
