// What is special to TCP links: pieces of messages, ends in the middle of one, garbage, landing, both ways backed up.
#define CATCH_CONFIG_MAIN
#include "transports/tcp.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "base/doorbell.h"
#include "base/limits.h"
#include "pair.h"
#include "transports/tcp_stream.h"
#include "wires.h"

using namespace rondo;
using namespace links;

namespace {

constexpr std::size_t most = limits::tcp_slot_bytes;

/// What this program's send, recv, sendmsg and recvmsg do besides: they count, and they may be interrupted or fall
/// short.
struct Kernel {
  std::size_t send_bytes_max = 0;  // 0: as many as the socket takes
  std::size_t receive_bytes_max = 0;
  bool interrupts = false;  // every third call
  int calls = 0;
  int sends = 0;     // calls
  int receives = 0;  // calls that brought something
};
Kernel kernel;

template <class Call>
ssize_t call_kernel(const msghdr* message, std::size_t bytes_max, Call&& call) {
  if (kernel.interrupts && ++kernel.calls % 3 == 0) {
    errno = EINTR;
    return -1;
  }
  if (bytes_max == 0) return call(message);
  msghdr first = *message;
  iovec part = first.msg_iov[0];
  part.iov_len = std::min(part.iov_len, bytes_max);
  first.msg_iov = &part;
  first.msg_iovlen = 1;
  return call(&first);
}

/// The same for calls of one piece.
template <class Call>
ssize_t call_kernel(const void* data, std::size_t bytes, std::size_t bytes_max, Call&& call) {
  iovec part{const_cast<void*>(data), bytes};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  return call_kernel(&message, bytes_max, call);
}

}  // namespace

extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  ++kernel.sends;
  return call_kernel(message, kernel.send_bytes_max,
                     [&](const msghdr* m) { return ::syscall(SYS_sendmsg, socket, m, flags); });
}
extern "C" ssize_t recvmsg(int socket, msghdr* message, int flags) {
  const ssize_t bytes = call_kernel(message, kernel.receive_bytes_max,
                                    [&](const msghdr* m) { return ::syscall(SYS_recvmsg, socket, m, flags); });
  if (bytes > 0) ++kernel.receives;
  return bytes;
}

extern "C" ssize_t send(int socket, const void* data, std::size_t bytes, int flags) {
  ++kernel.sends;
  return call_kernel(data, bytes, kernel.send_bytes_max,
                     [&](const msghdr* m) { return ::syscall(SYS_sendmsg, socket, m, flags); });
}
extern "C" ssize_t recv(int socket, void* data, std::size_t bytes_max, int flags) {
  const ssize_t bytes = call_kernel(data, bytes_max, kernel.receive_bytes_max,
                                    [&](const msghdr* m) { return ::syscall(SYS_recvmsg, socket, m, flags); });
  if (bytes > 0) ++kernel.receives;
  return bytes;
}

namespace {

/// A link each way over sockets of the test's.
class Streams {
 public:
  explicit Streams(int sockets = 1, int send_bytes = 0) {
    std::vector<int> ends[2];
    for (int i = 0; i < sockets; ++i) {
      auto [first, second] = loopback_sockets(send_bytes);
      for (Descriptor* socket : {&first, &second}) ::fcntl(socket->get(), F_SETFL, O_NONBLOCK);
      ends[0].push_back(first.get());
      ends[1].push_back(second.get());
      sockets_[0].push_back(std::move(first));
      sockets_[1].push_back(std::move(second));
    }
    for (int rank = 0; rank < 2; ++rank) {
      senders_.push_back(std::make_unique<tcp::Sender>(ends[rank], peers_[rank]));
      receivers_.push_back(std::make_unique<tcp::Receiver>(ends[rank], peers_[rank]));
    }
  }
  tcp::Sender& sender(int rank) { return *senders_[static_cast<std::size_t>(rank)]; }
  tcp::Receiver& receiver(int rank) { return *receivers_[static_cast<std::size_t>(rank)]; }
  tcp::Peer& peer(int rank) { return peers_[rank]; }
  int socket(int rank, std::size_t index = 0) { return sockets_[rank][index].get(); }
  void close(int rank) { sockets_[rank].clear(); }

