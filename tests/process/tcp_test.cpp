// What only ranks over TCP can show: large calls, several sockets, settings that differ, descriptors, departures.  The
// products, deaths and usage tests run over TCP as they are (see meson.build).
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "log.h"
#include "ranks.h"

namespace rondo::test {
namespace {

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

void exact_sum(ncclComm_t comm, int rank, int ranks, std::size_t count) {
  std::vector<float> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<float>((i + static_cast<std::size_t>(rank)) % 1021);
  expect_success(ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, comm, nullptr), "a call");
  for (std::size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int r = 0; r < ranks; ++r) sum += static_cast<float>((i + static_cast<std::size_t>(r)) % 1021);
    if (data[i] != sum) throw std::runtime_error("element " + std::to_string(i) + " is wrong");
  }
}

void set_tcp(const char* sockets, const char* threads) {
  ::setenv("RONDO_TRANSPORT", "tcp", 1);
  ::setenv("NCCL_NSOCKS_PERTHREAD", sockets, 1);
  ::setenv("NCCL_SOCKET_NTHREADS", threads, 1);
}

/// The transport of the link to a peer, as INFO tells it; "" where there is none.
std::string transport_to(int peer, const std::string& log) {
  const auto line = log.find(" <-> rank " + std::to_string(peer) + " ");
  if (line == std::string::npos) return "";
  const auto word = log.find(" via ", line) + 5;
  return log.substr(word, log.find(':', word) - word);
}

TEST_CASE("each pair gets shared memory where it may, else TCP") {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 3, [&](int rank) {
    const Log log(rank);
    ::setenv("NCCL_HOSTID", rank == 2 ? "there" : "here", 1);
    const ncclComm_t comm = meeting->join(0, rank, 3);
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20}) {
      exact_sum(comm, rank, 3, count);
    }
    expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
    for (int peer = 0; peer < 3; ++peer) {
      if (peer == rank) continue;
      const std::string wanted = peer == 2 || rank == 2 ? "tcp" : "shm";
      expect(transport_to(peer, log.text()) == wanted,
             wanted + " to rank " + std::to_string(peer) + " in " + log.text());
    }
  });
  REQUIRE(trouble == "");
}

/// How often this thread has gone to sleep.
long sleeps_of_thread() {
  rusage usage{};
  expect(::getrusage(RUSAGE_THREAD, &usage) == 0, "getrusage");
  return usage.ru_nvcsw;
}

TEST_CASE("who waits for shared memory and TCP sleeps until either wakes it") {
  constexpr int ranks = 4;
  for (const char* algorithm : {"one_shot", "ring"}) {
    const Setting setting("NCCL_ALGO", algorithm);
    const Shared<Meeting> meeting;
    const std::string trouble = run_ranks(Ranks::processes, ranks, [&](int rank) {
      ::setenv("NCCL_HOSTID", rank < 2 ? "here" : "there", 1);
      const ncclComm_t comm = meeting->join(0, rank, ranks);
      for (const int late : {0, 3}) {
        exact_sum(comm, rank, ranks, 1000);
        if (rank == late) sleep_ms(300);
        const long before = sleeps_of_thread();
        const Said said = timed(comm, [&] { return all_reduce_floats(comm, 1000); });
        const long sleeps = sleeps_of_thread() - before;
        expect_success(said.result, "a call");
        // A look at failures every 50 ms, and some messages that come meanwhile; naps were thousands.
        const double most = 30 + said.seconds * 1000 / 20;
        expect(sleeps <= most, std::to_string(sleeps) + " sleeps of rank " + std::to_string(rank));
      }
      expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
    });
    INFO(algorithm);
    REQUIRE(trouble == "");
  }
}

TEST_CASE("who waits for a helper of TCP sleeps until that is done") {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
    set_tcp("1", "2");
    const ncclComm_t comm = meeting->join(0, rank, 2);
    exact_sum(comm, rank, 2, 1000);
    std::vector<float> data(4u << 20);  // more than the kernel takes while nobody reads
    if (rank == 1) {
      sleep_ms(1000);
      expect_success(ncclRecv(data.data(), data.size(), ncclFloat32, 0, comm, nullptr), "ncclRecv");
    } else {
      const long before = sleeps_of_thread();
      const Said said = timed(comm, [&] { return ncclSend(data.data(), data.size(), ncclFloat32, 1, comm, nullptr); });
      const long sleeps = sleeps_of_thread() - before;
      expect_success(said.result, "ncclSend");
      // A look at failures every 50 ms, and what comes while its 256 messages go; naps of 1 ms were 900.
      expect(sleeps <= 400 + said.seconds * 1000 / 20, std::to_string(sleeps) + " sleeps");
    }
    expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
  });
  REQUIRE(trouble == "");
}

