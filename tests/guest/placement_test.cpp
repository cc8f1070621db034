// For a machine of two memory nodes with a processor each, such as a guest (test_nodes.py): each rank's memory lies
// where decision 50 says, by the kernel's own account of every page.
//
// Rank r runs on processor r.  Its control thread, which makes the segments, was started on the other one: so what is
// right here is not so by chance.
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "tests/process/denied.h"
#include "tests/process/log.h"
#include "tests/process/ranks.h"
#include "transports/slots.h"

namespace rondo::test {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t memory_bytes = 1 << 20;
constexpr int ranks = 2;

void run_on(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  expect(::sched_setaffinity(0, sizeof set, &set) == 0, "cannot bind to processor " + std::to_string(processor));
}

/// The node of each page, as move_pages tells.
std::vector<int> nodes_of(const void* memory, std::size_t bytes) {
  std::vector<void*> pages;
  for (std::size_t at = 0; at < bytes; at += page) {
    auto* const address = static_cast<const std::byte*>(memory) + at;
    (void)*reinterpret_cast<const volatile std::byte*>(address);  // mapped here, else the kernel does not say
    pages.push_back(const_cast<std::byte*>(address));
  }
  std::vector<int> nodes(pages.size());
  expect(::syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, nodes.data(), 0) == 0, "move_pages");
  return nodes;
}

/// The policy of the memory at an address, as get_mempolicy tells.
int policy_at(void* memory) {
  int mode = -1;
  expect(::syscall(SYS_get_mempolicy, &mode, nullptr, 0, memory, MPOL_F_ADDR) == 0, "get_mempolicy");
  return mode;
}

/// "0 x 12, 1 x 3": for a sentence, and to compare.
std::string in_words(const std::vector<int>& nodes) {
  std::string text;
  for (std::size_t i = 0; i < nodes.size();) {
    const std::size_t begin = i;
    while (i < nodes.size() && nodes[i] == nodes[begin]) ++i;
    text += (text.empty() ? "" : ", ") + std::to_string(nodes[begin]) + " x " + std::to_string(i - begin);
  }
  return text;
}

void expect_nodes(const std::vector<int>& found, const std::vector<int>& wanted, const std::string& what) {
  expect(found == wanted, what + " lies on nodes " + in_words(found) + ", not " + in_words(wanted));
}

/// The pages of the pair's segment.
std::vector<int> nodes_of_segment() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:rondo-pair") == std::string::npos) continue;
    char* dash = nullptr;
    const std::uintptr_t begin = std::strtoull(line.c_str(), &dash, 16);
    std::uintptr_t end = std::strtoull(dash + 1, nullptr, 16);
    while (std::getline(maps, line) && line.find("memfd:rondo-pair") != std::string::npos) {
      end = std::strtoull(line.c_str() + line.find('-') + 1, nullptr, 16);  // another policy, the same segment
    }
    return nodes_of(reinterpret_cast<const void*>(begin), end - begin);
  }
  throw std::runtime_error("no segment is mapped");
}

/// By what the lower rank's node and the higher one's are: first what the lower makes, then by lane what comes from the
/// lower, which the higher reads, and what comes from the higher.  A shared page is of the ring that begins in it.
std::vector<int> wanted_segment(int lower, int higher) {
  const std::size_t sizes[] = {page, sizeof(slots::Ring), sizeof(slots::Ring), sizeof(slots::SecondRing),
                               sizeof(slots::SecondRing)};
  std::vector<int> nodes;
  std::size_t begin = 0;
  int part = 0;
  for (const std::size_t bytes : sizes) {
    nodes.resize(begin / page);
    const int node = part++ % 2 == 0 ? lower : higher;
    begin += bytes;
    nodes.resize((begin + page - 1) / page, node);
  }
  return nodes;
}

/// Both ranks' sum of `count` floats, checked.
void sum(ncclComm_t comm, float* data, int rank, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<float>(i % 1000 + static_cast<std::size_t>(rank));
  expect_success(ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, nullptr), "ncclAllReduce");
  for (std::size_t i = 0; i < count; ++i) {
    expect(data[i] == static_cast<float>(2 * (i % 1000) + 1), "a wrong sum at " + std::to_string(i));
  }
}