 private:
  std::vector<Descriptor> sockets_[2];
  tcp::Peer peers_[2] = {tcp::Peer(1), tcp::Peer(0)};
  std::vector<std::unique_ptr<tcp::Sender>> senders_;
  std::vector<std::unique_ptr<tcp::Receiver>> receivers_;
};

std::vector<std::byte> content(std::size_t bytes, std::uint64_t number) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 7 + i / 251 + number * 31);
  return data;
}

bool holds(const Message& message, std::size_t bytes, std::uint64_t number) {
  const auto data = content(bytes, number);
  return message.bytes == bytes && message.signature.call == number &&
         (bytes == 0 || std::memcmp(message.data, data.data(), bytes) == 0);
}

Signature signature(std::uint64_t number) { return {1, static_cast<std::uint32_t>(number), 0, 0, 0, 0}; }

bool try_send(tcp::Sender& sender, std::size_t bytes, std::uint64_t number) {
  std::byte* const room = sender.reserve(bytes);
  if (room == nullptr) return false;
  const auto data = content(bytes, number);
  if (bytes > 0) std::memcpy(room, data.data(), bytes);
  sender.commit(bytes, signature(number), {});
  return true;
}

/// Whether to try once more.  A busy kernel may take its time: so tries that come to nothing get slower.
bool patient(int tries) {
  if (tries > 10'000) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return tries < 20'000;
}

const Message* await(Streams& streams, int rank) {
  for (int tries = 0; patient(tries); ++tries) {
    if (const Message* message = streams.receiver(rank).peek()) return message;
    (void)streams.sender(1 - rank).flush();
  }
  return nullptr;
}

Status await_failure(tcp::Receiver& receiver) {
  for (int tries = 0; receiver.status().ok() && patient(tries); ++tries) receiver.poll();
  return receiver.status();
}

std::vector<std::byte> header(std::uint32_t sequence, std::uint32_t bytes) {
  const tcp::Header words{sequence, bytes, signature(0)};
  std::vector<std::byte> data(sizeof words);
  std::memcpy(data.data(), &words, sizeof words);
  return data;
}

void write(int socket, const std::vector<std::byte>& bytes) {
  REQUIRE(::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
}

}  // namespace

TEST_CASE("messages that the kernel takes in pieces arrive whole") {
  for (const int sockets : {1, 3}) {
    Streams streams(sockets, 1);  // the smallest send buffer that there is
    const std::size_t sizes[] = {most, 0, 1, most - 1, 70'000, 24, 4096, 4072, 4073};
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    const auto size = [&](std::uint64_t number) { return sizes[number % std::size(sizes)]; };
    bool in_pieces = false;
    for (int idle = 0; received < 90 && patient(idle); ++idle) {
      if (sent < 90 && try_send(streams.sender(0), size(sent), sent)) ++sent;
      in_pieces |= !streams.sender(0).flush();
      const Message* const message = streams.receiver(1).peek();
      if (message == nullptr) continue;
      REQUIRE(holds(*message, size(received), received));
      streams.receiver(1).release();
      ++received;
      idle = 0;
    }
    CHECK(received == 90);
    CHECK(in_pieces);
  }
}

TEST_CASE("a stream that dribbles byte by byte") {
  Streams streams;
  auto bytes = header(1, 3);
  const auto data = content(3, 0);
  bytes.insert(bytes.end(), data.begin(), data.end());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    CHECK(streams.receiver(1).peek() == nullptr);
    write(streams.socket(0), {bytes[i]});
  }
  const Message* const message = await(streams, 1);
  REQUIRE(message != nullptr);
  CHECK(holds(*message, 3, 0));
}

TEST_CASE("an end in the middle of a message is a remote error, after the messages before it") {
  for (const std::size_t cut : {std::size_t{0}, std::size_t{10}, std::size_t{24}, std::size_t{500}}) {
    Streams streams;
    REQUIRE(try_send(streams.sender(0), 100, 0));
    auto bytes = header(2, 1000);
    const auto data = content(1000, 1);
    bytes.insert(bytes.end(), data.begin(), data.end());
    bytes.resize(cut);
    if (cut > 0) write(streams.socket(0), bytes);
    streams.close(0);
    streams.peer(1).tell(Code::remote_error);
    const Status status = await_failure(streams.receiver(1));
    CHECK(status.code == Code::remote_error);
    CHECK(status.peer == 0);
    CHECK(streams.sender(1).status().code == Code::remote_error);
    const Message* const message = streams.receiver(1).peek();
    REQUIRE(message != nullptr);
    CHECK(holds(*message, 100, 0));
    streams.receiver(1).release();
    CHECK(streams.receiver(1).peek() == nullptr);
  }
}

TEST_CASE("a header that can't be is an error, for good") {
  for (const auto& bytes : {header(2, 8), header(0, 8), header(1, most + 1), header(0x20544547, 0x4854502f)}) {
    Streams streams;
    write(streams.socket(0), bytes);
    CHECK(await_failure(streams.receiver(1)).code == Code::internal_error);
    CHECK(streams.receiver(1).peek() == nullptr);
    write(streams.socket(0), header(1, 0));
    CHECK(streams.receiver(1).peek() == nullptr);
    CHECK(streams.receiver(1).status().code == Code::internal_error);
  }
}

TEST_CASE("an end without news, and news without an end, are believed after a while") {
  for (const bool news : {false, true}) {
    Streams streams;
    if (news) streams.peer(1).tell(Code::remote_error);
    if (!news) streams.close(0);
    streams.receiver(1).poll();
    CHECK(streams.receiver(1).status().ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(limits::stream_end_timeout_ms + 1));
    CHECK(streams.receiver(1).status().code == Code::remote_error);
    CHECK(streams.sender(1).status().code == Code::remote_error);
  }
}

TEST_CASE("news of a peer that has left waits for the end of its streams") {
  Streams streams;
  REQUIRE(try_send(streams.sender(0), 100, 0));
  streams.peer(1).tell(Code::remote_error);
  CHECK(streams.receiver(1).status().ok());
  CHECK(streams.sender(1).status().code == Code::remote_error);
  REQUIRE(await(streams, 1) != nullptr);
  streams.receiver(1).release();
  streams.close(0);
  CHECK(await_failure(streams.receiver(1)).code == Code::remote_error);
}

TEST_CASE("news of a peer that has left waits as long as its streams bring something") {
  Streams streams;
  streams.peer(1).tell(Code::remote_error);
  for (std::uint64_t i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(limits::stream_end_timeout_ms / 3));
    REQUIRE(try_send(streams.sender(0), 100, i));
    REQUIRE(await(streams, 1) != nullptr);
    streams.receiver(1).release();
    CHECK(streams.receiver(1).status().ok());
  }
  CHECK(await_failure(streams.receiver(1)).code == Code::remote_error);
}

