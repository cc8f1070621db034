// The control thread and its process: forks, signals, rest, and what is left behind.
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "control.h"
#include "processes.h"
#include "rank.h"

using namespace rondo;
using namespace rondo::test;
using control::Failure;
using std::chrono::milliseconds;

namespace {

bool is_forked_child = false;

/// A line of the control thread's status in /proc, after its colon.
std::string status_of_control_thread(const std::string& field) {
  DIR* tasks = ::opendir("/proc/self/task");
  std::string found;
  while (const dirent* task = ::readdir(tasks)) {
    const std::string at = std::string("/proc/self/task/") + task->d_name;
    std::string name;
    std::getline(std::ifstream(at + "/comm"), name);
    if (name != "rondo-control") continue;
    std::ifstream status(at + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind(field + ":", 0) == 0) found = line.substr(field.size() + 2);
    }
  }
  ::closedir(tasks);
  return found;
}

/// Forks; the child runs `body` and exits (status 1 if it throws).
pid_t fork_child(const std::function<void()>& body) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  is_forked_child = true;
  int status = 0;
  try {
    body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "child: %s\n", error.what());
    status = 1;
  }
  std::exit(status);
}

}  // namespace

/// Asked by the leak checker of a sanitizer build: what the control thread owned is lost to a forked child, rightly.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() { return is_forked_child ? 1 : 0; }

TEST_CASE("a forked child is told so, exits in good order, and disturbs nothing") {
  World world(2, [](int me, Board& board) {
    Rank rank(shared_id(board, me), me, 2);
    Wire& wire = rank.wire(1 - me);
    const auto id = control::create_unique_id();
    const pid_t child = fork_child([&] {
      expect(contains(sentence_of(Code::invalid_usage, [] { control::check_not_forked(); }), "forked"), "a sentence");
      sentence_of(Code::invalid_usage, [] { control::create_unique_id(); });
      sentence_of(Code::invalid_usage, [&] { control::join(id, 0, 1, in_seconds(1)); });
      wire.send(1, {});
      rank.mesh().want(1 - me);
      rank.mesh().tell_failure("from the child");
      rank.close();
    });
    int status = -1;
    ::waitpid(child, &status, 0);
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ends well");
    control::check_not_forked();
    wire.send(2, {});
    expect(rank.frame(1 - me).kind == 2, "a frame of the parent, none of the child");
    ++board.counters[0];
    expect(board.await(0, 2), "both");
    rank.close();
    expect(rank.failure_count() == 0, "no failure");
  });
  CHECK(world.trouble() == "");
}

TEST_CASE("a parent's death is seen although its child lives, also without rank 0") {
  World world(3, [](int me, Board& board) {
    Rank rank(shared_id(board, me), me, 3);
    if (me == 1) rank.wire(2);
    if (me == 2) {
      rank.wire(1);
      const pid_t child = fork_child([] { ::pause(); });
      board.counters[3].store(child);
    }
    ++board.counters[0];
    expect(board.await(0, 3), "all ranks");
    if (me == 0) {
      rank.close();
      ++board.counters[1];
      return;
    }
    expect(board.await(1, 1), "rank 0 to close");
    if (me == 1) rank.await_left(0);
    ++board.counters[2];
    const Failure failure = rank.failure();
    expect(failure.rank == 2 && contains(failure.sentence, "died"), failure.sentence);
  });
  CHECK(world.board().await(2, 2));
  world.kill(2, SIGKILL);
  world.end(2);
  CHECK(world.end(1).status == 0);
  CHECK(world.end(0).status == 0);
  INFO(world.board().texts[0] << world.board().texts[1]);
  ::kill(world.board().counters[3].load(), SIGKILL);
}

