// Frames over a stream socket.
//
// Descriptors travel with the first byte of their frame, so they never arrive after it, and frames that carry some take
// them in order from a queue of those that arrived.
#include "control/channel.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/limits.h"

namespace rondo::control {
namespace {

constexpr std::uint32_t magic = 0x4f444e52;  // "RNDO"
constexpr std::size_t header_bytes = 16;
constexpr std::size_t body_bytes_at = 12;
constexpr std::size_t read_bytes = 16 * 1024;
constexpr int reads_a_turn = 16;  // then the loop's other descriptors get theirs

struct Header {
  std::uint16_t version = 0;
  std::uint16_t kind = 0;
  std::uint8_t plane = 0;
  std::uint8_t descriptors = 0;
  std::uint32_t body_bytes = 0;
};

std::string error_text(int error) { return std::system_category().message(error); }

}  // namespace

Channel::Channel(Loop& loop, Socket socket)
    : loop_(loop),
      socket_(std::move(socket)),
      unix_(is_unix(socket_)),
      peer_pid_(peer_of(socket_).pid),
      handlers_(std::make_shared<const Handlers>()) {
  if (!unix_) peer_address_ = control::peer_address(socket_);
}

std::string Channel::peer_in_words() const {
  return unix_ ? "pid " + std::to_string(peer_pid_) : in_words(peer_address_);
}

Socket Channel::release() {
  Socket socket = std::move(socket_);
  stop();
  return socket;
}

std::shared_ptr<Channel> Channel::open(Loop& loop, Socket socket) {
  std::shared_ptr<Channel> channel(new Channel(loop, std::move(socket)));
  channel->watch_ = std::make_unique<Watch>(loop, channel->socket_.get(), [weak = std::weak_ptr(channel)] {
    if (const auto self = weak.lock()) self->receive_now();
  });
  return channel;
}

void Channel::stop() {
  watch_.reset();
  socket_.reset();
  queue_.clear();
  flushed_ = nullptr;
}

void Channel::send(Plane plane, std::uint16_t kind, View body, std::vector<Descriptor> descriptors) {
  if (stopped() || !broken_.empty()) return;
  ByteWriter frame;
  frame.number(magic).number(protocol_version).number(kind);
  frame.number(static_cast<std::uint8_t>(plane)).number(static_cast<std::uint8_t>(descriptors.size()));
  frame.number(std::uint16_t{0}).number(static_cast<std::uint32_t>(body.size())).raw(body);
  queued_bytes_ += frame.size();
  queue_.push_back({frame.bytes(), std::move(descriptors)});
  if (queued_bytes_ > limits::queued_bytes_max) return break_off("it does not read its control frames");
  if (!writing_) write_some();
}

void Channel::write_some() {
  while (!queue_.empty()) {
    Outgoing& next = queue_.front();
    iovec part = {next.bytes.data() + next.sent, next.bytes.size() - next.sent};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(limits::frame_descriptors_max * sizeof(int))] = {};
    if (!next.descriptors.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(next.descriptors.size() * sizeof(int));
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(next.descriptors.size() * sizeof(int));
      int* fds = reinterpret_cast<int*>(CMSG_DATA(header));
      for (const Descriptor& descriptor : next.descriptors) *fds++ = descriptor.get();
    }
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) {
      writing_ = true;
      watch_->await_writable([weak = weak_from_this()] {
        const auto self = weak.lock();
        if (!self || self->stopped()) return;
        self->writing_ = false;
        self->write_some();
      });
      return;
    }
    if (sent < 0) return break_off(error_text(errno));
    next.descriptors.clear();
    next.sent += static_cast<std::size_t>(sent);
    queued_bytes_ -= static_cast<std::size_t>(sent);
    if (next.sent == next.bytes.size()) queue_.pop_front();
  }
  if (flushed_) loop_.post(std::exchange(flushed_, nullptr));
}

void Channel::break_off(const std::string& why) {
  broken_ = why;
  queue_.clear();
  // What the peer sent before is still read: it may say why it went.
  ::shutdown(socket_.get(), SHUT_RDWR);
  if (flushed_) loop_.post(std::exchange(flushed_, nullptr));
}