TEST_CASE("landing: only the next message, and only of the size that was said") {
  for (const int sockets : {1, 3}) {
    Streams streams(sockets);
    const std::size_t bytes = 50'000;
    std::vector<std::byte> target(bytes);
    tcp::Receiver& receiver = streams.receiver(1);
    CHECK(receiver.peek() == nullptr);
    receiver.land(target.data(), bytes);
    for (std::uint64_t number = 0; number < 2; ++number) REQUIRE(try_send(streams.sender(0), bytes, number));
    const Message* message = await(streams, 1);
    REQUIRE(message != nullptr);
    CHECK(message->data == target.data());
    CHECK(holds(*message, bytes, 0));
    receiver.release();
    message = await(streams, 1);
    REQUIRE(message != nullptr);
    CHECK(message->data != target.data());  // it was named for the message before
    CHECK(holds(*message, bytes, 1));
    receiver.release();
    CHECK(receiver.peek() == nullptr);
    receiver.land(target.data(), bytes);
    REQUIRE(try_send(streams.sender(0), bytes - 1, 2));
    message = await(streams, 1);
    REQUIRE(message != nullptr);
    CHECK(message->data != target.data());
    CHECK(holds(*message, bytes - 1, 2));
    receiver.release();
  }
}

TEST_CASE("a message whose header has come, but no more, can still land") {
  Streams streams;
  write(streams.socket(0), header(1, 600));
  std::vector<std::byte> target(600);
  for (int i = 0; i < 1000; ++i) REQUIRE(streams.receiver(1).peek() == nullptr);
  streams.receiver(1).land(target.data(), target.size());
  write(streams.socket(0), content(600, 0));
  const Message* const message = await(streams, 1);
  REQUIRE(message != nullptr);
  CHECK(message->data == target.data());
  CHECK(holds(*message, 600, 0));
}

