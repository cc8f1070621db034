// The ends of a link over TCP: see tcp_stream.h.
#include "tcp_stream.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace rondo::tcp {
namespace {

constexpr std::uint32_t offers_reply = 1u << 31;
constexpr std::uint32_t raw = 1u << 30;
constexpr std::uint32_t bytes_mask = (1u << 30) - 1;

/// Whether the kernel only asks to try again later.
bool try_later() noexcept { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS; }

std::int64_t now_ms() noexcept {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void Peer::end() noexcept {
  std::int64_t none = 0;
  since_ms_.compare_exchange_strong(none, now_ms());
  ended_.store(true, std::memory_order_release);
}

void Peer::tell(Code why) noexcept {
  std::int64_t never = 0;
  since_ms_.compare_exchange_strong(never, now_ms());
  int none = 0;
  told_.compare_exchange_strong(none, static_cast<int>(why));
}

void Peer::be_patient() noexcept { since_ms_.store(now_ms()); }

Status Peer::status(bool nothing_comes) const noexcept {
  if (broken_.load(std::memory_order_acquire)) return {Code::internal_error, rank_};
  const bool ended = ended_.load(std::memory_order_acquire);
  const auto told = static_cast<Code>(told_.load(std::memory_order_acquire));
  if (!ended && told == Code::success) return {};
  const bool certain = told != Code::success && nothing_comes;
  if (!certain && now_ms() - since_ms_.load() < limits::stream_end_timeout_ms) return {};
  return {told != Code::success ? told : Code::remote_error, rank_};
}

// ---------------------------------------------------------------- errands

Errands::Errands(const std::vector<int>& sockets, bool sends, Helpers* helpers)
    : helpers_(helpers), errands_(sockets.size()), out_(sockets.size()) {
  if (helpers == nullptr) return;
  const auto threads = static_cast<std::size_t>(helpers->count()) + 1;
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    const std::size_t thread = i % threads;
    if (thread > 0) errands_[i] = helpers->hire(static_cast<int>(thread) - 1, sockets[i], sends);
  }
}

Errands::~Errands() {
  for (Errand* errand : errands_) {
    if (errand != nullptr) helpers_->dismiss(*errand);
  }
}

void Errands::give(std::size_t socket, iovec first, iovec second) noexcept {
  out_[socket] = 1;
  helpers_->give(*errands_[socket], first, second);
}

Errands::Outcome Errands::look(std::size_t socket) noexcept {
  if (!helpers_->over(*errands_[socket])) return Outcome::open;
  out_[socket] = 0;
  return errands_[socket]->failed ? Outcome::failed : Outcome::moved;
}

void Errands::recall() noexcept {
  for (std::size_t i = 0; i < out_.size(); ++i) {
    if (out_[i]) helpers_->recall(*errands_[i]);
    out_[i] = 0;
  }
}

// ---------------------------------------------------------------- sending

Sender::Sender(std::vector<int> sockets, Peer& peer, Helpers* helpers, ZeroCopyUse zero_copy)
    : sockets_(std::move(sockets)),
      peer_(peer),
      rooms_(std::make_unique_for_overwrite<std::byte[]>(limits::credits * limits::tcp_slot_bytes)),
      errands_(sockets_, true, helpers) {
  for (const int socket : sockets_) {
    zero_copies_.emplace_back(socket, helpers == nullptr ? zero_copy : ZeroCopyUse::off);
  }
}

std::byte* Sender::reserve(std::size_t) noexcept {
  const auto full = [&] { return sent_ - released_ == limits::headers || rooms_taken_ == rooms_free_; };
  if (full()) {
    flush();
    if (full()) return nullptr;
  }
  return room();
}

void Sender::commit(std::size_t bytes, const Signature& signature, MessageFlags flags) noexcept {
  enqueue(room(), bytes, signature, flags);
}

bool Sender::send_from(const std::byte* source, std::size_t bytes, const Signature& signature,
                       MessageFlags flags) noexcept {
  enqueue(source, bytes, signature, flags);
  return true;
}

void Sender::send_copy(const std::byte* source, std::size_t bytes, const Signature& signature,
                       MessageFlags flags) noexcept {
  const std::uint64_t index = sent_;
  if (bytes >= limits::helped_bytes_min && errands_.served(socket_of(index))) {
    std::memcpy(room(), source, bytes);
    return enqueue(room(), bytes, signature, flags);  // a helper reads it when it comes to it
  }
  enqueue(source, bytes, signature, flags, false);
  Slot& slot = this->slot(index);
  if (slot.whole() || slot.is_packed()) return;
  const std::size_t gone = slot.done > sizeof(Header) ? slot.done - sizeof(Header) : 0;
  if (bytes > gone) std::memcpy(room() + gone, source + gone, bytes - gone);
  slot.data = room();
  slot.stays = true;
  take_room(slot);
}

void Sender::take_room(Slot& slot) noexcept {
  slot.own = true;
  ++rooms_taken_;
}

void Sender::enqueue(const std::byte* data, std::size_t bytes, const Signature& signature, MessageFlags flags,
                     bool stays) noexcept {
  Slot& slot = this->slot(sent_);
  slot.header.sequence = static_cast<std::uint32_t>(sent_ + 1);
  slot.header.bytes_and_kind =
      static_cast<std::uint32_t>(bytes) | (flags.offers_reply ? offers_reply : 0u) | (flags.raw ? raw : 0u);
  slot.header.signature = signature;
  slot.data = data;
  slot.own = false;
  if (bytes > 0 && bytes <= packed_bytes_max) {
    std::memcpy(slot.packed.data(), data, bytes);
    slot.data = slot.packed.data();
  } else if (bytes > 0 && data == room()) {
    take_room(slot);
  }
  slot.bytes = bytes;
  slot.done = 0;
  slot.stays = stays;
  slot.zero_copy_end = 0;
  ++sent_;
  flush();
}

bool Sender::flush() noexcept {
  // Each socket carries its messages in order; what one socket can't take must not hold up the others.
  const std::size_t count = sockets_.size();
  std::uint64_t blocked = 0;  // sockets, as bits
  for (std::uint64_t index = released_; index != sent_; ++index) {
    const std::uint64_t bit = std::uint64_t{1} << (index % count);
    if (slot(index).whole() || (blocked & bit) != 0) continue;
    if (errands_.any() && !share(index)) {
      blocked |= bit;
      continue;
    }
    if (!push(index)) blocked |= bit;
  }
  release();
  return released_ == sent_;
}

void Sender::release() noexcept {
  while (released_ != sent_ && slot(released_).whole()) {
    if (!free(released_)) {
      zero_copies_[socket_of(released_)].take_news();
      if (!free(released_)) return;
    }
    if (slot(released_).own) ++rooms_free_;
    ++released_;
  }
}

void Sender::add_wakeups(Wakeups& wakeups) const noexcept {
  std::uint64_t unsent = 0;   // sockets, as bits
  std::uint64_t unheard = 0;  // their news shows as POLLERR
  for (std::uint64_t index = released_; index != sent_ && !broken_; ++index) {
    const std::uint64_t bit = std::uint64_t{1} << socket_of(index);
    if (!slot(index).whole())
      unsent |= bit;
    else if (!free(index))
      unheard |= bit;
  }
  for (std::size_t i = 0; i < sockets_.size() && (unsent | unheard) >> i != 0; ++i) {
    const std::uint64_t bit = std::uint64_t{1} << i;
    if ((unsent & bit) != 0 && errands_.out(i))
      wakeups.await_ring();
    else if (((unsent | unheard) & bit) != 0)
      wakeups.add(sockets_[i], (unsent & bit) != 0 ? POLLOUT : 0);
  }
}

void Sender::stop() noexcept {
  errands_.recall();
  broken_ = true;
}

bool Sender::share(std::uint64_t index) noexcept {
  Slot& slot = this->slot(index);
  const std::size_t socket = socket_of(index);
  if (errands_.out(socket)) {
    const auto outcome = errands_.look(socket);
    if (outcome == Errands::Outcome::moved) slot.done = sizeof(Header) + slot.bytes;
    if (outcome == Errands::Outcome::failed) break_off();
    return outcome == Errands::Outcome::moved;
  }
  const bool large = sizeof(Header) + slot.bytes - slot.done >= limits::helped_bytes_min;
  if (!large || !slot.stays || broken_ || !errands_.served(socket)) return true;
  const auto [header, data] = rest(slot);
  errands_.give(socket, header, data);
  return false;
}

void Sender::break_off() noexcept {
  broken_ = true;
  peer_.end();
}

std::array<iovec, 2> Sender::rest(Slot& slot) noexcept {
  const std::size_t header_done = std::min(slot.done, sizeof(Header));
  const std::size_t data_done = slot.done - header_done;
  return {iovec{reinterpret_cast<std::byte*>(&slot.header) + header_done, sizeof(Header) - header_done},
          iovec{const_cast<std::byte*>(slot.data) + data_done, slot.bytes - data_done}};
}

bool Sender::push(std::uint64_t index) noexcept {
  Slot& slot = this->slot(index);
  const int socket = sockets_[socket_of(index)];
  ZeroCopy& zero_copy = zero_copies_[socket_of(index)];
  while (!slot.whole()) {
    if (broken_) return false;
    const bool in_place = slot.stays && zero_copy.suits(slot.bytes);
    const int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (in_place ? MSG_ZEROCOPY : 0);
    ssize_t sent = 0;
    if (slot.is_packed() || slot.bytes == 0) {
      static_assert(offsetof(Slot, packed) == offsetof(Slot, header) + sizeof(Header) && offsetof(Slot, header) == 0);
      const auto* const whole = reinterpret_cast<const std::byte*>(&slot);
      sent = ::send(socket, whole + slot.done, sizeof(Header) + slot.bytes - slot.done, flags);
    } else {
      std::array<iovec, 2> parts = rest(slot);
      const std::size_t begun = parts[0].iov_len == 0 ? 1 : 0;
      msghdr message{};
      message.msg_iov = parts.data() + begun;
      message.msg_iovlen = parts.size() - begun;
      sent = ::sendmsg(socket, &message, flags);
    }
    if (sent < 0 && in_place && errno == ENOBUFS) {
      zero_copy.refuse();
      continue;
    }
    if (sent < 0) {
      if (!try_later()) break_off();
      return false;
    }
    if (in_place) slot.zero_copy_end = zero_copy.sent();
    slot.done += static_cast<std::size_t>(sent);
  }
  return true;
}

// ---------------------------------------------------------------- receiving

Receiver::Receiver(std::vector<int> sockets, Peer& peer, Helpers* helpers)
    : peer_(peer),
      streams_(sockets.size()),
      payloads_(std::make_unique_for_overwrite<std::byte[]>(limits::credits * limits::tcp_slot_bytes)),
      errands_(sockets, false, helpers) {
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    streams_[i].socket = sockets[i];
    streams_[i].next = i;
  }
  while (free_count_ < free_.size()) {
    free_[free_count_] = payloads_.get() + free_count_ * limits::tcp_slot_bytes;
    ++free_count_;
  }
}