void Channel::await_flush(std::function<void()> done) {
  if (queue_.empty()) return loop_.post(std::move(done));
  flushed_ = std::move(done);
}

void Channel::receive_now() {
  for (int reads = 0; reads < reads_a_turn && !stopped(); ++reads) {
    if (!read_some()) return;
    parse();
  }
}

std::size_t Channel::room() const noexcept {
  if (trusted_) return read_bytes;
  if (received_.size() < header_bytes) return header_bytes - received_.size();
  // parse() has looked at this header: the size is a small one.
  const auto body_bytes = ByteReader(View(received_).subspan(body_bytes_at)).number<std::uint32_t>();
  return header_bytes + body_bytes - received_.size();
}

bool Channel::read_some() {
  std::byte bytes[read_bytes];
  iovec part = {bytes, std::min(sizeof(bytes), room())};
  alignas(cmsghdr) char control[CMSG_SPACE(limits::frame_descriptors_max * sizeof(int))];
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t got = -1;
  do {
    got = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) return false;
  if (got < 0) return end(error_text(errno)), false;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    const int* fds = reinterpret_cast<const int*>(CMSG_DATA(header));
    Passed& passed = received_descriptors_.emplace_back();
    for (std::size_t i = 0; i < count; ++i) passed.descriptors.emplace_back(fds[i]);
  }
  if (got == 0) return end(broken_.empty() ? "end of file" : broken_), false;
  if ((message.msg_flags & MSG_CTRUNC) != 0) {  // the message came, and not all that it carries
    if (CMSG_FIRSTHDR(&message) == nullptr) received_descriptors_.emplace_back();
    received_descriptors_.back() = {{}, true};
  }
  if (!trusted_ && !received_descriptors_.empty()) return end("it sent descriptors before it proved itself"), false;
  received_.insert(received_.end(), bytes, bytes + got);
  return true;
}

void Channel::parse() {
  std::size_t at = 0;
  while (!stopped() && received_.size() - at >= header_bytes) {
    ByteReader reader(View(received_).subspan(at, header_bytes));
    Header header;
    const auto found_magic = reader.number<std::uint32_t>();
    header.version = reader.number<std::uint16_t>();
    header.kind = reader.number<std::uint16_t>();
    header.plane = reader.number<std::uint8_t>();
    header.descriptors = reader.number<std::uint8_t>();
    reader.number<std::uint16_t>();
    header.body_bytes = reader.number<std::uint32_t>();
    if (found_magic != magic) return end("it does not speak Rondo's protocol");
    if (header.version != protocol_version) {
      return end("it speaks version " + std::to_string(header.version) + " of Rondo's protocol, this is version " +
                 std::to_string(protocol_version) + ": use one version of Rondo in all ranks");
    }
    if (header.body_bytes > (trusted_ ? limits::frame_bytes_max : limits::handshake_bytes_max)) {
      return end("it sent a frame of " + std::to_string(header.body_bytes) + " bytes");
    }
    if (received_.size() - at - header_bytes < header.body_bytes) break;
    Passed passed;
    if (header.descriptors > 0 && !received_descriptors_.empty()) {  // the kernel hands out one message's at a time
      passed = std::move(received_descriptors_.front());
      received_descriptors_.pop_front();
    }
    if (passed.descriptors.size() != header.descriptors && !passed.lost) {
      return end("it sent other descriptors than it said");
    }
    Frame frame;
    frame.kind = header.kind;
    const auto body = received_.begin() + static_cast<std::ptrdiff_t>(at + header_bytes);
    frame.body.assign(body, body + header.body_bytes);
    frame.descriptors = std::move(passed.descriptors);
    frame.descriptors_lost = passed.lost;
    at += header_bytes + header.body_bytes;
    const auto handlers = handlers_;  // it may replace them
    if (handlers->frame) handlers->frame(static_cast<Plane>(header.plane), frame);
  }
  received_.erase(received_.begin(), received_.begin() + static_cast<std::ptrdiff_t>(at));
}

void Channel::end(const std::string& why) {
  const auto handlers = handlers_;
  stop();
  if (handlers->closed) handlers->closed(why);
}

}  // namespace rondo::control