TEST_CASE("both ways backed up at once come free when both receive") {
  for (const int sockets : {1, 3}) {
    Streams streams(sockets, 1);
    std::uint64_t sent[2] = {};
    std::uint64_t received[2] = {};
    constexpr std::uint64_t count = 100;
    // Each side sends all it may before it receives: only credits bound it.
    int idle = 0;
    for (int turn = 0; (received[0] < count || received[1] < count) && patient(idle++); ++turn) {
      for (int rank = 0; rank < 2; ++rank) {
        while (sent[rank] < count && try_send(streams.sender(rank), most, sent[rank])) ++sent[rank];
        (void)streams.sender(rank).flush();
        streams.receiver(rank).poll();
      }
      if (turn < 1000) continue;
      for (int rank = 0; rank < 2; ++rank) {
        const Message* const message = streams.receiver(rank).peek();
        if (message == nullptr) continue;
        REQUIRE(holds(*message, most, received[rank]));
        streams.receiver(rank).release();
        ++received[rank];
        idle = 0;
      }
    }
    CHECK(received[0] == count);
    CHECK(received[1] == count);
  }
}

TEST_CASE("what send_from offers is read until released() counts it, and not after") {
  Streams streams(1, 1);
  auto source = content(most, 7);
  REQUIRE(streams.sender(0).reserve(most) != nullptr);
  REQUIRE(streams.sender(0).send_from(source.data(), most, signature(7), {}));
  for (int i = 0; streams.sender(0).released() == 0 && patient(i); ++i) streams.receiver(1).poll();
  REQUIRE(streams.sender(0).released() == 1);
  std::fill(source.begin(), source.end(), std::byte{0xee});
  const Message* const message = await(streams, 1);
  REQUIRE(message != nullptr);
  CHECK(holds(*message, most, 7));
}

TEST_CASE("a small hop is one send, and one receive that brings something") {
  Streams streams;
  for (std::uint64_t number = 0; number < 100; ++number) {
    const int from = static_cast<int>(number % 2);
    const std::size_t bytes = number * 40;  // up to 3960: with its header, less than what a stream stages
    kernel = {};
    REQUIRE(try_send(streams.sender(from), bytes, number / 2));
    const Message* const message = await(streams, 1 - from);
    REQUIRE(message != nullptr);
    CHECK(holds(*message, bytes, number / 2));
    streams.receiver(1 - from).release();
    CHECK(kernel.sends == 1);
    CHECK(kernel.receives == 1);
  }
}