const Message* Receiver::peek() noexcept {
  Slot& slot = slots_[received_ % limits::credits];
  // What follows the message stays in the kernel, as the strand may name where it should go.
  if (!slot.complete && streams_.size() == 1) fill(streams_.front(), received_ + 1);
  if (!slot.complete && streams_.size() > 1) fill(streams_[received_ % streams_.size()], received_ + limits::credits);
  if (!slot.complete && streams_.size() > 1) poll();
  // Helpers go on with those that follow while this thread is busy with this one.
  if (errands_.any() && slot.complete && looked_behind_ <= received_ &&
      slot.message.bytes >= limits::helped_bytes_min) {
    looked_behind_ = received_ + 1;
    poll();
  }
  return slot.complete ? &slot.message : nullptr;
}

void Receiver::release() noexcept {
  Slot& slot = slots_[received_ % limits::credits];
  slot.complete = false;
  if (slot.room != nullptr) free_[free_count_++] = std::exchange(slot.room, nullptr);
  ++received_;
  landing_ = nullptr;
}

void Receiver::poll() noexcept {
  for (Stream& stream : streams_) fill(stream, received_ + limits::credits);
}

void Receiver::add_wakeups(Wakeups& wakeups) const noexcept {
  for (const Stream& stream : streams_) {
    if (stream.ended || stream.next >= received_ + limits::credits) continue;
    if (errands_.out(place(stream))) {
      wakeups.await_ring();
    } else {
      wakeups.add(stream.socket, POLLIN);
    }
  }
}

