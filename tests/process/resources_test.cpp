// What communicators use, what they give back, and what happens where the system refuses something: a sentence and the
// right code on every rank, no crash, no hang, and exact results where the refused thing can be done without.
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/nodes.h"
#include "denied.h"
#include "log.h"
#include "ranks.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

namespace rondo::test {
namespace {

constexpr std::size_t mib = 1 << 20;

int lines_of(const char* path) {
  std::ifstream file(path);
  int lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  return lines;
}

/// A line "Name:   123 kB" of a file, in bytes.
std::size_t amount_in(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name + ":", 0) == 0) return std::stoull(line.substr(name.size() + 1)) * 1024;
  }
  throw std::runtime_error(std::string(path) + " has no " + name);
}

double cpu_ms() {
  timespec used;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e3 + static_cast<double>(used.tv_nsec) / 1e6;
}

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void use(ncclComm_t comm, int ranks, std::size_t count) {
  std::vector<float> data(count, 2.0f);
  expect_success(ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, comm, nullptr), "a call");
  for (const float value : data) expect(value == static_cast<float>(2 * ranks), "the exact sum");
}

TEST_CASE("communicators give back what they took") {
  constexpr int warm = 6;
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
    int passed = 0;
    int fds = 0;
    int threads = 0;
    int maps = 0;
    for (int i = 0; i < warm + 30; ++i) {
      const ncclComm_t comm = meeting->join(i, rank, 2);
      void* memory = nullptr;
      expect_success(ncclMemAlloc(&memory, mib), "ncclMemAlloc");
      for (int repeat = 0; repeat < 3; ++repeat) {
        use(comm, 2, 1000);
        expect_success(ncclAllReduce(memory, memory, mib / 4, ncclFloat32, ncclSum, comm, nullptr), "a call");
      }
      if (i % 2 == 0) expect_success(ncclMemFree(memory), "ncclMemFree");
      meeting->barrier(2, passed);  // an abort ends calls that the other rank is still in
      expect_success(i % 5 == 4 ? ncclCommAbort(comm) : ncclCommDestroy(comm), "the end");
      if (i % 2 == 1) expect_success(ncclMemFree(memory), "ncclMemFree");
      meeting->barrier(2, passed);
      if (i < warm) {
        fds = std::max(fds, descriptors_open());
        threads = std::max(threads, threads_running());
        maps = std::max(maps, lines_of("/proc/self/maps"));
      }
    }
    expect(descriptors_open() <= fds,
           "descriptors as before, " + std::to_string(descriptors_open()) + " <= " + std::to_string(fds));
    expect(threads_running() <= threads, "threads as before");
    if (SANITIZED) return;
    expect(lines_of("/proc/self/maps") <= maps + 2,
           "maps as before, " + std::to_string(lines_of("/proc/self/maps")) + " <= " + std::to_string(maps));
  });
  REQUIRE(trouble == "");
}

TEST_CASE("a communicator is small, and idle it uses no processor") {
  constexpr int ranks = 3;
  constexpr int communicators = 8;
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, ranks, [&](int rank) {
    int passed = 0;
    const ncclComm_t first = meeting->join(0, rank, ranks);
    use(first, ranks, mib / 4);
    meeting->barrier(ranks, passed);
    const std::size_t before = amount_in("/proc/self/smaps_rollup", "Rss");
    const double begin = now_ms();
    std::vector<ncclComm_t> comms;
    for (int i = 1; i <= communicators; ++i) comms.push_back(meeting->join(i, rank, ranks));
    const double init_ms = (now_ms() - begin) / communicators;
    for (const ncclComm_t comm : comms) use(comm, ranks, mib / 4);
    const std::size_t each = (amount_in("/proc/self/smaps_rollup", "Rss") - before) / communicators;
    meeting->barrier(ranks, passed);
    const double cpu_before = cpu_ms();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const double idle = cpu_ms() - cpu_before;
    std::printf("  rank %d: %.0f KiB a communicator with %d peers in use, init %.1f ms, idle %.2f ms a second\n", rank,
                static_cast<double>(each) / 1024, ranks - 1, init_ms, idle);
    std::fflush(stdout);
    meeting->barrier(ranks, passed);
    if (!SANITIZED) expect(each <= mib + (ranks - 1) * mib, "at most 1 MiB and 1 MiB a peer");
    expect(idle <= 10, "no processor time while idle");
    comms.push_back(first);
    for (const ncclComm_t comm : comms) expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
  });
  REQUIRE(trouble == "");
}

