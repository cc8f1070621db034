// The set-up of data sockets: see data_sockets.h.
#include "control/data_sockets.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/limits.h"
#include "base/result.h"

namespace rondo::control {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds pause(50);  // before another attempt
constexpr std::size_t call_bytes = sizeof(Secret) + sizeof(std::uint32_t);

std::string error_text(int error) { return std::generic_category().message(error); }

/// What was received, as far as it has come, up to `whole` bytes and never a byte more: what follows is the links'.
enum class Got : std::uint8_t { all, part, end };
Got receive_up_to(std::size_t whole, const Socket& socket, Bytes& got) {
  while (got.size() < whole) {
    const std::size_t before = got.size();
    got.resize(whole);
    const ssize_t bytes = ::recv(socket.get(), got.data() + before, whole - before, MSG_DONTWAIT);
    const int error = errno;
    got.resize(before + static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
    if (bytes > 0 || (bytes < 0 && error == EINTR)) continue;
    errno = bytes == 0 ? ECONNRESET : error;
    return bytes < 0 && error == EAGAIN ? Got::part : Got::end;
  }
  return Got::all;
}

/// Sends a few bytes on a socket that has sent none yet, so that they fit.
bool send_whole(const Socket& socket, View bytes) noexcept {
  return ::send(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

Descriptor hand_over(const Socket& socket) { return Descriptor(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0)); }

}  // namespace

Bytes encode(const DataOffer& offer) {
  return ByteWriter().number(offer.port).raw(offer.call).raw(offer.answer).bytes();
}

std::optional<DataOffer> decode_data_offer(View bytes) {
  ByteReader reader(bytes);
  DataOffer offer;
  offer.port = reader.number<std::uint16_t>();
  offer.call = reader.array<sizeof(Secret)>();
  offer.answer = reader.array<sizeof(Secret)>();
  if (!reader.complete()) return {};
  return offer;
}

// ---------------------------------------------------------------- listening

DataListener::DataListener(Loop& loop, int count, Deadline deadline, DataEvents events)
    : loop_(loop),
      events_(std::move(events)),
      timer_(loop),
      connected_(static_cast<std::size_t>(count)),
      missing_(count) {
  offer_.call = random_secret();
  offer_.answer = random_secret();
  socket_ = listen_on_loopback(offer_.port);
  watch_ = std::make_unique<Watch>(loop_, socket_.get(), [this] { accept(); });
  timer_.start(deadline, [this] {
    fail(std::to_string(missing_) + " of " + std::to_string(connected_.size()) + " data sockets did not come");
  });
}

void DataListener::accept() {
  for (;;) {
    Socket socket = accept_from(socket_);
    if (!socket) {
      if (errno == EAGAIN) return;
      // No descriptor or memory left: strangers must not be the cause.
      if (arrivals_.empty()) return fail("cannot accept a data socket: " + error_text(errno) + " (see ulimit -n)");
      arrivals_.pop_front();
      continue;
    }
    if (arrivals_.size() >= connected_.size() + std::size_t{limits::strangers_max}) arrivals_.pop_front();
    const Place arrival = arrivals_.emplace(arrivals_.end());
    arrival->socket = std::move(socket);
    arrival->watch = std::make_unique<Watch>(loop_, arrival->socket.get(), [this, arrival] { read(arrival); });
    arrival->deadline = std::make_unique<Timer>(loop_);
    arrival->deadline->start(Clock::now() + milliseconds(limits::handshake_timeout_ms),
                             [this, arrival] { arrivals_.erase(arrival); });
  }
}

void DataListener::read(Place arrival) {
  switch (receive_up_to(call_bytes, arrival->socket, arrival->got)) {
    case Got::part: return;
    case Got::all: return conclude(arrival);
    case Got::end: arrivals_.erase(arrival);
  }
}

void DataListener::conclude(Place arrival) {
  ByteReader reader(arrival->got);
  const Secret token = reader.array<sizeof(Secret)>();
  const auto index = reader.number<std::uint32_t>();
  const bool fits = equal(token, offer_.call) && index < connected_.size() && !connected_[index];
  Descriptor own = fits ? hand_over(arrival->socket) : Descriptor();
  if (fits && !own) return fail("cannot keep a data socket: " + error_text(errno) + " (see ulimit -n)");
  const bool answered = fits && send_whole(arrival->socket, offer_.answer);
  arrivals_.erase(arrival);
  if (!answered) return;
  connected_[index] = true;
  if (--missing_ == 0) {
    timer_.cancel();
    watch_.reset();
    socket_.reset();
    arrivals_.clear();
  }
  events_.connected(static_cast<int>(index), std::move(own));
}

void DataListener::fail(const std::string& why) {
  timer_.cancel();
  watch_.reset();
  socket_.reset();
  arrivals_.clear();
  events_.failed(why);
}

// ---------------------------------------------------------------- calling

DataCaller::DataCaller(Loop& loop, const DataOffer& offer, int count, Deadline deadline, DataEvents events)
    : loop_(loop), offer_(offer), events_(std::move(events)), calls_(static_cast<std::size_t>(count)), timer_(loop) {
  timer_.start(deadline, [this] { fail(last_trouble_); });
  for (int index = 0; index < count; ++index) {
    calls_[static_cast<std::size_t>(index)].pause = std::make_unique<Timer>(loop);
    calls_[static_cast<std::size_t>(index)].pause->start(Clock::now(), [this, index] { attempt(index); });
  }
}

void DataCaller::attempt(int index) {
  Call& call = calls_[static_cast<std::size_t>(index)];
  call.got.clear();
  call.socket = connect_to_loopback(offer_.port);
  // Ports may come free again; anything else is not a matter of time.
  if (!call.socket && errno != EADDRNOTAVAIL && errno != EAGAIN) return fail(error_text(errno));
  if (!call.socket) return again(index, error_text(errno));
  call.watch = std::make_unique<Watch>(loop_, call.socket.get(), [this, index] { read(index); });
  call.watch->await_writable([this, index] {
    const Call& connected = calls_[static_cast<std::size_t>(index)];
    const Bytes words = ByteWriter().raw(offer_.call).number(static_cast<std::uint32_t>(index)).bytes();
    if (!send_whole(connected.socket, words)) again(index, error_text(errno));
  });
}

void DataCaller::read(int index) {
  Call& call = calls_[static_cast<std::size_t>(index)];
  switch (receive_up_to(sizeof(Secret), call.socket, call.got)) {
    case Got::part: return;
    case Got::end: return again(index, error_text(errno));
    case Got::all: break;
  }
  ByteReader reader(call.got);
  if (!equal(reader.array<sizeof(Secret)>(), offer_.answer)) return again(index, "a stranger answers");
  Descriptor own = hand_over(call.socket);
  if (!own) return fail(error_text(errno));
  call.watch.reset();
  call.socket.reset();
  call.pause.reset();
  if (std::none_of(calls_.begin(), calls_.end(), [](const Call& c) { return c.pause != nullptr; })) timer_.cancel();
  events_.connected(index, std::move(own));
}

void DataCaller::again(int index, const std::string& why) {
  Call& call = calls_[static_cast<std::size_t>(index)];
  last_trouble_ = why;
  call.watch.reset();
  call.socket.reset();
  call.pause->start(Clock::now() + pause, [this, index] { attempt(index); });
}

void DataCaller::fail(const std::string& why) {
  timer_.cancel();
  for (Call& call : calls_) {
    call.watch.reset();
    call.pause.reset();
  }
  calls_.clear();
  events_.failed("the data sockets could not be connected: " + why);
}

}  // namespace rondo::control