/// What a rank holds and sees.
struct Rank {
  ncclComm_t comm = nullptr;
  void* memory = nullptr;

  Rank(Meeting& meeting, int rank) {
    run_on(1 - rank);
    ncclUniqueId unused;
    expect_success(ncclGetUniqueId(&unused), "ncclGetUniqueId");  // starts the control thread
    run_on(rank);
    comm = meeting.join(0, rank, ranks);
    expect_success(ncclMemAlloc(&memory, memory_bytes), "ncclMemAlloc");
    std::vector<float> plain(100'000);
    sum(comm, plain.data(), rank, plain.size());
    sum(comm, static_cast<float*>(memory), rank, memory_bytes / sizeof(float));
  }
  void end() const {
    expect_success(ncclMemFree(memory), "ncclMemFree");
    expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
  }
};

std::vector<int> all_on(int node) { return std::vector<int>(memory_bytes / page, node); }

}  // namespace

TEST_CASE("memory of ncclMemAlloc and what a rank receives lie on its node") {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, ranks, [&](int rank) {
    const Log log(rank);
    const Rank here(*meeting, rank);
    expect_nodes(nodes_of(here.memory, memory_bytes), all_on(rank), "memory");
    expect(policy_at(here.memory) == MPOL_PREFERRED, "memory stays on its node");
    expect_nodes(nodes_of_segment(), wanted_segment(0, 1), "the segment");
    const std::string wanted = "rank " + std::to_string(rank) + ": memory nodes 0-1, on node " + std::to_string(rank);
    expect_says(log.text(), {wanted});
    here.end();
  });
  REQUIRE(trouble == "");
}

TEST_CASE("RONDO_NUMA=off leaves all to first touch") {
  const Setting off("RONDO_NUMA", "off");
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, ranks, [&](int rank) {
    const Log log(rank);
    const Rank here(*meeting, rank);
    expect_nodes(nodes_of(here.memory, memory_bytes), all_on(rank), "memory");
    expect(policy_at(here.memory) == MPOL_DEFAULT, "no policy is set");
    expect_nodes(nodes_of_segment(), wanted_segment(1, 0), "the segment");  // where the control threads run
    expect_says(log.text(), {"placing is left to the kernel"});
    here.end();
  });
  REQUIRE(trouble == "");
}

TEST_CASE("a policy of the thread's own stands") {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, ranks, [&](int rank) {
    const unsigned long other = 1ul << (1 - rank);
    expect(::syscall(SYS_set_mempolicy, MPOL_BIND, &other, 8 * sizeof other) == 0, "set_mempolicy");
    const Rank here(*meeting, rank);
    expect_nodes(nodes_of(here.memory, memory_bytes), all_on(1 - rank), "memory");
    expect_nodes(nodes_of_segment(), wanted_segment(1, 0), "the segment");
    here.end();
  });
  REQUIRE(trouble == "");
}

TEST_CASE("where placing is denied first touch places, and the log says so once") {
  for (const long call : {SYS_mbind, SYS_get_mempolicy}) {
    const Shared<Meeting> meeting;
    const std::string trouble = run_ranks(Ranks::processes, ranks, [&](int rank) {
      const Log log(rank);
      deny(call, EPERM);
      const Rank here(*meeting, rank);
      expect_nodes(nodes_of(here.memory, memory_bytes), all_on(rank), "memory");
      expect_nodes(nodes_of_segment(), wanted_segment(1, 0), "the segment");
      const std::string text = log.text();
      const auto first = text.find("memory is not placed on nodes");
      expect(first != std::string::npos && text.find("memory is not placed on nodes", first + 1) == std::string::npos,
             "one line about it: " + text);
      here.end();
    });
    INFO("system call " << call);
    REQUIRE(trouble == "");
  }
}

TEST_CASE("a rank that may run on both nodes is of that where it joined") {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, ranks, [&](int rank) {
    const Log log(rank);
    const ncclComm_t comm = meeting->join(0, rank, ranks);
    expect_says(log.text(), {"memory nodes 0-1, on node "});
    std::vector<float> plain(1000);
    sum(comm, plain.data(), rank, plain.size());
    expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
  });
  REQUIRE(trouble == "");
}

}  // namespace rondo::test
