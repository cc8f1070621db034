// What TCP carries with nothing above it: each rank sends bytes to the next and receives as many from the one before,
// at the same time, over one socket each way.
//
// `duplex_perf [--whole] RANK BYTES ADDRESS...`: one IPv4 address of every rank in order.  Each prints the seconds it
// took, from a barrier on.  What moves is one piece again and again, which stays in cache, or --whole, a buffer of
// BYTES from end to end.  The limit that tests/hosts/shaped.py holds Rondo against; nothing of Rondo runs in it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr std::uint16_t port = 7100;
constexpr std::size_t piece_bytes = 256 << 10;
constexpr int patience_ms = 60'000;

void require(bool done, const char* what) {
  if (done) return;
  std::fprintf(stderr, "duplex_perf: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

sockaddr_in address_of(const char* text) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  require(::inet_pton(AF_INET, text, &address.sin_addr) == 1, text);
  return address;
}

int listen_at(const char* text) {
  const sockaddr_in address = address_of(text);
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int one = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  require(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0, "bind");
  require(::listen(listener, 1) == 0, "listen");
  return listener;
}

/// The next rank may not listen yet.
int call(const char* text) {
  const sockaddr_in address = address_of(text);
  for (int tries = 0; tries < patience_ms / 10; ++tries) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      const int one = 1;
      ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      return socket;
    }
    ::close(socket);
    ::usleep(10'000);
  }
  require(false, "connect");
  return -1;
}

/// All that fits now; 0: nothing does.
std::size_t moved(ssize_t result, const char* what) {
  require(result > 0 || (result < 0 && (errno == EAGAIN || errno == EINTR)), what);
  return result > 0 ? static_cast<std::size_t>(result) : 0;
}

/// What of `bytes` comes after `done`, up to a piece, in a buffer that is gone through again and again.
struct Part {
  char* data;
  std::size_t bytes;
};
Part part_after(std::size_t done, std::size_t bytes, std::vector<char>& buffer) {
  const std::size_t at = done % buffer.size();
  return {buffer.data() + at, std::min({piece_bytes, buffer.size() - at, bytes - done})};
}

void exchange(int to, int from, std::size_t bytes, std::vector<char>& source, std::vector<char>& target) {
  std::size_t sent = 0;
  std::size_t received = 0;
  while (sent < bytes || received < bytes) {
    pollfd ends[] = {{to, static_cast<short>(sent < bytes ? POLLOUT : 0), 0},
                     {from, static_cast<short>(received < bytes ? POLLIN : 0), 0}};
    require(::poll(ends, 2, patience_ms) > 0, "nothing moves");
    if (ends[0].revents != 0 && sent < bytes) {
      const Part part = part_after(sent, bytes, source);
      sent += moved(::send(to, part.data, part.bytes, MSG_DONTWAIT | MSG_NOSIGNAL), "send");
    }
    if (ends[1].revents != 0 && received < bytes) {
      const Part part = part_after(received, bytes, target);
      received += moved(::recv(from, part.data, part.bytes, MSG_DONTWAIT), "recv");
    }
  }
}

}  // namespace

int main(int argument_count, char** arguments) {
  const bool whole = argument_count > 1 && std::strcmp(arguments[1], "--whole") == 0;
  if (whole) {
    ++arguments;
    --argument_count;
  }
  const std::size_t bytes = argument_count < 5 ? 0 : std::strtoull(arguments[2], nullptr, 10);
  const int ranks = argument_count - 3;
  const int rank = bytes == 0 ? -1 : std::atoi(arguments[1]);
  if (rank < 0 || rank >= ranks) {
    std::fprintf(stderr, "usage: duplex_perf [--whole] RANK BYTES ADDRESS ADDRESS...\n");
    return 2;
  }
  const int listener = listen_at(arguments[3 + rank]);
  const int to = call(arguments[3 + (rank + 1) % ranks]);
  const int from = ::accept(listener, nullptr, nullptr);
  require(from >= 0, "accept");
  std::vector<char> source(whole ? bytes : piece_bytes, 1);
  std::vector<char> target(source.size());
  exchange(to, from, 4 << 20, source, target);                                  // windows open
  for (int hop = 1; hop < ranks; ++hop) exchange(to, from, 1, source, target);  // a barrier
  const auto start = std::chrono::steady_clock::now();
  exchange(to, from, bytes, source, target);
  std::printf("%.6f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  ::close(to);
  ::close(from);
  ::close(listener);
  return 0;
}