void Receiver::land(std::byte* target, std::size_t bytes, int ahead, std::size_t) noexcept {
  if (ahead > 0) return;
  landing_ = target;
  landing_bytes_ = bytes;
  Stream& stream = streams_[received_ % streams_.size()];
  const bool begun = stream.next == received_ && stream.has_header && !errands_.out(place(stream));
  if (begun && stream.got == 0 && bytes_of(stream.header) == bytes) stream.target = target;
}

std::size_t Receiver::bytes_of(const Header& header) const noexcept { return header.bytes_and_kind & bytes_mask; }

/// Takes messages out of the socket while there are any, up to message `end`.  A read that got less than it asked for
/// has emptied the socket: no further call to hear so.
void Receiver::fill(Stream& stream, std::uint64_t end) noexcept {
  if (errands_.any() && errands_.out(place(stream)) && !back(stream)) return;
  bool drained = false;
  while (stream.next < end) {
    const std::size_t staged = stream.end - stream.begin;
    if (!stream.has_header) {
      if (staged >= sizeof(Header)) {
        if (!open(stream)) return;
        continue;
      }
      std::memmove(stream.staged.data(), stream.staged.data() + stream.begin, staged);
      stream.begin = 0;
      stream.end = staged;
      if (drained || !read(stream, 0, drained)) return;
      continue;
    }
    const std::size_t missing = bytes_of(stream.header) - stream.got;
    const std::size_t here = std::min(missing, staged);
    std::memcpy(stream.target + stream.got, stream.staged.data() + stream.begin, here);
    stream.got += here;
    stream.begin += here;
    if (here == missing) {
      close(stream);
    } else {
      stream.begin = stream.end = 0;
      if (missing - here >= limits::helped_bytes_min && errands_.served(place(stream)) && !stream.ended) {
        return errands_.give(place(stream), {}, {stream.target + stream.got, missing - here});
      }
      if (drained || !read(stream, missing - here, drained)) return;
    }
  }
}

