// Helpers of TCP links: that they move bytes, take errands from each other and give them back; and that they leave
// nothing behind.  Who moved what is counted in this program's own sendmsg and recvmsg, where a thread can be held up.
#define CATCH_CONFIG_MAIN
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/doorbell.h"
#include "base/limits.h"
#include "transports/tcp_helpers.h"
#include "transports/tcp_stream.h"
#include "wires.h"

using namespace rondo;
using namespace links;

namespace {

/// What sendmsg and recvmsg of this program know and do.  A global, as they are called from the library.
struct Kernel {
  std::mutex mutex;
  std::map<pid_t, std::size_t> bytes;  // that each thread moved
  std::set<int> gates;                 // a thread that is about to use one of these sockets is held up
  std::set<pid_t> held;
  std::atomic<bool> hampered{false};
};
Kernel& kernel() {
  static auto& one = *new Kernel;
  return one;
}

/// The owners' bell.  It has no destructor that a helper could come too late for.
Doorbell& doorbell() {
  static auto& one = *new Doorbell(Doorbell::create());
  return one;
}

pid_t thread_id() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

void pause_a_little() { std::this_thread::sleep_for(std::chrono::microseconds(200)); }

/// A thread that comes to this socket waits there until it is opened.  Not the test's own.
void wait_at_gate(int socket) {
  const pid_t me = thread_id();
  for (;;) {
    {
      const std::lock_guard lock(kernel().mutex);
      const bool held = me != ::getpid() && kernel().gates.contains(socket);
      if (held) kernel().held.insert(me);
      if (!held) kernel().held.erase(me);
      if (!held) return;
    }
    pause_a_little();
  }
}

ssize_t counted(ssize_t bytes) {
  if (bytes <= 0) return bytes;
  const std::lock_guard lock(kernel().mutex);
  kernel().bytes[thread_id()] += static_cast<std::size_t>(bytes);
  return bytes;
}

}  // namespace

extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  wait_at_gate(socket);
  return counted(::syscall(SYS_sendmsg, socket, message, flags));
}
extern "C" ssize_t recvmsg(int socket, msghdr* message, int flags) {
  wait_at_gate(socket);
  return counted(::syscall(SYS_recvmsg, socket, message, flags));
}

namespace {

using tcp::Errand;
using tcp::Helpers;

constexpr std::size_t most = limits::slot_bytes;

/// Until it is so; false: not within a minute.
template <typename Condition>
bool eventually(Condition&& condition) {
  for (int tries = 0; tries < 300'000; ++tries) {
    if (condition()) return true;
    pause_a_little();
  }
  return false;
}

/// The threads of this process but this one, with their names.
std::map<pid_t, std::string> other_threads() {
  std::map<pid_t, std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    const pid_t id = std::stoi(entry.path().filename());
    std::ifstream file(entry.path() / "comm");
    std::string name;
    if (id != ::getpid() && std::getline(file, name)) names[id] = name;
  }
  return names;
}

std::size_t helper_threads() {
  const auto threads = other_threads();
  return static_cast<std::size_t>(std::count_if(
      threads.begin(), threads.end(), [](const auto& thread) { return thread.second.starts_with("rondo-tcp-"); }));
}

/// By threads of the library, not by the test's.
std::size_t bytes_by_helpers() {
  const std::lock_guard lock(kernel().mutex);
  std::size_t bytes = 0;
  for (const auto& [thread, moved] : kernel().bytes) bytes += thread != ::getpid() ? moved : 0;
  return bytes;
}

std::size_t threads_at_gates() {
  const std::lock_guard lock(kernel().mutex);
  return kernel().held.size();
}

void close_gate(int socket) {
  const std::lock_guard lock(kernel().mutex);
  kernel().gates.insert(socket);
}

void open_gates() {
  const std::lock_guard lock(kernel().mutex);
  kernel().gates.clear();
}

void forget() {
  open_gates();
  const std::lock_guard lock(kernel().mutex);
  kernel().bytes.clear();
}