/// Enters a world of its own: an empty /tmp, a /dev/shm of one page, its own sockets.  False: not permitted.
bool enter_small_world() {
  if (::unshare(CLONE_NEWNS | CLONE_NEWNET) != 0) return false;
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=4k") == 0 && ::mount("tmpfs", "/tmp", "tmpfs", 0, "") == 0;
}

int files_in(const char* path) {
  DIR* const directory = ::opendir(path);
  int files = 0;
  while (const dirent* entry = ::readdir(directory)) files += entry->d_name[0] != '.' ? 1 : 0;
  ::closedir(directory);
  return files;
}

TEST_CASE("a tiny /dev/shm is no matter, and nothing has a name") {
  const Shared<Meeting> meeting;
  const Shared<std::atomic<int>> refused;
  World world(1, [&](int, Board&) {
    if (!enter_small_world()) return refused->store(1);
    const std::string trouble = run_ranks(Ranks::processes, 3, [&](int rank) {
      const ncclComm_t comm = meeting->join(0, rank, 3);
      void* memory = nullptr;
      expect_success(ncclMemAlloc(&memory, mib), "ncclMemAlloc");
      for (int i = 0; i < 3; ++i) {
        expect_success(ncclAllReduce(memory, memory, mib / 4, ncclFloat32, ncclSum, comm, nullptr), "a call");
        use(comm, 3, 10'000);
      }
      expect(files_in("/dev/shm") == 0 && files_in("/tmp") == 0, "no files");
      if (rank == 1) return leave(comm);
      expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
    });
    if (!trouble.empty()) throw std::runtime_error(trouble);
    expect(files_in("/dev/shm") == 0 && files_in("/tmp") == 0, "no files afterwards");
    expect(lines_of("/proc/self/net/unix") <= 1, "no sockets afterwards");
  });
  REQUIRE(world.trouble() == "");
  if (refused->load() != 0) WARN("skipped: this system does not permit namespaces of its own (unshare)");
}

TEST_CASE("fewer open files than ranks are told at once") {
  const std::string trouble = run_ranks(Ranks::processes, 1, [&](int) {
    ncclUniqueId id;
    expect_success(ncclGetUniqueId(&id), "ncclGetUniqueId");
    const rlimit few{40, 40};
    expect(::setrlimit(RLIMIT_NOFILE, &few) == 0, "setrlimit");
    ncclComm_t comm = nullptr;
    expect_result(ncclCommInitRank(&comm, 100, id, 0), ncclSystemError, "ncclCommInitRank");
    expect_says(ncclGetLastError(nullptr), {"each of the 100 ranks", "no more than 40 open files", "ulimit -n"});
  });
  REQUIRE(trouble == "");
}

TEST_CASE("a closed standard input, output or error stays closed, and no socket takes its number") {
  for (const char* const transport : {"shm", "tcp"}) {
    const Shared<Meeting> meeting;
    const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
      for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(fd);
      ::setenv("RONDO_TRANSPORT", transport, 1);
      void* memory = nullptr;
      expect_success(ncclMemAlloc(&memory, mib), "ncclMemAlloc");
      const ncclComm_t comm = meeting->join(0, rank, 2);
      for (int i = 0; i < 3; ++i) {
        char letter = 'x';
        expect(::read(STDIN_FILENO, &letter, 1) == -1 && errno == EBADF, "nothing to read");
        expect(::write(STDOUT_FILENO, &letter, 1) == -1 && errno == EBADF, "nowhere to write");
        expect(::write(STDERR_FILENO, &letter, 1) == -1 && errno == EBADF, "nowhere to complain");
        use(comm, 2, 100'000);
      }
      expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
      expect_success(ncclMemFree(memory), "ncclMemFree");
    });
    INFO(transport);
    REQUIRE(trouble == "");
  }
}

