// Strangers at the door: nothing they send, or fail to send, harms a job or costs it more than a bound.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "control.h"
#include "control/bytes.h"
#include "control/handshake.h"
#include "processes.h"
#include "rank.h"

using namespace rondo;
using namespace rondo::test;
using control::ByteWriter;

namespace {

/// To an abstract socket, or to "tcp PORT" of this host.
Descriptor connect_plainly(const std::string& name) {
  if (name.starts_with("tcp ")) {
    Descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(name.substr(4))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return {};
    return fd;
  }
  Descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) return {};
  return fd;
}

std::string frame(std::uint16_t version, std::uint16_t kind, std::uint8_t descriptors, std::uint32_t said_bytes,
                  const std::vector<std::byte>& body) {
  ByteWriter writer;
  writer.number(0x4f444e52u).number(version).number(kind).number(std::uint8_t{0}).number(descriptors);
  writer.number(std::uint16_t{0}).number(said_bytes).raw(body);
  return std::string(reinterpret_cast<const char*>(writer.bytes().data()), writer.size());
}

/// Sends, with a descriptor if asked, and waits until the other side has closed; false if it has not within 10 s.
bool dropped_after(const std::string& name, const std::string& bytes, bool with_descriptor = false) {
  const Descriptor fd = connect_plainly(name);
  expect(static_cast<bool>(fd), "a listener");
  iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (with_descriptor) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int own = fd.get();
    std::memcpy(CMSG_DATA(header), &own, sizeof(own));
  }
  if (::sendmsg(fd.get(), &message, MSG_NOSIGNAL) < 0) return true;
  const timeval patience = {10, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  char answer[1024];
  for (;;) {
    const ssize_t got = ::recv(fd.get(), answer, sizeof(answer), 0);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) return true;
    if (got < 0) return false;
  }
}

void be_strange(const std::string& name, std::uint64_t communicator) {
  std::string garbage(4000, '\0');
  for (std::size_t i = 0; i < garbage.size(); ++i) garbage[i] = static_cast<char>(i * 37 + 11);
  expect(dropped_after(name, garbage), "garbage is dropped");
  expect(dropped_after(name, "GET / HTTP/1.1\r\n\r\n"), "another protocol is dropped");
  expect(dropped_after(name, frame(99, 1, 0, 45, {})), "another version is dropped");
  expect(dropped_after(name, frame(1, 1, 0, 0xffffffff, {})), "a huge frame is dropped");
  expect(dropped_after(name, frame(1, 1, 0, 3, std::vector<std::byte>(3))), "a short hello is dropped");
  expect(dropped_after(name, frame(1, 3, 0, 32, std::vector<std::byte>(32))), "a proof before hello is dropped");
  if (!name.starts_with("tcp ")) expect(dropped_after(name, "x", true), "descriptors are dropped");
  const auto hello =
      control::handshake::encode(control::handshake::Hello{{control::Purpose::mesh, communicator, 0}, {}});
  const auto hello_frame = frame(1, 1, 0, static_cast<std::uint32_t>(hello.size()), hello);
  expect(dropped_after(name, hello_frame + frame(1, 3, 0, 40, std::vector<std::byte>(40))), "a wrong proof is dropped");
  expect(dropped_after(name, hello_frame + hello_frame), "a second hello is dropped");
  const auto join = control::handshake::encode(control::handshake::Hello{{control::Purpose::join, 1, 0}, {}});
  expect(dropped_after(name, frame(1, 1, 0, static_cast<std::uint32_t>(join.size()), join)),
         "an unknown id is refused");
}

}  // namespace

TEST_CASE("strangers are dropped, the job goes on, and no descriptor stays") {
  const bool tcp = GENERATE(false, true);
  World world(3, [tcp](int me, Board& board) {
    if (me == 2) {
      expect(board.await(0, 2), "the job");
      be_strange(board.texts[60], std::stoull(board.texts[61]));
      std::vector<Descriptor> silent;
      // More than may wait at once: the oldest go, and the newest rank still comes in.
      for (int i = 0; i < limits::handshakes_max + 100; ++i) {
        silent.push_back(connect_plainly(board.texts[60]));
        if (i % 3 == 0) ::send(silent.back().get(), "RND", 3, MSG_NOSIGNAL);
      }
      ++board.counters[1];
      expect(board.await(2, 2), "the job's work");
      return;
    }
    Rank rank(shared_id(board, me), me, 2);
    if (me == 0) {
      const auto& member = rank.membership().members[0];
      board.say(60, tcp ? "tcp " + std::to_string(member.addresses[0].port) : member.listener);
      board.say(61, std::to_string(rank.membership().communicator));
    }
    const int before = descriptors_open();
    ++board.counters[0];
    expect(board.await(1, 1), "the strangers");
    Rank second(shared_id(board, me, 1), me, 2);
    rank.wire(1 - me).send(7, {});
    expect(rank.frame(1 - me).kind == 7, "a frame");
    second.close();
    ++board.counters[2];
    expect(board.await(2, 2), "both");
    rank.close();
    for (int i = 0; i < 1000 && descriptors_open() > before; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    expect(descriptors_open() <= before, "no descriptor left");
    expect(rank.failure_count() == 0, "no failure");
  });
  CHECK(world.trouble() == "");
}

TEST_CASE("strangers that take all descriptors make room for ranks") {
  World world(3, [](int me, Board& board) {
    if (me == 2) {
      expect(board.await(0, 1), "the root");
      std::vector<Descriptor> silent;
      for (int i = 0; i < 200; ++i) silent.push_back(connect_plainly(board.texts[60]));
      ++board.counters[1];
      expect(board.await(2, 2), "the job's work");
      return;
    }
    if (me == 0) {
      const rlimit few = {48, 48};
      ::setrlimit(RLIMIT_NOFILE, &few);
      const auto alone = control::join(control::create_unique_id(), 0, 1, in_seconds(5));
      board.say(60, alone.members[0].listener);
      ++board.counters[0];
    }
    expect(board.await(1, 1), "the strangers");
    Rank rank(shared_id(board, me), me, 2);
    ++board.counters[2];
    expect(board.await(2, 2), "both");
    rank.close();
  });
  CHECK(world.trouble() == "");
}