std::vector<std::byte> content(std::size_t bytes, std::uint64_t number) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 7 + i / 251 + number * 31);
  return data;
}

/// A TCP connection with non-blocking ends; errands are given on it.
struct Stream {
  Stream() {
    std::tie(first, second) = loopback_sockets();
    for (const Descriptor* socket : {&first, &second}) ::fcntl(socket->get(), F_SETFL, O_NONBLOCK);
  }
  Descriptor first;
  Descriptor second;
};

iovec part(std::vector<std::byte>& data) { return {data.data(), data.size()}; }

std::uint64_t sum(const Helpers& helpers, std::uint64_t tcp::HelperCounts::*field) {
  std::uint64_t total = 0;
  for (const auto& counts : helpers.counts()) total += counts.*field;
  return total;
}

/// Two sends of one home: the helper that took the first is held at a gate.
struct HeldUp {
  explicit HeldUp(int count) : helpers(count, doorbell().ringer()), data(content(most, 0)) {
    for (int i = 0; i < 2; ++i) errands[i] = helpers.hire(0, streams[i].first.get(), true);
    close_gate(streams[0].first.get());
    helpers.give(*errands[0], {}, part(data));
    REQUIRE(eventually([] { return threads_at_gates() == 1; }));
    helpers.give(*errands[1], {}, part(data));
  }
  ~HeldUp() {
    open_gates();
    for (Errand* errand : errands) helpers.dismiss(*errand);
  }
  Helpers helpers;
  Stream streams[2];
  std::vector<std::byte> data;
  Errand* errands[2] = {};
};

}  // namespace

TEST_CASE("helpers move what they are given, without the owner's help") {
  forget();
  REQUIRE(helper_threads() == 0);
  {
    Helpers helpers(2, doorbell().ringer());
    CHECK(helper_threads() == 2);
    Stream stream;
    Errand* const sends = helpers.hire(0, stream.first.get(), true);
    Errand* const receives = helpers.hire(1, stream.second.get(), false);
    REQUIRE(sends != nullptr);
    REQUIRE(receives != nullptr);
    for (std::uint64_t number = 0; number < 3; ++number) {
      auto source = content(8u << 20, number);
      std::vector<std::byte> target(source.size());
      const std::size_t cut = number * 24;
      helpers.give(*receives, {}, part(target));
      helpers.give(*sends, {source.data(), cut}, {source.data() + cut, source.size() - cut});
      REQUIRE(eventually([&] { return sum(helpers, &tcp::HelperCounts::pieces) == 2 * (number + 1); }));
      REQUIRE(eventually([&] { return helpers.over(*sends); }));
      REQUIRE(eventually([&] { return helpers.over(*receives); }));
      CHECK_FALSE(sends->failed);
      CHECK_FALSE(receives->failed);
      CHECK(target == source);
    }
    CHECK(bytes_by_helpers() == 2 * 3 * (8u << 20));
    CHECK(sum(helpers, &tcp::HelperCounts::bytes) == 2 * 3 * (8u << 20));
    CHECK(helpers.taken_back() == 0);
    for (Errand* errand : {sends, receives}) helpers.dismiss(*errand);
  }
  CHECK(eventually([] { return helper_threads() == 0; }));
}

TEST_CASE("a helper takes what another that is busy would have to do") {
  forget();
  HeldUp held(2);
  Helpers& helpers = held.helpers;
  REQUIRE(eventually([&] { return sum(helpers, &tcp::HelperCounts::pieces) == 1; }));
  REQUIRE(helpers.over(*held.errands[1]));
  CHECK_FALSE(helpers.over(*held.errands[0]));
  open_gates();
  REQUIRE(eventually([&] { return helpers.over(*held.errands[0]); }));
  // Both have one home: so one of the two was another's, and each thread moved one.
  CHECK(sum(helpers, &tcp::HelperCounts::stolen) == 1);
  for (const auto& counts : helpers.counts()) CHECK(counts.bytes == most);
  CHECK(helpers.taken_back() == 0);
}

