// The environment registry, the grammar of NCCL_ALGO, near words, system errors, and what a thread sleeps on.
#define CATCH_CONFIG_MAIN
#include <sys/eventfd.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <set>
#include <string>

#include "base/algorithm_list.h"
#include "base/closest.h"
#include "base/descriptor.h"
#include "base/env.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/result.h"
#include "base/small_file.h"
#include "base/wakeups.h"
#include "tests/folder.h"
#include "tests/setting.h"

namespace {

using rondo::AlgorithmList;
using rondo::Code;
using rondo::CollectiveKind;
using rondo::Error;
using rondo::test::Folder;
using rondo::test::Setting;

template <typename Body>
std::string sentence_of(Code code, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  FAIL("no error");
  return {};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a thread sleeps on as many sockets as it has, up to the limit, and the last one wakes it") {
  const rondo::Descriptor silent(::eventfd(0, EFD_CLOEXEC)), rung(::eventfd(1, EFD_CLOEXEC));
  rondo::Wakeups wakeups;
  for (std::size_t i = 1; i < rondo::limits::wakeups_max; ++i) wakeups.add(silent.get(), POLLIN);
  wakeups.add(rung.get(), POLLIN);
  REQUIRE(wakeups.complete());
  CHECK_FALSE(wakeups.sleep(60'000'000, silent.get()));
  CHECK(wakeups.sockets().back().revents == POLLIN);
  CHECK(wakeups.sockets().front().revents == 0);
  wakeups.add(silent.get(), POLLIN);
  CHECK_FALSE(wakeups.complete());
  CHECK(wakeups.sockets().size() == rondo::limits::wakeups_max);
}

TEST_CASE("near words") {
  const std::vector<std::string_view> words = {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_ALGO"};
  CHECK(rondo::closest("NCCL_DEBG", words) == "NCCL_DEBUG");
  CHECK(rondo::closest("nccl_algo", words) == "NCCL_ALGO");
  CHECK(rondo::closest("NCCL_AGLO", words) == "NCCL_ALGO");
  CHECK(rondo::closest("something else entirely", words).empty());
  CHECK(rondo::did_you_mean("NCCL_DEBG", words) == "; did you mean NCCL_DEBUG?");
  CHECK(rondo::did_you_mean("zzz", words) == ".");
  CHECK(rondo::equal_ignoring_case("Ring", "rING"));
  CHECK_FALSE(rondo::equal_ignoring_case("ring", "rings"));
}

TEST_CASE("system errors carry the kernel's words") {
  const std::string sentence = sentence_of(Code::system_error, [] { rondo::throw_system_error("opening x", ENOENT); });
  CHECK(sentence == "opening x: No such file or directory (ENOENT)");
}

TEST_CASE("the table has each name once, with a meaning") {
  std::set<std::string_view> names;
  for (const auto& row : rondo::env::table()) {
    CHECK(names.insert(row.name).second);
    CHECK_FALSE(row.meaning.empty());
    CHECK_FALSE(row.type.empty());
  }
}

TEST_CASE("integers are read as NCCL reads them, and checked") {
  CHECK(rondo::env::integer("RONDO_TIMEOUT", 1, 1000000) == 300);
  const Setting hexadecimal("RONDO_TIMEOUT", "0x10");
  CHECK(rondo::env::integer("RONDO_TIMEOUT", 1, 1000000) == 16);
  for (const char* wrong : {"5s", "-1", "ten", "99999999999999999999", "0", " "}) {
    const Setting setting("RONDO_TIMEOUT", wrong);
    const std::string sentence =
        sentence_of(Code::invalid_argument, [] { rondo::env::integer("RONDO_TIMEOUT", 1, 1000000); });
    CHECK(sentence == "RONDO_TIMEOUT=" + std::string(wrong) + " is not an integer from 1 to 1000000.");
  }
  const Setting empty("RONDO_TIMEOUT", "");
  CHECK(rondo::env::integer("RONDO_TIMEOUT", 1, 1000000) == 300);
}

TEST_CASE("choices ignore case and name the closest") {
  CHECK(rondo::env::choice("RONDO_TRANSPORT", {"shm", "tcp"}).empty());
  {
    const Setting setting("RONDO_TRANSPORT", "SHM");
    CHECK(rondo::env::choice("RONDO_TRANSPORT", {"shm", "tcp"}) == "shm");
  }
  const Setting setting("RONDO_TRANSPORT", "shmm");
  const std::string sentence = sentence_of(Code::invalid_usage, [] {
    rondo::env::choice("RONDO_TRANSPORT", {"shm", "tcp"});
  });
  CHECK(sentence == "RONDO_TRANSPORT=shmm is not one of shm, tcp; did you mean shm?");
}

TEST_CASE("the configuration file comes after the environment, and is complained of") {
  // meson points NCCL_CONF_FILE at nccl.conf beside this file, before anything is read.
  CHECK(rondo::env::text("NCCL_ALGO") == "ring");
  CHECK(rondo::env::text("NCCL_HOSTID") == "first=setter");
  const Setting setting("NCCL_ALGO", "star");
  CHECK(rondo::env::text("NCCL_ALGO") == "star");

  const Setting typo("NCCL_DEBG", "INFO");
  const Setting family("NCCL_NVLS_ENABLE", "0");
  const Setting number("RONDO_NCCL_VERSION", "new"), yes("NCCL_COMM_BLOCKING", "2"), ports("RONDO_PORT_RANGE", "9-8");
  const Setting word("NCCL_SOCKET_FAMILY", "IPv5"), right("RONDO_TRANSPORT", "TCP"), ignored("NCCL_IB_TIMEOUT", "x");
  std::string all;
  for (const std::string& sentence : rondo::env::complaints()) all += sentence + "\n";
  CHECK(contains(all, "NCCL_DEBG is not known; did you mean NCCL_DEBUG?\n"));
  CHECK(contains(all, "NCCL_SOKET_FAMILY ("));
  CHECK(contains(all, "line 5) is not known; did you mean NCCL_SOCKET_FAMILY?\n"));
  CHECK(contains(all, "line 6) is not NAME=VALUE.\n"));
  CHECK_FALSE(contains(all, "NVLS"));
  CHECK(contains(all, "RONDO_NCCL_VERSION=new is wrong: it takes integer.\n"));
  CHECK(contains(all, "NCCL_COMM_BLOCKING=2 is wrong: it takes 0 or 1.\n"));
  CHECK(contains(all, "RONDO_PORT_RANGE=9-8 is wrong: it takes FIRST-LAST.\n"));
  CHECK(contains(all, "NCCL_SOCKET_FAMILY=IPv5 is wrong: it takes one of AF_INET|AF_INET6.\n"));
  CHECK_FALSE(contains(all, "RONDO_TRANSPORT"));
  CHECK_FALSE(contains(all, "NCCL_IB_TIMEOUT"));
}

TEST_CASE("NCCL_ALGO: one entry speaks for every collective") {
  const AlgorithmList list = AlgorithmList::parse("Ring,TREE");
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::send_recv}) {
    CHECK(list.restricts(kind));
    CHECK(list.allows(kind, "ring"));
    CHECK(list.allows(kind, "tree"));
    CHECK_FALSE(list.allows(kind, "star"));
  }
}