TEST_CASE("system calls that can be done without") {
  for (const long call : {SYS_process_vm_readv, SYS_process_vm_writev, SYS_membarrier, SYS_pidfd_open}) {
    for (const int denied_on : {0, 1, 2}) {  // 2: on both
      const Shared<Meeting> meeting;
      const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
        if (denied_on == rank || denied_on == 2) deny(call, EPERM);
        const ncclComm_t comm = meeting->join(0, rank, 2);
        for (const std::size_t count : {std::size_t{1}, std::size_t{100'000}, mib}) {
          for (int i = 0; i < 3; ++i) use(comm, 2, count);
          if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the other one falls asleep
        }
        expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
      });
      INFO("system call " << call << " denied on " << denied_on);
      REQUIRE(trouble == "");
    }
  }
}

TEST_CASE("an all-reduce of plain memory between two ranks asks the kernel for no copy") {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
    const ncclComm_t comm = meeting->join(0, rank, 2);
    use(comm, 2, 1);  // opens the links, which tries such a copy
    for (const long call : {SYS_process_vm_readv, SYS_process_vm_writev}) forbid(call);
    for (const std::size_t count : {std::size_t{30'000}, std::size_t{100'000}, mib}) use(comm, 2, count);
    expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
  });
  REQUIRE(trouble == "");
}

TEST_CASE("on one memory node nothing is asked about nodes") {
  if (nodes::machine().several()) {
    WARN("this host has several memory nodes");
    return;
  }
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
    for (const long call : {SYS_mbind, SYS_get_mempolicy, SYS_set_mempolicy, SYS_move_pages}) forbid(call);
    const ncclComm_t comm = meeting->join(0, rank, 2);
    void* memory = nullptr;
    expect_success(ncclMemAlloc(&memory, mib), "ncclMemAlloc");
    use(comm, 2, 100'000);
    expect_success(ncclMemFree(memory), "ncclMemFree");
    expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
  });
  REQUIRE(trouble == "");
}

struct Unlimited {};
constexpr auto unlimited = [] { return Unlimited(); };

void expect_sentence(ncclResult_t result) {
  const std::string sentence = ncclGetLastError(nullptr);
  expect(result == ncclSuccess || sentence.size() > 20, "a sentence for " + std::to_string(result) + ": " + sentence);
}

/// Joins and calls, each with what `limit()` gives; throws unless they succeed or fail in a sentence.
template <class Limiter>
bool survives(int rank, const ncclUniqueId& id, Limiter&& limit) {
  static float data[10'000];
  ncclComm_t comm = nullptr;
  ncclResult_t result = ncclSuccess;
  {
    [[maybe_unused]] const auto limited = limit();
    result = ncclCommInitRank(&comm, 2, id, rank);
  }
  expect_sentence(result);
  expect((comm != nullptr) == (result == ncclSuccess), "a handle only of a communicator that is well");
  if (result != ncclSuccess) return false;
  {
    [[maybe_unused]] const auto limited = limit();
    result = ncclAllReduce(data, data, std::size(data), ncclFloat32, ncclSum, comm, nullptr);
  }
  expect_sentence(result);
  ncclCommDestroy(comm);
  return result == ncclSuccess;
}

TEST_CASE("a limit of file sizes is told, not died of") {
  const Setting timeout("RONDO_TIMEOUT", "2");                // the other rank waits for one that cannot come
  for (const rlim_t bytes : {rlim_t{0}, rlim_t{64} << 10}) {  // no doorbell; no segment of a pair, but TCP
    const Shared<Meeting> meeting;
    const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
      const ncclUniqueId id = meeting->id(0, rank);
      const rlimit small{bytes, bytes};
      expect(::setrlimit(RLIMIT_FSIZE, &small) == 0, "setrlimit");
      void* memory = nullptr;
      expect_result(ncclMemAlloc(&memory, mib), ncclSystemError, "ncclMemAlloc");
      expect_says(ncclGetLastError(nullptr), {"files of at most " + std::to_string(bytes) + " bytes", "ulimit -f"});
      expect(survives(rank, id, unlimited) == (bytes > 0), "over TCP, if at all");
    });
    INFO(bytes);
    REQUIRE(trouble == "");
  }
}

