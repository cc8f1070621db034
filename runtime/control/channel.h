// A channel: frames with descriptors over a stream socket, both ways, in order.
//
// A frame is a 16-byte header (magic, version, plane, kind, descriptor count, body bytes), then the body.  Two planes
// share a channel: the control plane's own frames, and those that a pair of Connections exchange.  Sizes are bounded,
// more narrowly until the peer has proved itself; until then, too, not a byte is read beyond the frame that is awaited,
// so that the socket can be given away.  Descriptors pass on Unix sockets only.  Loop thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "control/bytes.h"
#include "control/loop.h"
#include "control/socket.h"
#include "transport.h"

namespace rondo::control {

inline constexpr std::uint16_t protocol_version = 1;

enum class Plane : std::uint8_t { control = 0, connection = 1 };

/// Shared, so that an owner may drop it inside its handlers.
class Channel : public std::enable_shared_from_this<Channel> {
 public:
  struct Handlers {
    std::function<void(Plane plane, Frame& frame)> frame;
    /// The peer closed, died, or broke the protocol: `why`, for the log.  Once; nothing follows.
    std::function<void(const std::string& why)> closed;
  };
  /// Handlers run from the loop, never inside a call of the owner's (but receive_now's).
  static std::shared_ptr<Channel> open(Loop& loop, Socket socket);

  /// Replaces the handlers.  May be called inside one.
  void handle(Handlers handlers) { handlers_ = std::make_shared<const Handlers>(std::move(handlers)); }
  /// The peer has proved itself: frames may have their full size, and descriptors.
  void trust() noexcept { trusted_ = true; }
  /// Queues a frame and writes what the socket takes.
  void send(Plane plane, std::uint16_t kind, View body, std::vector<Descriptor> descriptors = {});
  /// Whether all that was sent is in the kernel's hands (or never will be).
  bool flushed() const noexcept { return queue_.empty(); }
  /// Calls `done` once, when flushed; not inside this call.
  void await_flush(std::function<void()> done);
  /// Reads and handles what has arrived.
  void receive_now();
  /// Closes at once; no handler runs any more.
  void stop();
  bool stopped() const noexcept { return watch_ == nullptr; }
  /// 0: not visible from here.
  pid_t peer_pid() const noexcept { return peer_pid_; }
  bool passes_descriptors() const noexcept { return unix_; }
  /// Of the other side, over TCP.
  const Address& peer_address() const noexcept { return peer_address_; }
  /// "pid 12", "10.0.0.1:4000"
  std::string peer_in_words() const;
  /// Stops, and hands over the socket, from which nothing was read beyond the last frame.
  Socket release();

 private:
  struct Outgoing {
    Bytes bytes;
    std::vector<Descriptor> descriptors;
    std::size_t sent = 0;
  };
  /// What came with one frame.
  struct Passed {
    std::vector<Descriptor> descriptors;
    bool lost = false;  // this process had no room for them
  };
  Channel(Loop& loop, Socket socket);
  void write_some();
  /// Gives up on the peer: both directions end, and the reading side reports `why`.
  void break_off(const std::string& why);
  /// False: nothing more to read for now.
  bool read_some();
  void parse();
  /// How much to read at most, now.
  std::size_t room() const noexcept;
  void end(const std::string& why);

  Loop& loop_;
  Socket socket_;
  bool unix_;
  pid_t peer_pid_;
  Address peer_address_;
  std::shared_ptr<const Handlers> handlers_;
  std::unique_ptr<Watch> watch_;
  bool trusted_ = false;
  bool writing_ = false;  // waits until the socket is writable
  std::deque<Outgoing> queue_;
  std::size_t queued_bytes_ = 0;
  std::function<void()> flushed_;
  Bytes received_;
  std::deque<Passed> received_descriptors_;
  std::string broken_;
};

}  // namespace rondo::control