/// How long a message may be by which an all-reduce goes, as INFO tells it, in KiB; -1 where it does not.
long message_kib(const std::string& log) {
  const auto line = log.find("all_reduce of ");
  const std::string words = ", messages of at most ";
  const auto at = log.find(words, line);
  return line == std::string::npos || at == std::string::npos ? -1 : std::stol(log.substr(at + words.size()));
}

TEST_CASE("messages are long where all pairs have one socket each, and no longer than a slot elsewhere") {
  struct Where {
    const char* transport;
    const char* threads;  // with a socket each
    std::vector<const char*> hosts;
    bool longer;
  };
  const std::vector<Where> all = {{"tcp", "1", {"here", "here"}, true},
                                  {"tcp", "2", {"here", "here"}, false},
                                  {"", "1", {"here", "there"}, true},
                                  {"", "2", {"here", "there"}, false},
                                  {"", "1", {"a", "b", "c"}, true},
                                  {"", "1", {"here", "here", "there"}, false},
                                  {"tcp", "1", {"here", "here", "there"}, true},
                                  {"", "1", {"here", "here"}, false}};
  for (const Where& where : all) {
    const Shared<Meeting> meeting;
    const int ranks = static_cast<int>(where.hosts.size());
    const std::string trouble = run_ranks(Ranks::processes, ranks, [&](int rank) {
      const Log log(rank);
      ::setenv("NCCL_DEBUG_SUBSYS", "INIT,TUNING", 1);
      ::setenv("NCCL_HOSTID", where.hosts[static_cast<std::size_t>(rank)], 1);
      ::setenv("NCCL_ALGO", "two_shot", 1);
      set_tcp("1", where.threads);
      if (*where.transport == 0) ::unsetenv("RONDO_TRANSPORT");
      const ncclComm_t comm = meeting->join(0, rank, ranks);
      exact_sum(comm, rank, ranks, 1u << 17);
      expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
      const long kib = message_kib(log.text());
      const auto slot = where.longer ? limits::tcp_slot_bytes : limits::slot_bytes;
      expect(kib == static_cast<long>(slot / 1024), std::to_string(kib) + " KiB in " + log.text());
    });
    INFO(where.transport << " " << where.threads << " " << where.hosts.back());
    REQUIRE(trouble == "");
  }
}

TEST_CASE("NCCL_SHM_DISABLE leaves TCP, and RONDO_TRANSPORT comes before NCCL_HOSTID") {
  for (const bool disabled : {true, false}) {
    const Shared<Meeting> meeting;
    const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
      const Log log(rank);
      ::setenv("NCCL_HOSTID", rank == 0 ? "here" : "there", 1);
      if (disabled) ::setenv("NCCL_SHM_DISABLE", "1", 1);
      if (!disabled) ::setenv("RONDO_TRANSPORT", "shm", 1);
      const ncclComm_t comm = meeting->join(0, rank, 2);
      exact_sum(comm, rank, 2, 1000);
      expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
      expect(transport_to(1 - rank, log.text()) == (disabled ? "tcp" : "shm"), log.text());
      if (!disabled) return;
      ::setenv("RONDO_TRANSPORT", "shm", 1);
      ncclComm_t none = nullptr;
      const ncclUniqueId id = meeting->id(1, rank);
      const Said said = timed(nullptr, [&] { return ncclCommInitRank(&none, 2, id, rank); });
      expect(said.result == ncclInvalidUsage, "invalid usage");
      expect_says(said.sentence, {"RONDO_TRANSPORT=shm", "NCCL_SHM_DISABLE=1"});
    });
    REQUIRE(trouble == "");
  }
}

#ifdef __SANITIZE_THREAD__
constexpr std::size_t large = 2u << 20;  // what ThreadSanitizer does in seconds
#else
constexpr std::size_t large = 32u << 20;
#endif

TEST_CASE("128 MiB over TCP") {
  for (const int ranks : {2, 3}) {
    const Shared<Meeting> meeting;
    const std::string trouble = run_ranks(Ranks::processes, ranks, [&](int rank) {
      set_tcp("1", "1");
      const ncclComm_t comm = meeting->join(0, rank, ranks);
      exact_sum(comm, rank, ranks, large);
      expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
    });
    REQUIRE(trouble == "");
  }
}

