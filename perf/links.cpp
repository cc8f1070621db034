// What a link costs alone: two processes joined by the shared-memory transport, each bound to a processor.  For each
// message size: half of a round trip (ping-pong), and the bandwidth of a stream of messages through slots (the receiver
// reads what it gets) and of lends from mapped memory.  No executor, no reduction.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "links_wire.h"
#include "transports/regions.h"
#include "transports/shm.h"
#include "wait.h"

namespace rondo {
namespace {

using Clock = std::chrono::steady_clock;

double nanoseconds(Clock::duration time) { return std::chrono::duration<double, std::nano>(time).count(); }

void bind_to(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor % static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), &set);
  (void)::sched_setaffinity(0, sizeof set, &set);
}

/// One process's side of the links.
class Side {
 public:
  Side(int rank, int socket)
      : wire_(Descriptor(socket)), doorbell_(Doorbell::create()), transport_(make_shm_transport(doorbell_)) {
    connection_ = transport_->open(1 - rank, rank == 0, wire_);
    while (!connection_->ready()) deliver(true);
  }
  SendEnd& send() { return connection_->send_end(0); }
  ReceiveEnd& receive() { return connection_->receive_end(0); }
  /// Hands frames that have come to the connection; waits for one if `wait`.
  void deliver(bool wait) {
    Frame frame;
    while (wire_.take(frame, wait)) {
      connection_->receive(frame);
      wait = false;
    }
  }

  std::byte* room(std::size_t bytes) {
    std::byte* room = nullptr;
    while ((room = send().reserve(bytes)) == nullptr) pause_cpu();
    return room;
  }
  const Message& message() {
    const Message* message = nullptr;
    while ((message = receive().peek()) == nullptr) pause_cpu();
    return *message;
  }
  void give(const std::byte* data, std::size_t bytes) {
    if (bytes > 0)
      std::memcpy(room(bytes), data, bytes);
    else
      (void)room(0);
    send().commit(bytes, {}, {});
  }
  void lend(const std::byte* data, std::size_t bytes) {
    std::byte* const place = room(bytes);
    if (send().lend(data, nullptr, bytes, {}, {})) return;
    std::memcpy(place, data, bytes);  // the first ones, until the peer has mapped the region
    send().commit(bytes, {}, {});
    deliver(false);
  }
  void take(std::byte* target) {
    const Message& m = message();
    if (m.bytes > 0) std::memcpy(target, m.data, m.bytes);
    receive().release();
  }

 private:
  perf::SocketWire wire_;
  Doorbell doorbell_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Connection> connection_;
};

struct Sizes {
  std::size_t bytes;
  int round_trips;
  int messages;
};

/// Both processes run this: rank 0 gives, rank 1 takes and answers; rank 0 prints.
void measure(Side& side, int rank, const Sizes& sizes, std::byte* memory) {
  std::vector<std::byte> target(limits::slot_bytes);
  const auto ping_pong = [&](int count) {
    for (int i = 0; i < count; ++i) {
      if (rank == 0) side.give(memory, sizes.bytes);
      side.take(target.data());
      if (rank == 1) side.give(target.data(), sizes.bytes);
    }
  };
  const auto stream = [&](int count, bool lends) {
    for (int i = 0; i < count; ++i) {
      if (rank == 1) {
        side.take(target.data());
        side.deliver(false);
      } else if (lends) {
        side.lend(memory, sizes.bytes);
      } else {
        side.give(memory, sizes.bytes);
      }
    }
    if (rank == 0)
      side.take(target.data());  // until the other has all
    else
      side.give(nullptr, 0);
  };
  const auto timed = [&](int count, auto&& action) {
    action(count / 10 + 1);
    double best = 1e30;
    for (int round = 0; round < 5; ++round) {
      const auto began = Clock::now();
      action(count);
      best = std::min(best, nanoseconds(Clock::now() - began) / count);
    }
    return best;
  };
  const double half = timed(sizes.round_trips, ping_pong) / 2;
  const double slots = timed(sizes.messages, [&](int count) { stream(count, false); });
  const double lent = timed(sizes.messages, [&](int count) { stream(count, true); });
  if (rank != 0) return;
  const double bytes = static_cast<double>(sizes.bytes);
  std::printf("%10zu %14.0f %16.2f %16.2f\n", sizes.bytes, half, bytes / slots, bytes / lent);
  std::fflush(stdout);
}

void run(int rank, int socket) {
  bind_to(rank);
  Side side(rank, socket);
  auto* const memory = static_cast<std::byte*>(Regions::instance().allocate(limits::slot_bytes));
  if (rank == 0) {
    std::printf("# Shared-memory links between two processes on processors 0 and 1; the best of 5 rounds\n");
    std::printf("%10s %14s %16s %16s\n", "size (B)", "latency (ns)", "slots (GB/s)", "lent (GB/s)");
  }
  constexpr Sizes table[] = {{8, 2'000, 5'000},         {40, 2'000, 5'000},
                             {64, 2'000, 5'000},        {1024, 2'000, 5'000},
                             {4096, 10'000, 20'000},    {16 * 1024, 5'000, 10'000},
                             {32 * 1024, 2'000, 5'000}, {limits::slot_bytes, 2'000, 5'000}};
  for (const Sizes& sizes : table) measure(side, rank, sizes, memory);
  Regions::instance().release(memory);
}

}  // namespace
}  // namespace rondo

int main() {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) return 1;
  const pid_t child = ::fork();
  if (child < 0) return 1;
  ::close(sockets[child == 0 ? 0 : 1]);
  rondo::run(child == 0 ? 1 : 0, sockets[child == 0 ? 1 : 0]);
  if (child == 0) return 0;
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}
