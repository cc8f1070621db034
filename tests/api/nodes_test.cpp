// Memory nodes: what a made-up /sys tells, to which node a processor belongs, and what happens where the kernel refuses
// to place.  What it does where it does not: ../guest.
#define CATCH_CONFIG_MAIN
#include "base/nodes.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "tests/folder.h"
#include "tests/process/denied.h"
#include "tests/setting.h"

namespace nodes = rondo::nodes;
using nodes::Machine;
using nodes::none;
using rondo::test::Folder;
using Numbers = std::vector<int>;

TEST_CASE("Lists of numbers") {
  CHECK(nodes::numbers_in("0") == Numbers{0});
  CHECK(nodes::numbers_in("0-1") == Numbers{0, 1});
  CHECK(nodes::numbers_in("0,2-3") == Numbers{0, 2, 3});
  CHECK(nodes::numbers_in("0-1,3,5-6,12") == Numbers{0, 1, 3, 5, 6, 12});
  CHECK(nodes::numbers_in("").empty());
  for (const char* const wrong : {"x", "0-", "-1", "0,", ",0", "0 1", "1-x", "0-1-2", "99999999", "99999999999"}) {
    INFO(wrong);
    CHECK(nodes::numbers_in(wrong).empty());
  }
}

TEST_CASE("One node, or no folder") {
  const Folder folder;
  const Machine nothing(folder.path("missing"));
  CHECK_FALSE(nothing.several());
  CHECK(nothing.of_processor(0) == none);
  folder.write("has_memory", "0\n");
  folder.write("node0/cpulist", "0-3\n");
  const Machine one(folder.path());
  CHECK_FALSE(one.several());
  CHECK(one.of_processor(3) == 0);
  CHECK(one.of_processor(4) == none);
  CHECK(one.of_processor(-1) == none);
}

TEST_CASE("Several nodes, some without memory or processors") {
  const Folder folder;
  folder.write("online", "0-3\n");
  folder.write("has_memory", "0,2-3\n");
  folder.write("node0/cpulist", "0-1,8-9\n");
  folder.write("node1/cpulist", "2-3\n");  // without memory
  folder.write("node2/cpulist", "4-7\n");
  folder.write("node3/cpulist", "\n");  // memory alone
  const Machine machine(folder.path());
  CHECK(machine.several());
  CHECK(machine.names() == "0,2-3");
  const int wanted[] = {0, 0, none, none, 2, 2, 2, 2, 0, 0, none};
  for (int processor = 0; processor < 11; ++processor) CHECK(machine.of_processor(processor) == wanted[processor]);
}

TEST_CASE("Memory of one node of two is no choice") {
  const Folder folder;
  folder.write("online", "0-1\n");
  folder.write("has_memory", "1\n");
  folder.write("node1/cpulist", "0\n");
  CHECK_FALSE(Machine(folder.path()).several());
}

TEST_CASE("Without has_memory the nodes that are online count") {
  const Folder folder;
  folder.write("online", "0-1\n");
  folder.write("node1/cpulist", "1\n");
  const Machine machine(folder.path());
  CHECK(machine.several());
  CHECK(machine.of_processor(0) == none);
  CHECK(machine.of_processor(1) == 1);
}

TEST_CASE("RONDO_NUMA is off or auto") {
  {
    const rondo::test::Setting off("RONDO_NUMA", "off");
    CHECK(nodes::of_this_thread() == none);
  }
  const rondo::test::Setting wrong("RONDO_NUMA", "on");
  CHECK_THROWS_AS(nodes::of_this_thread(), rondo::Error);
}

namespace {

/// In a child: mbind is refused, and tried once; memory serves all the same.  0, or what is wrong.
int try_where_denied(const std::string& log) {
  ::setenv("NCCL_DEBUG", "INFO", 1);
  ::setenv("NCCL_DEBUG_FILE", log.c_str(), 1);
  rondo::log::reset();
  constexpr std::size_t bytes = 1 << 16;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  nodes::place(memory, bytes, none);
  rondo::test::deny(SYS_mbind, EPERM);
  if (nodes::trouble() != std::string("mbind: ") + std::strerror(EPERM)) return 2;
  nodes::place(memory, bytes, 0);
  rondo::test::forbid(SYS_mbind);  // a second try ends this process
  nodes::place(memory, bytes, 0);
  std::memset(memory, 1, bytes);
  return 0;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("Where placing is denied it is given up after one try, and logged once") {
  const Folder folder;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(try_where_denied(folder.path("log")));
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(count(folder.read("log"), "memory is not placed on nodes: mbind") == 1);
}
