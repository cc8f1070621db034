// What tests of the border share: communicators over the fake, variables, gates, the last error.
#pragma once

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "fake.h"
#include "rondo.h"

/// Sets a variable for the life of a test, and then what it was before.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) {
    if (const char* const old = std::getenv(name)) before_ = old;
    setenv(name, value, 1);
  }
  ~Setting() {
    if (before_.empty())
      unsetenv(name_);
    else
      setenv(name_, before_.c_str(), 1);
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
  std::string before_;
};

/// Threads wait until it opens.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

/// The first `here` ranks of a communicator; destroyed at the end.
class Ranks {
 public:
  Ranks(int ranks, int here) {
    fake::world().reset();
    ncclUniqueId id;
    if (ncclGetUniqueId(&id) != ncclSuccess) std::abort();
    for (int rank = 0; rank < here; ++rank) {
      if (ncclCommInitRank(&comms_.emplace_back(), ranks, id, rank) != ncclSuccess) std::abort();
    }
  }
  ~Ranks() {
    for (ncclComm_t comm : comms_) ncclCommDestroy(comm);
    fake::world().reset();
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ncclComm_t operator[](int rank) const { return comms_.at(rank); }
  /// The rank's communicator, from now on the test's to end.
  ncclComm_t take(int rank) { return std::exchange(comms_.at(rank), nullptr); }

  /// A communicator of one rank, the test's own to end.
  static ncclComm_t one() {
    fake::world().reset();
    ncclUniqueId id;
    ncclComm_t comm = nullptr;
    if (ncclGetUniqueId(&id) != ncclSuccess || ncclCommInitRank(&comm, 1, id, 0) != ncclSuccess) std::abort();
    return comm;
  }

 private:
  std::vector<ncclComm_t> comms_;
};

inline std::string last() { return ncclGetLastError(nullptr); }
inline bool last_contains(const std::string& part) { return last().find(part) != std::string::npos; }