TEST_CASE("a pair of which a rank may not make a segment takes TCP") {
  for (const int limited : {0, 1}) {
    const Shared<Meeting> meeting;
    const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
      const Log log(rank);
      const ncclUniqueId id = meeting->id(0, rank);
      const rlimit small{64 << 10, 64 << 10};
      if (rank == limited) expect(::setrlimit(RLIMIT_FSIZE, &small) == 0, "setrlimit");
      ncclComm_t comm = nullptr;
      expect_success(ncclCommInitRank(&comm, 2, id, rank), "ncclCommInitRank");
      use(comm, 2, 100'000);
      expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
      expect_says(log.text(), {" via tcp: "});
      if (rank == limited) expect_says(log.text(), {"not linked by shared memory", "at most 65536 bytes (ulimit -f)"});
    });
    INFO("rank " << limited << " is limited");
    REQUIRE(trouble == "");
  }
}

TEST_CASE("system calls that cannot be done without fail in a sentence, on every rank") {
  const Setting timeout("RONDO_TIMEOUT", "2");
  for (const long call : {SYS_memfd_create, SYS_clone3, SYS_epoll_create1, SYS_socket, SYS_ftruncate, SYS_fallocate}) {
    if (SANITIZED && call == SYS_clone3) continue;  // the sanitizers start threads of their own
    for (const int denied_on : {0, 1}) {
      const Shared<Meeting> meeting;
      const Shared<std::atomic<int>> successes;
      const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
        ncclUniqueId id = {};
        if (denied_on == 1) id = meeting->id(0, rank);  // its process needs what is denied on rank 0
        if (denied_on == rank) {
          deny(call, EPERM);
          if (call == SYS_clone3) deny(SYS_clone, EAGAIN);
        }
        if (denied_on == 0 && rank == 0 && ncclGetUniqueId(&id) != ncclSuccess) {
          expect(std::string(ncclGetLastError(nullptr)).size() > 20, "a sentence");
          meeting->ready[0].store(-1);
          return;
        }
        if (denied_on == 0 && rank == 0) {
          meeting->ids[0] = id;
          meeting->ready[0].store(1);
        }
        while (meeting->ready[0].load() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (meeting->ready[0].load() < 0) return;
        if (survives(rank, meeting->ids[0], unlimited)) successes->fetch_add(1);
      });
      INFO("system call " << call << " denied on " << denied_on);
      REQUIRE(trouble == "");
      REQUIRE(successes->load() % 2 == 0);  // one rank may not need what is denied, but then all goes well
    }
  }
}

TEST_CASE("few descriptors: an error in a sentence, or all goes well") {
  if (SANITIZED) return;  // UBSan looks at objects through pipes
  const Setting timeout("RONDO_TIMEOUT", "1");
  int well = 0;
  for (const int more : {0, 1, 2, 3, 5, 7, 8, 9, 10, 11, 12, 14, 20}) {
    const Shared<Meeting> meeting;
    const Shared<std::atomic<int>> successes;
    const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
      const ncclUniqueId id = meeting->id(0, rank);
      const auto few = [&] { return Limit(RLIMIT_NOFILE, static_cast<std::size_t>(descriptors_open() - 3 + more)); };
      if (rank == 0 ? survives(rank, id, unlimited) : survives(rank, id, few)) successes->fetch_add(1);
    });
    INFO(more << " descriptors");
    REQUIRE(trouble == "");
    REQUIRE(successes->load() != 1);
    well += successes->load();
  }
  REQUIRE(well > 0);
}