bool Receiver::back(Stream& stream) noexcept {
  const auto outcome = errands_.look(place(stream));
  if (outcome == Errands::Outcome::moved) {
    stream.got = bytes_of(stream.header);
    peer_.came();
  }
  if (outcome == Errands::Outcome::failed) end(stream);
  return outcome == Errands::Outcome::moved;
}

void Receiver::end(Stream& stream) noexcept {
  stream.ended = true;
  peer_.end();
}

void Receiver::stop() noexcept {
  errands_.recall();
  for (Stream& stream : streams_) {
    stream.ended = true;
    stream.next = ~std::uint64_t{0};
  }
}

bool Receiver::read(Stream& stream, std::size_t missing, bool& drained) noexcept {
  if (stream.ended) return false;
  iovec parts[] = {{stream.target + stream.got, missing},
                   {stream.staged.data() + stream.end, stream.staged.size() - stream.end}};
  ssize_t bytes = 0;
  if (missing == 0) {
    bytes = ::recv(stream.socket, parts[1].iov_base, parts[1].iov_len, MSG_DONTWAIT);
  } else {
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    bytes = ::recvmsg(stream.socket, &message, MSG_DONTWAIT);
  }
  if (bytes <= 0) {
    if (bytes == 0 || !try_later()) end(stream);
    return false;
  }
  peer_.came();
  drained = static_cast<std::size_t>(bytes) < missing + stream.staged.size() - stream.end;
  const std::size_t mine = std::min(missing, static_cast<std::size_t>(bytes));
  stream.got += mine;
  stream.end += static_cast<std::size_t>(bytes) - mine;
  return true;
}

/// Takes a header off the stage and finds room for its bytes.
bool Receiver::open(Stream& stream) noexcept {
  std::memcpy(&stream.header, stream.staged.data() + stream.begin, sizeof(Header));
  const std::size_t bytes = bytes_of(stream.header);
  if (stream.header.sequence != static_cast<std::uint32_t>(stream.next + 1) || bytes > limits::tcp_slot_bytes) {
    peer_.break_off();
    return false;
  }
  stream.begin += sizeof(Header);
  stream.has_header = true;
  stream.got = 0;
  const bool lands = landing_ != nullptr && stream.next == received_ && bytes == landing_bytes_;
  std::byte*& room = slots_[stream.next % limits::credits].room;
  if (!lands) room = free_[--free_count_];
  stream.target = lands ? landing_ : room;
  return true;
}

/// The message is complete.
void Receiver::close(Stream& stream) noexcept {
  Slot& slot = slots_[stream.next % limits::credits];
  slot.message = {};
  slot.message.data = stream.target;
  slot.message.bytes = static_cast<std::uint32_t>(bytes_of(stream.header));
  slot.message.offers_reply = (stream.header.bytes_and_kind & offers_reply) != 0;
  slot.message.raw = (stream.header.bytes_and_kind & raw) != 0;
  slot.message.signature = stream.header.signature;
  slot.complete = true;
  stream.has_header = false;
  stream.next += streams_.size();
}

}  // namespace rondo::tcp
