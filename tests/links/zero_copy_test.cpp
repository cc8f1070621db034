// Sends without a copy by the kernel: their memory stays the sender's until the news of it, whatever way that comes.
#define CATCH_CONFIG_MAIN
#include <fcntl.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "transports/tcp_stream.h"
#include "transports/tcp_zero_copy.h"
#include "wires.h"

using namespace rondo;
using namespace links;
using tcp::ZeroCopyUse;

namespace {

constexpr std::size_t most = limits::tcp_slot_bytes;

struct News {
  std::uint32_t first, last;
  bool copied = false;
};

/// What this program's sendmsg and recvmsg do besides.
struct Kernel {
  bool silent = false;   // no news of sends without a copy
  bool made_up = false;  // those below in place of the kernel's own
  std::deque<News> news;
  bool short_of_memory = false;  // refuses such sends
  int in_place = 0;
};
Kernel kernel;

ssize_t tell_made_up(msghdr* message) {
  if (kernel.news.empty()) {
    errno = EAGAIN;
    return -1;
  }
  const News news = kernel.news.front();
  kernel.news.pop_front();
  sock_extended_err error{};
  error.ee_origin = SO_EE_ORIGIN_ZEROCOPY;
  error.ee_code = news.copied ? SO_EE_CODE_ZEROCOPY_COPIED : 0;
  error.ee_info = news.first;
  error.ee_data = news.last;
  cmsghdr* const part = CMSG_FIRSTHDR(message);
  part->cmsg_level = SOL_IP;
  part->cmsg_type = IP_RECVERR;
  part->cmsg_len = CMSG_LEN(sizeof error);
  std::memcpy(CMSG_DATA(part), &error, sizeof error);
  message->msg_controllen = CMSG_SPACE(sizeof error);
  return 0;
}

}  // namespace

extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  const bool in_place = (flags & MSG_ZEROCOPY) != 0;
  if (in_place && kernel.short_of_memory) {
    errno = ENOBUFS;
    return -1;
  }
  kernel.in_place += in_place ? 1 : 0;
  return ::syscall(SYS_sendmsg, socket, message, flags);
}
extern "C" ssize_t recvmsg(int socket, msghdr* message, int flags) {
  if ((flags & MSG_ERRQUEUE) != 0 && kernel.made_up) return tell_made_up(message);
  if ((flags & MSG_ERRQUEUE) != 0 && kernel.silent) {
    errno = EAGAIN;
    return -1;
  }
  return ::syscall(SYS_recvmsg, socket, message, flags);
}