TEST_CASE("calls that are interrupted, or take and give little") {
  for (const std::size_t bytes_max : {std::size_t{0}, std::size_t{1000}, std::size_t{7}}) {
    Streams streams;
    kernel = {bytes_max == 7 ? 1000 : bytes_max, bytes_max, true};
    const std::size_t sizes[] = {0, 8, 24, 5000, 20'000};
    for (std::uint64_t number = 0; number < 20; ++number) {
      const std::size_t bytes = sizes[number % std::size(sizes)];
      INFO(bytes_max << " at once, " << number << ": " << bytes << " bytes");
      REQUIRE(try_send(streams.sender(0), bytes, number));
      const Message* const message = await(streams, 1);
      REQUIRE(message != nullptr);
      CHECK(holds(*message, bytes, number));
      streams.receiver(1).release();
    }
    CHECK(streams.receiver(1).status().ok());
    CHECK(streams.sender(0).status().ok());
    kernel = {};
  }
}

/// What poll() says of the wakeups of an end: how many there are, and how many call.
template <typename End>
std::pair<std::size_t, int> wakeups_of(const End& end) {
  Wakeups wakeups;
  end.add_wakeups(wakeups);
  const auto sockets = wakeups.sockets();
  return {sockets.size(), ::poll(sockets.data(), sockets.size(), 0)};
}

/// Whether one of the end's wakeups calls before long.
template <typename End>
bool awakes(const End& end) {
  for (int tries = 0; patient(tries); ++tries) {
    if (wakeups_of(end).second > 0) return true;
  }
  return false;
}

TEST_CASE("what a thread may sleep on until an end can move") {
  using Count = std::pair<std::size_t, int>;
  for (const int sockets : {1, 2}) {
    INFO(sockets << " sockets");
    Streams streams(sockets, 1);  // the smallest send buffer that there is
    auto& sender = streams.sender(0);
    auto& receiver = streams.receiver(1);
    CHECK(wakeups_of(sender) == Count{0, 0});  // nothing is queued
    CHECK(wakeups_of(receiver) == Count{sockets, 0});
    REQUIRE(try_send(sender, 8, 0));
    CHECK(awakes(receiver));
    std::uint64_t sent = 1;
    while (sender.flush() && sent < 1000 && try_send(sender, most, sent)) ++sent;
    REQUIRE_FALSE(sender.flush());
    CHECK(wakeups_of(sender).first >= 1);
    // A receiver that takes them lets the sender go on; it asks for more while it has room, and no longer.
    bool called = false;
    for (int tries = 0; !sender.flush() && patient(tries); ++tries) {
      receiver.poll();
      if (receiver.peek() != nullptr && tries % 2 == 1) receiver.release();
      called = called || wakeups_of(sender).second > 0;
    }
    CHECK(called);
    CHECK(wakeups_of(sender) == Count{0, 0});
    for (int tries = 0; wakeups_of(receiver).first > 0 && patient(tries); ++tries) {
      if (sender.flush()) (void)try_send(sender, 8, sent++);
      receiver.poll();
    }
    CHECK(wakeups_of(receiver).first == 0);  // full
    receiver.release();
    CHECK(wakeups_of(receiver).first == 1);
  }
}

TEST_CASE("a socket that has ended wakes nobody any more") {
  Streams streams;
  streams.close(0);
  CHECK(awakes(streams.receiver(1)));
  streams.receiver(1).poll();
  CHECK(wakeups_of(streams.receiver(1)).first == 0);
  while (try_send(streams.sender(1), most, 0)) {
  }
  CHECK(wakeups_of(streams.sender(1)).first == 0);
}

TEST_CASE("what send_copy was given may change, also where the kernel took only a part") {
  Streams streams(1, 1);
  kernel = {};
  kernel.send_bytes_max = 30'000;
  for (std::uint64_t number = 0; number < 4; ++number) {
    auto source = content(most, number);
    REQUIRE(streams.sender(0).reserve(most) != nullptr);
    streams.sender(0).send_copy(source.data(), most, signature(number), {});
    std::fill(source.begin(), source.end(), std::byte{0xee});
  }
  CHECK_FALSE(streams.sender(0).flush());
  for (std::uint64_t number = 0; number < 4; ++number) {
    const Message* const message = await(streams, 1);
    REQUIRE(message != nullptr);
    CHECK(holds(*message, most, number));
    streams.receiver(1).release();
  }
  kernel = {};
}

/// Sends bytes that the other end, which does not read them, acknowledges late; until the mean round trip is long.
void be_acknowledged_late(int socket, int other) {
  const int off = 0;
  for (int tries = 0; tries < 100; ++tries) {
    REQUIRE(::setsockopt(other, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof off) == 0);
    REQUIRE(::send(socket, "", 1, 0) == 1);
    tcp_info info{};
    socklen_t bytes = sizeof info;
    do {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      REQUIRE(::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0);
    } while (info.tcpi_unacked > 0);
    if (info.tcpi_rtt > limits::short_way_us) return;
  }
  FAIL("acknowledged at once");
}

TEST_CASE("congestion control is what is asked for, and on a short way Reno") {
  const auto algorithm = [](const std::string& asked, bool late = false) {
    QueueWire wire;
    Doorbell doorbell = Doorbell::create();
    const auto transport = make_tcp_transport(doorbell, {}, asked);
    const auto connection = transport->open(1, true, wire);
    std::string name;
    for (Frame frame; wire.take_own(frame);) {
      const Descriptor socket(::fcntl(frame.descriptors[0].get(), F_DUPFD_CLOEXEC, 0));
      Frame other;
      REQUIRE(wire.take(other));
      if (late) be_acknowledged_late(socket.get(), other.descriptors[0].get());
      connection->receive(frame);
      char text[16] = {};
      socklen_t bytes = sizeof text - 1;
      REQUIRE(::getsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, text, &bytes) == 0);
      name = text;
    }
    return name;
  };
  const auto [plain, other] = loopback_sockets();
  char text[16] = {};
  socklen_t bytes = sizeof text - 1;
  REQUIRE(::getsockopt(plain.get(), IPPROTO_TCP, TCP_CONGESTION, text, &bytes) == 0);
  const std::string system = text;
  for (const bool late : {false, true}) {
    CHECK(algorithm("", late) == (system == "bbr" || system == "cubic" ? "reno" : system));
  }
  CHECK(algorithm(system) == system);
  CHECK(algorithm("reno") == "reno");
  CHECK_THROWS_WITH(algorithm("no-such"), Catch::Contains("RONDO_TCP_CONGESTION=no-such"));
}