TEST_CASE("an owner takes an errand that no helper comes to") {
  forget();
  HeldUp held(1);
  Helpers& helpers = held.helpers;
  CHECK(eventually([&] { return helpers.over(*held.errands[1]); }));
  CHECK(helpers.taken_back() == 1);
  CHECK(bytes_by_helpers() == 0);
  open_gates();
  CHECK(eventually([&] { return helpers.over(*held.errands[0]); }));
  CHECK(bytes_by_helpers() == most);
}

TEST_CASE("what is recalled is touched no more, whoever has it") {
  forget();
  Helpers helpers(1, doorbell().ringer());
  Stream streams[2];
  std::vector<std::byte> target(most);
  Errand* errands[2];
  for (int i = 0; i < 2; ++i) errands[i] = helpers.hire(0, streams[i].second.get(), false);
  const auto bytes = content(100, 1);
  const auto arrive = [&](int i) {
    REQUIRE(::send(streams[i].first.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  };
  // One that has begun, and whose helper sleeps on the socket.
  arrive(0);
  helpers.give(*errands[0], {}, part(target));
  REQUIRE(eventually([&] { return sum(helpers, &tcp::HelperCounts::bytes) == bytes.size(); }));
  helpers.recall(*errands[0]);
  CHECK(errands[0]->failed);
  // One that no helper has taken: it is at the gate of the other.
  close_gate(streams[0].second.get());
  arrive(0);
  helpers.give(*errands[0], {}, part(target));
  REQUIRE(eventually([] { return threads_at_gates() == 1; }));
  arrive(1);
  helpers.give(*errands[1], {}, part(target));
  helpers.recall(*errands[1]);
  CHECK(errands[1]->failed);
  // One whose helper is in a system call: recalling waits for it.
  std::thread opens([] {
    for (int i = 0; i < 20; ++i) pause_a_little();
    open_gates();
  });
  helpers.recall(*errands[0]);
  opens.join();
  CHECK(sum(helpers, &tcp::HelperCounts::bytes) == 2 * bytes.size());
  std::fill(target.begin(), target.end(), std::byte{0xee});
  arrive(0);
  for (int i = 0; i < 20; ++i) pause_a_little();
  CHECK(std::count(target.begin(), target.end(), std::byte{0xee}) == static_cast<std::ptrdiff_t>(most));
  std::byte left[1000];
  CHECK(::recv(streams[1].second.get(), left, sizeof left, 0) == static_cast<ssize_t>(bytes.size()));
  for (Errand* errand : errands) helpers.dismiss(*errand);
}

TEST_CASE("an errand on a stream that ends has failed, and the bell wakes who sleeps") {
  forget();
  Helpers helpers(1, doorbell().ringer());
  Stream stream;
  std::vector<std::byte> target(most);
  Errand* const errand = helpers.hire(0, stream.second.get(), false);
  // As a call does that sleeps on sockets, but by hand: what counts is whether it is woken.
  const auto wakes = [&](auto&& event) {
    helpers.give(*errand, {}, part(target));
    doorbell().page().sleepers.fetch_add(1);
    doorbell().page().on_sockets.fetch_add(1);
    while (!helpers.over(*errand)) {
      event();
      pollfd rung{doorbell().event_fd(), POLLIN, 0};
      REQUIRE(::poll(&rung, 1, 60'000) == 1);
      std::uint64_t count = 0;
      REQUIRE(::read(rung.fd, &count, sizeof count) == sizeof count);
    }
    doorbell().page().on_sockets.fetch_sub(1);
    doorbell().page().sleepers.fetch_sub(1);
  };
  std::size_t sent = 0;
  const auto data = content(most, 0);
  wakes([&] {
    const ssize_t more = ::send(stream.first.get(), data.data() + sent, most - sent, MSG_NOSIGNAL);
    sent += more > 0 ? static_cast<std::size_t>(more) : 0;
  });
  CHECK_FALSE(errand->failed);
  CHECK(target == data);
  wakes([&] { stream.first.reset(); });
  CHECK(errand->failed);
  helpers.dismiss(*errand);
}

TEST_CASE("a helper has so many errands, and no more") {
  Helpers helpers(1, doorbell().ringer());
  std::vector<Errand*> errands;
  for (int i = 0; i < limits::errands_of_helper_max; ++i) errands.push_back(helpers.hire(0, -1, true));
  CHECK(std::count(errands.begin(), errands.end(), nullptr) == 0);
  CHECK(helpers.hire(0, -1, true) == nullptr);
  helpers.dismiss(*errands.back());
  errands.back() = helpers.hire(0, -1, true);
  CHECK(errands.back() != nullptr);
  for (Errand* errand : errands) helpers.dismiss(*errand);
}

TEST_CASE("helpers block all signals, and a forked child ends without them") {
  Helpers helpers(2, doorbell().ringer());
  for (const auto& [thread, name] : other_threads()) {
    if (!name.starts_with("rondo-tcp-")) continue;
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/status");
    std::string line;
    while (std::getline(file, line) && !line.starts_with("SigBlk:")) {
    }
    REQUIRE(line.size() > 20);
    const unsigned long long blocked = std::stoull(line.substr(8), nullptr, 16);
    CHECK((blocked >> 9 & 1u) == 1);   // SIGUSR1
    CHECK((blocked >> 14 & 1u) == 1);  // SIGTERM
  }
#ifndef __SANITIZE_THREAD__  // which does not start threads in a child of a process that has some
  Stream stream;
  std::vector<std::byte> target(most);
  Errand* const errand = helpers.hire(0, stream.second.get(), false);
  helpers.give(*errand, {}, part(target));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    helpers.dismiss(*errand);
    helpers.~Helpers();
    ::_exit(7);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  helpers.dismiss(*errand);
#endif
}

// ---------------------------------------------------------------- at the ends of links

namespace {

/// A link each way, with helpers on both sides.
class Links {
 public:
  Links(int sockets, int threads) {
    for (int rank = 0; rank < 2; ++rank) {
      if (threads > 1) helpers_[rank] = std::make_unique<Helpers>(threads - 1, doorbell().ringer());
    }
    std::vector<int> ends[2];
    for (int i = 0; i < sockets; ++i) {
      streams_.push_back(std::make_unique<Stream>());
      ends[0].push_back(streams_.back()->first.get());
      ends[1].push_back(streams_.back()->second.get());
    }
    for (int rank = 0; rank < 2; ++rank) {
      senders_[rank] = std::make_unique<tcp::Sender>(ends[rank], peers_[rank], helpers_[rank].get());
      receivers_[rank] = std::make_unique<tcp::Receiver>(ends[rank], peers_[rank], helpers_[rank].get());
    }
  }
  ~Links() {
    for (int rank = 0; rank < 2; ++rank) {
      senders_[rank].reset();
      receivers_[rank].reset();
    }
  }
  tcp::Sender& sender(int rank) { return *senders_[rank]; }
  tcp::Receiver& receiver(int rank) { return *receivers_[rank]; }
  tcp::Peer& peer(int rank) { return peers_[rank]; }
  Helpers& helpers(int rank) { return *helpers_[rank]; }
  Stream& stream(std::size_t index) { return *streams_[index]; }

 private:
  std::unique_ptr<Helpers> helpers_[2];
  std::vector<std::unique_ptr<Stream>> streams_;
  tcp::Peer peers_[2] = {tcp::Peer(1), tcp::Peer(0)};
  std::unique_ptr<tcp::Sender> senders_[2];
  std::unique_ptr<tcp::Receiver> receivers_[2];
};

bool holds(const Message& message, std::size_t bytes, std::uint64_t number) {
  const auto data = content(bytes, number);
  return message.bytes == bytes && message.signature.call == number &&
         (bytes == 0 || std::memcmp(message.data, data.data(), bytes) == 0);
}

/// By one of the three ways to send, in turn.
bool try_send(tcp::Sender& sender, std::vector<std::byte>& kept, std::size_t bytes, std::uint64_t number) {
  std::byte* const room = sender.reserve(bytes);
  if (room == nullptr) return false;
  const Signature signature{1, static_cast<std::uint32_t>(number), 0, 0, 0, 0};
  auto data = content(bytes, number);
  switch (number % 3) {
    case 0:
      if (bytes > 0) std::memcpy(room, data.data(), bytes);
      sender.commit(bytes, signature, {});
      break;
    case 1:
      sender.send_copy(data.data(), bytes, signature, {});
      std::fill(data.begin(), data.end(), std::byte{0xee});
      break;
    default:
      kept = std::move(data);  // until released() counts it
      (void)sender.send_from(kept.data(), bytes, signature, {});
  }
  return true;
}

}  // namespace

TEST_CASE("large messages go by helpers, small ones do not, and all arrive in order") {
  const std::size_t sizes[] = {most, 8, most - 1, 0, 70'000, most, 24, limits::helped_bytes_min, 4096};
  for (const auto& [sockets, threads] : {std::pair(2, 2), std::pair(4, 2), std::pair(4, 4)}) {
    forget();
    Links links(sockets, threads);
    std::vector<std::byte> kept[2][2 * limits::headers];
    std::vector<std::byte> targets[2] = {std::vector<std::byte>(most), std::vector<std::byte>(most)};
    std::uint64_t sent[2] = {};
    std::uint64_t received[2] = {};
    constexpr std::uint64_t count = 400;
    const auto size = [&](std::uint64_t number) { return sizes[number % std::size(sizes)]; };
    const bool all = eventually([&] {
      for (int rank = 0; rank < 2; ++rank) {
        auto& room = kept[rank][sent[rank] % std::size(kept[rank])];
        if (sent[rank] < count && try_send(links.sender(rank), room, size(sent[rank]), sent[rank])) ++sent[rank];
        (void)links.sender(rank).flush();
        const std::size_t bytes = size(received[rank]);
        if (received[rank] % 2 == 0) links.receiver(rank).land(targets[rank].data(), bytes);
        const Message* const message = links.receiver(rank).peek();
        if (message == nullptr) continue;
        REQUIRE(holds(*message, bytes, received[rank]));
        links.receiver(rank).release();
        ++received[rank];
      }
      return received[0] >= count && received[1] >= count;
    });
    CHECK(all);
    for (int rank = 0; rank < 2; ++rank) {
      const std::uint64_t by_helpers = sum(links.helpers(rank), &tcp::HelperCounts::pieces);
      INFO(sockets << " sockets, " << threads << " threads, " << by_helpers << " pieces by helpers");
      CHECK(by_helpers > 0);
      CHECK(by_helpers + links.helpers(rank).taken_back() <= 2 * count);
    }
    CHECK(bytes_by_helpers() > 0);
  }
}

TEST_CASE("an end that is stopped leaves its user's memory alone, and the link is of no more use") {
  forget();
  Links links(2, 2);
  // Message 1 is the helper's: begun on one side, and half come on the other.
  std::vector<std::byte> source(most), target(most);
  REQUIRE(links.sender(0).reserve(8) != nullptr);
  links.sender(0).commit(8, {}, {});
  REQUIRE(eventually([&] { return links.receiver(1).peek() != nullptr; }));
  links.receiver(1).release();
  links.receiver(1).land(target.data(), most);
  const tcp::Header header{2, most, {}};
  std::vector<std::byte> bytes(sizeof header + 40'000);
  std::memcpy(bytes.data(), &header, sizeof header);
  REQUIRE(::send(links.stream(1).first.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  REQUIRE(eventually([&] {  // half of it is taken, by the helper or, where that one is late, by the owner
    CHECK(links.receiver(1).peek() == nullptr);
    int unread = -1;
    REQUIRE(::ioctl(links.stream(1).second.get(), FIONREAD, &unread) == 0);
    return unread == 0;
  }));
  links.receiver(1).stop();
  std::fill(target.begin(), target.end(), std::byte{0xee});
  REQUIRE(::send(links.stream(1).first.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  for (int i = 0; i < 20; ++i) {
    links.receiver(1).poll();
    CHECK(links.receiver(1).peek() == nullptr);
    pause_a_little();
  }
  CHECK(std::count(target.begin(), target.end(), std::byte{0xee}) == static_cast<std::ptrdiff_t>(most));
  // A sender with more than the kernel takes: its helper waits for room when it is stopped.
  std::uint64_t sent = 1;
  while (links.sender(0).reserve(most) != nullptr && sent < 1000) {
    (void)links.sender(0).send_from(source.data(), most, {}, {});
    ++sent;
    for (int i = 0; i < 50 && !links.sender(0).flush(); ++i) pause_a_little();
  }
  links.sender(0).stop();
  CHECK_FALSE(links.sender(0).flush());
}

TEST_CASE("what is on its way counts where another socket has ended and the peer has left") {
  forget();
  for (const int threads : {1, 2}) {
    Links links(2, threads);
    std::vector<std::byte> bytes(sizeof(tcp::Header) + most);
    const auto data = content(most, 0);
    const auto put = [&](std::size_t socket, const tcp::Header& header, std::size_t from, std::size_t upto) {
      std::memcpy(bytes.data(), &header, sizeof header);
      std::memcpy(bytes.data() + sizeof header, data.data(), data.size());
      const auto left = static_cast<ssize_t>(upto - from);
      REQUIRE(::send(links.stream(socket).first.get(), bytes.data() + from, upto - from, 0) == left);
    };
    const auto arrives = [&] {
      return eventually([&] {
        CHECK(links.receiver(1).status().ok());
        return links.receiver(1).peek() != nullptr;
      });
    };
    put(0, {1, 8, {}}, 0, sizeof(tcp::Header) + 8);
    REQUIRE(arrives());
    links.receiver(1).release();
    put(1, {2, most, {}}, 0, most / 2);
    ::shutdown(links.stream(0).first.get(), SHUT_WR);
    links.peer(1).tell(Code::remote_error);
    for (int i = 0; i < 20; ++i) {
      CHECK(links.receiver(1).peek() == nullptr);
      links.receiver(1).poll();
    }
    CHECK(links.receiver(1).status().ok());
    put(1, {2, most, {}}, most / 2, bytes.size());
    ::shutdown(links.stream(1).first.get(), SHUT_WR);
    REQUIRE(arrives());
    CHECK(std::memcmp(links.receiver(1).peek()->data, data.data(), most) == 0);
    links.receiver(1).release();
    CHECK(eventually([&] {
      links.receiver(1).poll();
      return links.receiver(1).status().code == Code::remote_error;
    }));
  }
}

TEST_CASE("a peer that goes while helpers have errands out is a remote error on both ends") {
  forget();
  Links links(2, 2);
  std::vector<std::byte> bytes(sizeof(tcp::Header) + 5000);
  const tcp::Header headers[] = {{1, 8, {}}, {2, most, {}}};
  std::memcpy(bytes.data(), &headers[0], sizeof headers[0]);
  REQUIRE(::send(links.stream(0).first.get(), bytes.data(), sizeof(tcp::Header) + 8, 0) > 0);
  REQUIRE(eventually([&] { return links.receiver(1).peek() != nullptr; }));
  links.receiver(1).release();
  std::memcpy(bytes.data(), &headers[1], sizeof headers[1]);
  REQUIRE(::send(links.stream(1).first.get(), bytes.data(), bytes.size(), 0) > 0);
  for (int i = 0; i < 5; ++i) {
    CHECK(links.receiver(1).peek() == nullptr);
    pause_a_little();
  }
  links.sender(0).stop();
  for (const std::size_t i : {0, 1}) ::shutdown(links.stream(i).first.get(), SHUT_RDWR);
  links.peer(1).tell(Code::remote_error);
  REQUIRE(eventually([&] {
    links.receiver(1).poll();
    return !links.receiver(1).status().ok();
  }));
  CHECK(links.receiver(1).status().code == Code::remote_error);
  CHECK(links.sender(1).status().code == Code::remote_error);
}