TEST_CASE("what was sent without a copy may be overwritten when the call returns") {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
    set_tcp("2", "1");
    ::setenv("RONDO_TCP_ZEROCOPY", "always", 1);
    ::setenv("NCCL_DEBUG_SUBSYS", "NET", 1);
    const Log log(rank);
    const ncclComm_t comm = meeting->join(0, rank, 2);
    std::vector<int> out(1 << 20), in(out.size());
    for (int call = 0; call < 8; ++call) {
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = call * 1000 + rank + static_cast<int>(i);
      expect_success(ncclAlltoAll(out.data(), in.data(), out.size() / 2, ncclInt32, comm, nullptr), "ncclAlltoAll");
      std::fill(out.begin(), out.end(), -1);
      for (std::size_t i = 0; i < in.size(); ++i) {
        const int from = i < in.size() / 2 ? 0 : 1;
        const auto place = static_cast<int>(i % (in.size() / 2) + static_cast<std::size_t>(rank) * in.size() / 2);
        if (in[i] != call * 1000 + from + place) throw std::runtime_error("element " + std::to_string(i) + " is wrong");
      }
      exact_sum(comm, rank, 2, 1 << 18);
    }
    expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
    expect(log.text().find(" sends without a copy, of which") != std::string::npos,
           "the count of them in " + log.text());
    expect(log.text().find(" 0 sends without a copy") == std::string::npos, "some were");
  });
  REQUIRE(trouble == "");
}

TEST_CASE("several sockets a link, and the descriptors they take and give back") {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
    set_tcp("3", "2");
    int passed = 0;
    const ncclComm_t first = meeting->join(0, rank, 2);
    exact_sum(first, rank, 2, 1);  // what the process keeps
    leave(first);
    meeting->barrier(2, passed);
    const int before = descriptors_open();
    const ncclComm_t comm = meeting->join(1, rank, 2);
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20}) {
      exact_sum(comm, rank, 2, count);
    }
    meeting->barrier(2, passed);
    const long most = limits::descriptors_of_communicator(2, {6, 2});
    const int more = descriptors_open() - before;  // that one may still have some of the first one's
    expect(more <= most, "at most " + std::to_string(most) + " descriptors more, not " + std::to_string(more));
    expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
    expect(descriptors_open() <= before, "descriptors as before");
    meeting->barrier(2, passed);
  });
  REQUIRE(trouble == "");
}

TEST_CASE("as many threads as NCCL_SOCKET_NTHREADS serve the sockets, and end with the communicator") {
  for (const int threads : {1, 2, 4}) {
    const Shared<Meeting> meeting;
    const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
      const Log log(rank);
      ::setenv("NCCL_DEBUG_SUBSYS", "INIT,NET", 1);
      set_tcp("2", std::to_string(threads).c_str());
      const auto helpers = [] { return threads_named("rondo-tcp-"); };
      const ncclComm_t comm = meeting->join(0, rank, 2);
      expect(helpers() == 0, "no helpers before the first link");
      int passed = 0;
      meeting->barrier(2, passed);  // or the other rank's call opens the link
      exact_sum(comm, rank, 2, 1);
      expect(helpers() == threads - 1, std::to_string(helpers()) + " helpers");
      for (int i = 0; i < 5; ++i) exact_sum(comm, rank, 2, 1u << 20);
      expect(helpers() == threads - 1, std::to_string(helpers()) + " helpers after large calls");
      expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
      for (int i = 0; helpers() > 0 && i < 1000; ++i) sleep_ms(1);  // the kernel forgets a thread after its end
      expect(helpers() == 0, "no helpers after the communicator");
      const std::string text = log.text();
      const auto pieces = numbers_before(" pieces, ", text);
      expect(pieces.size() == static_cast<std::size_t>(threads) - 1, "a line for each helper in " + text);
      long all = 0;
      for (const long some : pieces) all += some;
      expect((all > 0) == (threads > 1), "pieces by helpers in " + text);
    });
    REQUIRE(trouble == "");
  }
}

TEST_CASE("descriptors of a process, of a communicator and of each peer are as stated") {
  for (const bool shares : {true, false}) {
    for (const int ranks : {2, 4}) {
      const Shared<Meeting> meeting;
      const std::string trouble = run_ranks(Ranks::processes, ranks, [&](int rank) {
        if (!shares) set_tcp("1", "1");
        int passed = 0;
        const int before = descriptors_open();
        const ncclComm_t comm = meeting->join(0, rank, ranks);
        exact_sum(comm, rank, ranks, 1);  // one_shot: links to all
        meeting->barrier(ranks, passed);
        const int lines = rank == 0 ? ranks - 1 : 1;
        const int peer = shares ? limits::descriptors_of_shm_peer : limits::descriptors_of_tcp_peer({});
        const int communicator = 2 * lines + (ranks - 1) * peer;
        const auto of_process = [&] { return descriptors_open() - before - communicator; };
        // Two ranks that call each other at once have two connections until both know which one stays.
        for (int i = 0; of_process() > limits::descriptors_of_process && i < 5000; ++i) sleep_ms(1);
        const int process = of_process();
        // Six of the control thread, and the port; rank 0 may have one or two more while its ranks meet.
        const bool stated = process >= 6 && process <= limits::descriptors_of_process &&
                            communicator <= limits::descriptors_of_communicator(ranks, {});
        meeting->barrier(ranks, passed);  // who leaves takes descriptors of others along
        expect(stated, "rank " + std::to_string(rank) + " of " + std::to_string(ranks) + ": " +
                           std::to_string(process) + " descriptors and " + std::to_string(communicator));
        meeting->barrier(ranks, passed);
        expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
      });
      REQUIRE(trouble == "");
    }
  }
}