TEST_CASE("the control thread blocks all signals, and sleeps when there is nothing to do") {
  World world(2, [](int me, Board& board) {
    Rank rank(shared_id(board, me), me, 2);
    rank.wire(1 - me);
    ++board.counters[0];
    expect(board.await(0, 2), "both");
    // All but the two that cannot be blocked, and those that the C library keeps for itself.
    expect(contains(status_of_control_thread("SigBlk"), "fffffffe7ffbfeff"), status_of_control_thread("SigBlk"));
    // The ends of timers that were cancelled may still wake it once.
    bool rests = false;
    for (int tries = 0; tries < 50 && !rests; ++tries) {
      const std::string before = status_of_control_thread("voluntary_ctxt_switches");
      std::this_thread::sleep_for(milliseconds(300));
      rests = status_of_control_thread("voluntary_ctxt_switches") == before;
    }
    expect(rests, "rest");
    ++board.counters[1];
    expect(board.await(1, 2), "both");
    rank.close();
  });
  CHECK(world.trouble() == "");
}

TEST_CASE("a hundred communicators leave no descriptor and no thread") {
  World world(1, [](int, Board&) {
    const auto cycle = [] {
      const auto id = control::create_unique_id();
      std::vector<std::thread> ranks;
      for (int me = 0; me < 3; ++me) {
        ranks.emplace_back([&id, me] {
          Rank rank(id, me, 3);
          for (int peer = 0; peer < 3; ++peer) {
            if (peer == me) continue;
            rank.wire(peer).send(5, {});
            expect(rank.frame(peer).kind == 5, "a frame");
          }
          rank.close();
        });
      }
      for (auto& rank : ranks) rank.join();
    };
    cycle();
    std::this_thread::sleep_for(milliseconds(100));
    const int descriptors = descriptors_open();
    const int threads = threads_running();
    for (int i = 0; i < 100; ++i) cycle();
    for (int i = 0; i < 500 && descriptors_open() > descriptors; ++i) std::this_thread::sleep_for(milliseconds(10));
    expect(descriptors_open() == descriptors, "as many descriptors as before");
    expect(threads_running() == threads, "as many threads as before");
  });
  CHECK(world.trouble() == "");
}

TEST_CASE("a rank 0 that dies after joining is named by the others' start") {
  World world(2, [](int me, Board& board) {
    const auto membership = control::join(shared_id(board, me), me, 2, in_seconds(20));
    if (me == 0) ::kill(::getpid(), SIGKILL);
    ::kill(board.pids[0].load(), SIGKILL);
    const auto mesh = control::Mesh::create(membership, {});
    const std::string sentence = sentence_of(Code::remote_error, [&] { mesh->start(in_seconds(10)); });
    expect(contains(sentence, "rank 0 (host ") && contains(sentence, "died"), sentence);
  });
  CHECK(world.end(0).status == -SIGKILL);
  CHECK(world.end(1).status == 0);
  INFO(world.board().texts[1]);
}

TEST_CASE("a rank that joins and then does not start is named by rank 0, and the others fail") {
  World world(3, [](int me, Board& board) {
    const auto membership = control::join(shared_id(board, me), me, 3, in_seconds(20));
    if (me == 2) {
      expect(board.await(0, 2), "the others");
      return;
    }
    if (me == 0) {
      const auto mesh = control::Mesh::create(membership, {});
      const std::string sentence = sentence_of(Code::timeout, [&] { mesh->start(in_seconds(0.5)); });
      expect(contains(sentence, "waiting for rank 2 of 3"), sentence);
      ++board.counters[0];
      expect(board.await(0, 2), "rank 1");
      return;
    }
    std::atomic<bool> failed = false;
    control::Mesh::Hooks hooks;
    hooks.failed = [&](const Failure& failure) { failed = failure.rank == 0 && contains(failure.sentence, "rank 2"); };
    const auto mesh = control::Mesh::create(membership, hooks);
    mesh->start(in_seconds(10));
    for (int i = 0; i < 1000 && !failed; ++i) std::this_thread::sleep_for(milliseconds(10));
    ++board.counters[0];
    expect(failed, "the failure of rank 0");
  });
  CHECK(world.trouble() == "");
}