TEST_CASE("memory is freed while another thread ends a communicator whose ranks have mapped it") {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 3, [&](int rank) {
    void* large = nullptr;  // which takes a while to unmap
    expect_success(ncclMemAlloc(&large, 128 * mib), "ncclMemAlloc");
    for (int round = 0; round < 3; ++round) {
      void* small[15] = {};
      for (void*& memory : small) expect_success(ncclMemAlloc(&memory, 4096), "ncclMemAlloc");
      const ncclComm_t comm = meeting->join(round, rank, 3);
      use(comm, 3, 4096);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // until what was offered is mapped
      std::thread other([&] {
        for (void* const memory : small) {
          expect_success(ncclMemFree(memory), "ncclMemFree");
          std::this_thread::sleep_for(std::chrono::microseconds(300));
        }
      });
      expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
      other.join();
    }
    expect_success(ncclMemFree(large), "ncclMemFree");
  });
  REQUIRE(trouble == "");
}

TEST_CASE("a rank without room for a descriptor reads a new region by copies") {
  if (SANITIZED) return;
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
    const Log log(rank);
    ::setenv("NCCL_DEBUG_SUBSYS", "ALLOC", 1);
    int passed = 0;
    const ncclComm_t comm = meeting->join(0, rank, 2);
    use(comm, 2, 1000);
    const auto sums = [&](float* data) {
      for (int call = 0; call < 4; ++call) {
        std::fill(data, data + mib / 4, 3.0f);
        expect_success(ncclAllReduce(data, data, mib / 4, ncclFloat32, ncclSum, comm, nullptr), "a call");
        expect(std::all_of(data, data + mib / 4, [](float value) { return value == 6; }), "the exact sum");
      }
    };
    void* memory = nullptr;
    expect_success(ncclMemAlloc(&memory, mib), "ncclMemAlloc");
    std::optional<Limit> few;
    if (rank == 1) few.emplace(RLIMIT_NOFILE, 3);
    meeting->barrier(2, passed);
    sums(static_cast<float*>(memory));
    meeting->barrier(2, passed);
    few.reset();
    if (rank == 1) expect_says(log.text(), {"copied, not read in place: no room for 1 more open files", "ulimit -n"});
    sums(static_cast<float*>(memory));
    expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
    expect_success(ncclMemFree(memory), "ncclMemFree");
  });
  REQUIRE(trouble == "");
}

TEST_CASE("little memory: an error in a sentence, or all goes well") {
  if (SANITIZED) return;
  const Setting timeout("RONDO_TIMEOUT", "2");
  int well = 0;
  for (const std::size_t more : {0, 1, 2, 6, 8, 9, 10, 12, 24, 64, 256}) {
    const Shared<Meeting> meeting;
    const Shared<std::atomic<int>> successes;
    const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
      const ncclUniqueId id = meeting->id(0, rank);
      const auto little = [&] { return Limit(RLIMIT_AS, amount_in("/proc/self/status", "VmSize") + more * mib); };
      if (rank == 0 ? survives(rank, id, unlimited) : survives(rank, id, little)) successes->fetch_add(1);
    });
    INFO(more << " MiB");
    REQUIRE(trouble == "");
    REQUIRE(successes->load() != 1);
    well += successes->load();
  }
  REQUIRE(well > 0);
}

TEST_CASE("more memory than there is") {
  const std::string trouble = run_ranks(Ranks::processes, 1, [&](int) {
    void* memory = nullptr;
    const Said said = timed(nullptr, [&] { return ncclMemAlloc(&memory, std::size_t{1} << 55); });
    expect_result(said.result, ncclSystemError, "ncclMemAlloc");
    expect_says(said.sentence, {"36028797018963968 bytes"});
    expect(memory == nullptr, "no memory");
  });
  REQUIRE(trouble == "");
}

}  // namespace
}  // namespace rondo::test