namespace {

/// One link over sockets of the test's.
struct Stream {
  explicit Stream(ZeroCopyUse use, int sockets = 1) {
    kernel = {};
    std::vector<int> ends[2];
    for (int i = 0; i < sockets; ++i) {
      auto [first, second] = loopback_sockets();
      for (Descriptor* socket : {&first, &second}) {
        REQUIRE(::fcntl(socket->get(), F_SETFL, O_NONBLOCK) == 0);
        ends[socket == &second].push_back(socket->get());
        descriptors.push_back(std::move(*socket));
      }
    }
    sender = std::make_unique<tcp::Sender>(ends[0], peers[0], nullptr, use);
    receiver = std::make_unique<tcp::Receiver>(ends[1], peers[1]);
  }
  bool send_from(const std::vector<std::byte>& source, std::uint32_t number) {
    return sender->reserve(source.size()) != nullptr &&
           sender->send_from(source.data(), source.size(), {1, number, 0, 0, 0, 0}, {});
  }
  /// Whether the next message has come, whole and with `value` in each byte.
  bool takes(std::size_t bytes, std::byte value) {
    for (int tries = 0; tries < 20'000; ++tries) {
      if (const Message* const message = receiver->peek()) {
        const bool good = message->bytes == bytes && std::vector<std::byte>(bytes, value) ==
                                                         std::vector<std::byte>(message->data, message->data + bytes);
        receiver->release();
        return good;
      }
      (void)sender->flush();
      if (tries > 1000) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  bool all_released() {
    for (int tries = 0; tries < 20'000 && sender->released() != sender->sent(); ++tries) {
      if (tries > 1000) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return sender->released() == sender->sent() && sender->flush();
  }
  const tcp::ZeroCopy& zero_copy(std::size_t socket = 0) const { return sender->zero_copies()[socket]; }

  std::vector<Descriptor> descriptors;
  tcp::Peer peers[2] = {tcp::Peer(1), tcp::Peer(0)};
  std::unique_ptr<tcp::Sender> sender;
  std::unique_ptr<tcp::Receiver> receiver;
};

}  // namespace

TEST_CASE("what is released may be overwritten, and nothing else is") {
  for (const int sockets : {1, 3}) {
    Stream stream(ZeroCopyUse::always, sockets);
    constexpr std::size_t sources = 3 * limits::headers / 2;
    const std::size_t sizes[] = {most, limits::zero_copy_bytes_min, 1, limits::zero_copy_bytes_min - 1, most - 1};
    std::vector<std::vector<std::byte>> memory(sources);
    std::uint64_t taken = 0;
    const auto size = [&](std::uint64_t number) { return sizes[number % std::size(sizes)]; };
    for (std::uint64_t number = 0; number < 600; ++number) {
      std::vector<std::byte>& source = memory[number % sources];
      if (number >= sources) {
        while (stream.sender->released() <= number - sources) {
          REQUIRE(stream.takes(size(taken), static_cast<std::byte>(taken)));
          ++taken;
        }
      }
      source.assign(size(number), static_cast<std::byte>(number));
      while (!stream.send_from(source, static_cast<std::uint32_t>(number))) {
        REQUIRE(stream.takes(size(taken), static_cast<std::byte>(taken)));
        ++taken;
      }
    }
    for (; taken < 600; ++taken) REQUIRE(stream.takes(size(taken), static_cast<std::byte>(taken)));
    CHECK(stream.all_released());
    CHECK(kernel.in_place > 0);
  }
}

TEST_CASE("a room of the sender's own is not filled again before the news") {
  Stream stream(ZeroCopyUse::always);
  kernel.silent = true;
  for (int number = 0; number < limits::credits; ++number) {
    std::byte* const room = stream.sender->reserve(most);
    REQUIRE(room != nullptr);
    std::memset(room, number, most);
    stream.sender->commit(most, {1, static_cast<std::uint32_t>(number), 0, 0, 0, 0}, {});
  }
  for (int number = 0; number < limits::credits; ++number) REQUIRE(stream.takes(most, static_cast<std::byte>(number)));
  CHECK(stream.sender->reserve(most) == nullptr);
  CHECK(stream.sender->released() == 0);
  CHECK_FALSE(stream.sender->flush());
  Wakeups wakeups;
  stream.sender->add_wakeups(wakeups);
  REQUIRE(wakeups.complete());
  REQUIRE(wakeups.sockets().size() == 1);
  CHECK(wakeups.sockets()[0].events == 0);
  CHECK_FALSE(wakeups.sleep(60'000'000, -1));
  CHECK((wakeups.sockets()[0].revents & POLLERR) != 0);
  kernel.silent = false;
  CHECK(stream.all_released());
  CHECK(stream.sender->reserve(most) != nullptr);
}

TEST_CASE("a kernel that copies all the same is not asked again, unless always") {
  for (const ZeroCopyUse use : {ZeroCopyUse::off, ZeroCopyUse::trial, ZeroCopyUse::always}) {
    Stream stream(use);
    const std::vector<std::byte> source(most, std::byte{7});
    for (std::uint32_t number = 0; number < 8; ++number) {
      REQUIRE(stream.send_from(source, number));
      REQUIRE(stream.takes(most, std::byte{7}));
      REQUIRE(stream.all_released());
    }
    CAPTURE(static_cast<int>(use));
    if (stream.zero_copy().copied() == 0 && use != ZeroCopyUse::off) continue;  // a kernel that does not copy here
    if (use == ZeroCopyUse::off) CHECK(kernel.in_place == 0);
    if (use == ZeroCopyUse::trial) CHECK((kernel.in_place >= 1 && stream.zero_copy().count() < 8));
    if (use == ZeroCopyUse::always) CHECK(kernel.in_place >= 8);
  }
}

TEST_CASE("news in ranges and out of order") {
  auto [first, second] = loopback_sockets();
  tcp::ZeroCopy zero_copy(first.get(), ZeroCopyUse::trial);
  kernel = {};
  kernel.made_up = true;
  for (std::uint64_t number = 1; number <= 6; ++number) REQUIRE(zero_copy.sent() == number);
  CHECK(zero_copy.free_before(0));
  kernel.news = {{3, 4}};
  zero_copy.take_news();
  CHECK_FALSE(zero_copy.free_before(1));
  kernel.news = {{1, 2}, {0, 0}};
  zero_copy.take_news();
  CHECK(zero_copy.free_before(5));
  CHECK_FALSE(zero_copy.free_before(6));
  CHECK(zero_copy.suits(most));
  CHECK_FALSE(zero_copy.suits(limits::zero_copy_bytes_min - 1));
  kernel.news = {{5, 5, true}};
  zero_copy.take_news();
  CHECK(zero_copy.free_before(6));
  CHECK(zero_copy.copied() == 1);
  CHECK_FALSE(zero_copy.suits(most));
}

TEST_CASE("no more sends wait for news than can be told apart") {
  auto [first, second] = loopback_sockets();
  tcp::ZeroCopy zero_copy(first.get(), ZeroCopyUse::always);
  kernel = {};
  kernel.made_up = true;
  std::uint64_t sent = 0;
  while (zero_copy.suits(most)) sent = zero_copy.sent();
  CHECK(sent == 64);
  kernel.news = {{0, 0}};
  zero_copy.take_news();
  CHECK(zero_copy.suits(most));
  kernel.news = {{1, 63}};
  zero_copy.take_news();
  CHECK(zero_copy.free_before(64));
}

TEST_CASE("a kernel short of memory copies") {
  Stream stream(ZeroCopyUse::always);
  kernel.short_of_memory = true;
  const std::vector<std::byte> source(most, std::byte{3});
  REQUIRE(stream.send_from(source, 0));
  REQUIRE(stream.takes(most, std::byte{3}));
  CHECK(stream.all_released());
  CHECK(stream.zero_copy().count() == 0);
}