TEST_CASE("settings of TCP that differ, or are too large, are errors in a sentence") {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
    const auto fails = [&](int number, const std::string& word) {
      const ncclComm_t comm = meeting->join(number, rank, 2);
      const Said said = timed(comm, [&] { return all_reduce_floats(comm, 10); });
      expect(said.result != ncclSuccess, "an error");
      expect_says(said.sentence, {word, "same on all ranks"});
      ncclCommAbort(comm);
    };
    set_tcp(rank == 0 ? "1" : "2", "1");
    fails(0, "NCCL_NSOCKS_PERTHREAD");
    set_tcp(rank == 0 ? "2" : "1", "1");
    fails(1, "NCCL_NSOCKS_PERTHREAD");
    for (const int shm : {0, 1}) {
      set_tcp("1", "1");
      if (rank == shm) ::setenv("RONDO_TRANSPORT", "shm", 1);
      fails(2 + shm, "RONDO_TRANSPORT");
    }
    ::unsetenv("RONDO_TRANSPORT");
    ::setenv("NCCL_SHM_DISABLE", rank == 0 ? "1" : "0", 1);
    fails(4, "NCCL_SHM_DISABLE");
    ::unsetenv("NCCL_SHM_DISABLE");
    ncclComm_t comm = nullptr;
    const ncclUniqueId id = meeting->id(5, rank);
    const auto refused = [&](ncclResult_t result, std::initializer_list<std::string> words) {
      const Said said = timed(nullptr, [&] { return ncclCommInitRank(&comm, 2, id, rank); });
      expect_result(said.result, result, "ncclCommInitRank");
      expect_says(said.sentence, words);
    };
    set_tcp("16", "5");
    refused(ncclInvalidUsage, {"80", "64"});
    set_tcp("1", "17");
    refused(ncclInvalidArgument, {"NCCL_SOCKET_NTHREADS=17", "from 1 to 16"});
  });
  REQUIRE(trouble == "");
}

TEST_CASE("a RONDO_HOST_TIMEOUT that cannot be is an error in a sentence, and the next one counts") {
  const std::string trouble = run_ranks(Ranks::processes, 1, [&](int) {
    ncclUniqueId id;
    ::setenv("RONDO_HOST_TIMEOUT", "1", 1);
    const Said said = timed(nullptr, [&] { return ncclGetUniqueId(&id); });
    expect(said.result == ncclInvalidArgument, "an invalid argument");
    expect_says(said.sentence, {"RONDO_HOST_TIMEOUT=1", "from 2 to 100000"});
    ::setenv("RONDO_HOST_TIMEOUT", "2", 1);
    expect_success(ncclGetUniqueId(&id), "ncclGetUniqueId");
  });
  REQUIRE(trouble == "");
}

TEST_CASE("a large message that is on its way when its sender leaves still arrives") {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
    set_tcp("1", "1");
    for (int round = 0; round < 8; ++round) {
      const ncclComm_t comm = meeting->join(round, rank, 2);
      std::vector<float> data(100'000, rank == 0 ? 1.0f : 0.0f);
      if (rank == 0) exact_sum(comm, 0, 2, 10);
      if (rank == 1) exact_sum(comm, 1, 2, 10), sleep_ms(30);  // the root may have left by then
      expect_success(ncclBroadcast(data.data(), data.data(), data.size(), ncclFloat32, 0, comm, nullptr), "a call");
      for (const float value : data) expect(value == 1, "the root's value");
      expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
    }
  });
  REQUIRE(trouble == "");
}

TEST_CASE("a rank that has finalized, but not destroyed, fails the calls that need it") {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
    set_tcp("1", "1");
    int passed = 0;
    const ncclComm_t comm = meeting->join(0, rank, 2);
    exact_sum(comm, rank, 2, 1000);
    if (rank == 0) {
      expect_success(ncclCommFinalize(comm), "ncclCommFinalize");
    } else {
      const Said said = timed(comm, [&] { return all_reduce_floats(comm, 1000); });
      expect(said.result == ncclRemoteError, "a remote error");
      expect_says(said.sentence, {"rank 0", "left"});
    }
    meeting->barrier(2, passed);
    expect_success(rank == 0 ? ncclCommDestroy(comm) : ncclCommAbort(comm), "the end");
  });
  REQUIRE(trouble == "");
}

}  // namespace
}  // namespace rondo::test