TEST_CASE("data sockets do not delay, and notice a host that is gone") {
  QueueWire wire;
  Doorbell doorbell = Doorbell::create();
  const auto transport = make_tcp_transport(doorbell, {2, 1});
  const auto connection = transport->open(1, true, wire);
  std::vector<Descriptor> sockets;
  for (Frame frame; wire.take_own(frame);) {
    sockets.emplace_back(::fcntl(frame.descriptors[0].get(), F_DUPFD_CLOEXEC, 0));
    connection->receive(frame);
  }
  REQUIRE(connection->ready());
  REQUIRE(sockets.size() == 2 * limits::plan_lanes_max);
  for (const Descriptor& socket : sockets) {
    const auto option = [&](int level, int name) {
      int value = -1;
      socklen_t bytes = sizeof value;
      REQUIRE(::getsockopt(socket.get(), level, name, &value, &bytes) == 0);
      return value;
    };
    CHECK(option(IPPROTO_TCP, TCP_NODELAY) == 1);
    CHECK(option(SOL_SOCKET, SO_KEEPALIVE) == 1);
    CHECK(option(IPPROTO_TCP, TCP_KEEPIDLE) == 5);  // of RONDO_HOST_TIMEOUT's 20
    CHECK(option(IPPROTO_TCP, TCP_KEEPCNT) == limits::tcp_keepalive_probes);
    CHECK(option(IPPROTO_TCP, TCP_USER_TIMEOUT) == 0);  // a late rank is not a dead host
    CHECK((::fcntl(socket.get(), F_GETFL) & O_NONBLOCK) != 0);
  }
}