TEST_CASE("NCCL_ALGO: functions and exclusion") {
  const AlgorithmList list = AlgorithmList::parse("ring;allreduce:^one_shot, two_shot;broadcast:star");
  CHECK(list.allows(CollectiveKind::all_reduce, "chain"));
  CHECK_FALSE(list.allows(CollectiveKind::all_reduce, "one_shot"));
  CHECK_FALSE(list.allows(CollectiveKind::all_reduce, "two_shot"));
  CHECK(list.allows(CollectiveKind::broadcast, "star"));
  CHECK_FALSE(list.allows(CollectiveKind::broadcast, "ring"));
  CHECK(list.allows(CollectiveKind::all_gather, "ring"));
}

TEST_CASE("NCCL_ALGO: unset restricts nothing, one function nothing else") {
  CHECK_FALSE(AlgorithmList().restricts(CollectiveKind::all_reduce));
  CHECK(AlgorithmList().allows(CollectiveKind::all_reduce, "ring"));
  const AlgorithmList list = AlgorithmList::parse("reducescatter:ring;");
  CHECK_FALSE(list.restricts(CollectiveKind::all_reduce));
  CHECK(list.restricts(CollectiveKind::reduce_scatter));
}

TEST_CASE("NCCL_ALGO: an unknown token names the closest") {
  const auto refused = [](std::string_view text) {
    return sentence_of(Code::invalid_usage, [&] { AlgorithmList::parse(text); });
  };
  CHECK(contains(refused("rign"), "'rign' is not an algorithm; did you mean ring?"));
  CHECK(contains(refused("alreduce:ring"), "'alreduce' is not a collective; did you mean allreduce?"));
  CHECK(contains(refused("ring;tree"), "only the first entry may omit its function"));
  CHECK(contains(refused("allreduce:"), "names no algorithm"));
  CHECK(contains(refused("^"), "names no algorithm"));
  CHECK(contains(refused("ring,,tree"), "'' is not an algorithm"));
  CHECK(contains(refused("ring,^tree"), "'^tree': ^ stands once, before a whole list"));
  CHECK(contains(refused("allreduce:^ring,^tree"), "^ stands once"));
}

TEST_CASE("files are read whole, up to a limit, and nobody is waited for") {
  const Folder folder;
  const std::string path = folder.write("file", std::string(5000, 'x'));
  CHECK(rondo::read_small_file(path, 5000).text == std::string(5000, 'x'));
  CHECK(rondo::read_small_file(path, 5000).trouble.empty());
  CHECK(rondo::read_small_file(path, 4999).trouble == "it has more than 4999 bytes");
  CHECK(rondo::read_small_file(folder.path(), 5000).trouble == "Is a directory");
  CHECK(rondo::read_small_file(folder.path("none"), 5000).trouble == "No such file or directory");
  CHECK(rondo::read_small_file("/dev/zero", 5000).trouble == "it has more than 5000 bytes");
  CHECK(rondo::read_small_file("/dev/null", 5000).trouble.empty());
  const std::string pipe = folder.path("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(rondo::read_small_file(pipe, 5000).trouble == "it is a pipe or a socket, not a file");
}

TEST_CASE("a log that is a pipe which nobody reads keeps nobody waiting") {
  const Folder folder;
  const std::string pipe = folder.path("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  {
    const Setting file("NCCL_DEBUG_FILE", pipe.c_str());
    rondo::log::reset();
    rondo::log::warn("a line for stderr");  // else this never returns
  }
  rondo::log::reset();
}
