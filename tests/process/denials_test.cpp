// What ranks see when the kernel stops copying between them in the middle of a job: a filter of system calls that was
// installed late, a process that became undumpable.  Exact results, or an error on every rank that names the cause;
// never bytes that were not copied.
#include <sched.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "denied.h"
#include "ranks.h"

namespace rondo::test {
namespace {

/// All-gathers and all-reduces plain memory in turns; what the first call that fails said.
Said use(ncclComm_t comm, int rank, int ranks, std::size_t count, bool reduces) {
  Said said;
  for (int call = 0; call < 4 && said.result == ncclSuccess; ++call) {
    const bool reduce = reduces && call % 2 == 1;
    const float mine = static_cast<float>(rank + call),
                all = static_cast<float>(ranks * (ranks - 1) / 2 + ranks * call);
    std::vector<float> in(count, mine), out(count * (reduce ? 1 : static_cast<std::size_t>(ranks)), -1.0f);
    said = timed(comm, [&] {
      return reduce ? ncclAllReduce(in.data(), out.data(), count, ncclFloat32, ncclSum, comm, nullptr)
                    : ncclAllGather(in.data(), out.data(), count, ncclFloat32, comm, nullptr);
    });
    if (said.result != ncclSuccess) return said;
    for (std::size_t i = 0; i < out.size(); ++i) {
      expect(out[i] == (reduce ? all : static_cast<float>(i / count) + static_cast<float>(call)), "an exact result");
    }
  }
  return said;
}

/// Two CPUs suffice for three ranks that do not share them as far as they can tell: {0}, {1} and {0, 1}.
void have_a_core(int rank) {
  cpu_set_t allowed, mine;
  expect(::sched_getaffinity(0, sizeof allowed, &allowed) == 0, "the CPUs that may be used");
  CPU_ZERO(&mine);
  for (int cpu = 0, number = 0; cpu < CPU_SETSIZE && number < 2; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) && (number++ == rank || rank > 1)) CPU_SET(cpu, &mine);
  }
  if (CPU_COUNT(&mine) > 0) expect(::sched_setaffinity(0, sizeof mine, &mine) == 0, "CPUs");
}

/// Ranks that lose something by `take(rank)` after sound calls; "" or what went wrong.  `look` is told what the first
/// call that failed said, or the last one.
std::string lose(int ranks, std::size_t count, bool reduces, const std::function<void(int rank)>& take,
                 const std::function<void(const Said&)>& look) {
  const Shared<Meeting> meeting;
  return run_ranks(Ranks::processes, ranks, [&](int rank) {
    have_a_core(rank);
    const ncclComm_t comm = meeting->join(0, rank, ranks);
    int passed = 0;
    const Said before = use(comm, rank, ranks, count, reduces);
    expect_success(before.result, before.sentence);
    meeting->barrier(ranks, passed);
    take(rank);
    meeting->barrier(ranks, passed);
    look(use(comm, rank, ranks, count, reduces));
    meeting->barrier(ranks, passed);
    expect_success(ncclCommAbort(comm), "ncclCommAbort");
  });
}

constexpr std::size_t counts[] = {10'000, 300'000};
void expect_sound(const Said& said) { expect_success(said.result, said.sentence); }

}  // namespace

TEST_CASE("who may not read its peers' memory any more has it written, and who may not write has it read") {
  const Setting timeout("RONDO_TIMEOUT", "20");
  for (const int ranks : {2, 3}) {
    for (const int denied_on : {0, 1}) {
      for (const std::size_t count : counts) {
        for (const long call : {long{SYS_process_vm_readv}, long{SYS_process_vm_writev}}) {
          const bool reduces = call == SYS_process_vm_readv;  // answers to what was lent have to be written
          const auto take = [&](int rank) {
            if (rank == denied_on) deny(call, EPERM);
          };
          INFO(ranks << " ranks, system call " << call << " denied on " << denied_on << ", " << count << " elements");
          REQUIRE(lose(ranks, count, reduces, take, expect_sound) == "");
        }
      }
    }
  }
}

TEST_CASE("sums and short blocks of ranks that share cores need no copy by the kernel") {
  const Setting timeout("RONDO_TIMEOUT", "20");
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 3, [&](int rank) {
    share_a_core();
    const ncclComm_t comm = meeting->join(0, rank, 3);
    int passed = 0;
    const auto gather_and_sum = [&] {
      expect_sound(use(comm, rank, 3, 8192, false));
      const std::size_t count = 300'000;
      const std::vector<float> in(3 * count, static_cast<float>(rank));
      std::vector<float> out(count);
      expect_sound(timed(
          comm, [&] { return ncclReduceScatter(in.data(), out.data(), count, ncclFloat32, ncclSum, comm, nullptr); }));
      for (const float sum : out) expect(sum == 3, "an exact sum");
    };
    gather_and_sum();
    meeting->barrier(3, passed);
    deny(SYS_process_vm_readv, EPERM);
    deny(SYS_process_vm_writev, EPERM);
    gather_and_sum();
    meeting->barrier(3, passed);
    expect_success(ncclCommAbort(comm), "ncclCommAbort");
  });
  REQUIRE(trouble == "");
}

TEST_CASE("the memory of a process that became undumpable is written by it") {
  const Setting timeout("RONDO_TIMEOUT", "20");
  World world(1, [](int, Board&) {
    if (::getuid() == 0) expect(::setgid(65534) == 0 && ::setuid(65534) == 0, "another user");
    expect(::prctl(PR_SET_DUMPABLE, 1) == 0, "dumpable");
    const auto take = [](int rank) {
      if (rank == 1) expect(::prctl(PR_SET_DUMPABLE, 0) == 0, "undumpable");
    };
    for (const int ranks : {2, 3}) {
      for (const std::size_t count : counts) expect(lose(ranks, count, false, take, expect_sound) == "", "sound calls");
    }
  });
  REQUIRE(world.trouble() == "");
}

TEST_CASE("where the kernel makes no copy that is needed, all ranks are told why") {
  const Setting timeout("RONDO_TIMEOUT", "20");
  for (const std::size_t count : counts) {
    for (const bool answers : {true, false}) {
      if (answers && count < 100'000) continue;  // few bytes are not answered where they lie
      const auto take = [&](int rank) {
        if (!answers) deny(SYS_process_vm_readv, EPERM);
        if (!answers || rank == 0) deny(SYS_process_vm_writev, EPERM);
      };
      const auto look = [](const Said& said) {
        expect_result(said.result, ncclRemoteError, said.sentence);
        expect_says(said.sentence, {"process_vm_writev: Operation not permitted"});
        expect(said.seconds < 10, "soon");
      };
      INFO(count << " elements, " << (answers ? "answers only" : "all copies"));
      REQUIRE(lose(3, count, true, take, look) == "");
    }
  }
}

}  // namespace rondo::test
