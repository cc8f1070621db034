// One link over TCP sockets: its sending and its receiving end.
//
// Message i travels on socket i modulo the number of sockets, as a 32-byte header and its bytes.  The sender holds up
// to `headers` messages that the kernel has not taken yet, `credits` of them in its own memory; the receiver takes up
// to `credits` messages out of the kernel, whatever the strand waits for, so that neither end ever depends on the
// other's kernel buffers.  There are no credit messages: a full receiver stops reading, and TCP's own window does the
// rest.  So a sender can be ahead of its receiver's releases by more than `credits`, as far as the kernel buffers.
// Nothing here blocks.
//
// With helpers (tcp_helpers.h) socket s is thread s modulo the number of threads', thread 0 being whoever uses the end.
// The bytes of large messages on the others' sockets are handed over; the rest is as above.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/limits.h"
#include "tcp_helpers.h"
#include "tcp_zero_copy.h"
#include "transport.h"

namespace rondo::tcp {

/// What goes before a message's bytes.  The kernel copies both to one place: a malloc'ed buffer, 16 bytes past a page's
/// begin, must not lie 8 bytes before where it goes to, modulo a page; an AMD processor takes twice as long for those.
struct Header {
  std::uint32_t sequence = 0;        // number of the message + 1
  std::uint32_t bytes_and_kind = 0;  // top bits: waits for a reply, raw
  Signature signature;
  std::uint64_t unused = 0;
};
static_assert(sizeof(Header) == 32);

/// Why nothing more can come from the peer; shared by both ends.
///
/// The end of the streams and the control plane's news of it overtake each other.  What was sent before either counts,
/// and the news has the better words: so an end waits for the news and the news for the end, but not for long without
/// anything that comes in.
class Peer {
 public:
  explicit Peer(int rank) : rank_(rank) {}
  /// A stream holds garbage.
  void break_off() noexcept { broken_.store(true, std::memory_order_release); }
  /// A stream has ended or failed.
  void end() noexcept;
  /// The control plane's news.  Any thread.
  void tell(Code why) noexcept;
  /// A stream has brought something.
  void came() noexcept {
    if (told_.load(std::memory_order_relaxed) != 0 || ended_.load(std::memory_order_relaxed)) [[unlikely]]
      be_patient();
  }
  Status send_status() const noexcept { return status(true); }
  /// `ended`: the stream of the next message has.
  Status receive_status(bool ended) const noexcept { return status(ended); }

 private:
  Status status(bool nothing_comes) const noexcept;
  void be_patient() noexcept;
  const int rank_;
  std::atomic<bool> broken_{false};
  std::atomic<bool> ended_{false};
  std::atomic<int> told_{0};               // Code
  std::atomic<std::int64_t> since_ms_{0};  // of the first end or news, or of what came after
};

/// Errands of an end, one for each of its sockets that has a helper; all given back with it.
class Errands {
 public:
  /// `helpers` or null: none.
  Errands(const std::vector<int>& sockets, bool sends, Helpers* helpers);
  ~Errands();
  Errands(const Errands&) = delete;
  Errands& operator=(const Errands&) = delete;

  bool any() const noexcept { return helpers_ != nullptr; }
  /// Whether a helper serves the socket.
  bool served(std::size_t socket) const noexcept { return any() && errands_[socket] != nullptr; }
  bool out(std::size_t socket) const noexcept { return any() && out_[socket]; }
  void give(std::size_t socket, iovec first, iovec second) noexcept;
  enum class Outcome : std::uint8_t { open, moved, failed };
  /// Of an errand that is out.
  Outcome look(std::size_t socket) noexcept;
  void recall() noexcept;

 private:
  Helpers* const helpers_;
  std::vector<Errand*> errands_;  // by socket; null: the owner's own
  std::vector<char> out_;
};

class Sender final : public SendEnd {
 public:
  /// `sockets`: connected, non-blocking; they and the helpers outlive the end.  Helpers send ordinarily, so
  /// that with them `zero_copy` has no effect.
  Sender(std::vector<int> sockets, Peer& peer, Helpers* helpers = nullptr, ZeroCopyUse zero_copy = ZeroCopyUse::off);

  std::byte* reserve(std::size_t bytes) noexcept override;
  void commit(std::size_t bytes, const Signature& signature, MessageFlags flags) noexcept override;
  bool lend(const std::byte*, std::byte*, std::size_t, const Signature&, MessageFlags) noexcept override {
    return false;
  }
  bool send_from(const std::byte* source, std::size_t bytes, const Signature& signature,
                 MessageFlags flags) noexcept override;
  /// What the kernel does not take at once is copied.
  void send_copy(const std::byte* source, std::size_t bytes, const Signature& signature,
                 MessageFlags flags) noexcept override;
  bool copies() const noexcept override { return true; }
  bool flush() noexcept override;
  bool polled() const noexcept override { return true; }
  void add_wakeups(Wakeups& wakeups) const noexcept override;
  std::uint64_t sent() const noexcept override { return sent_; }
  /// Messages that the kernel has taken whole, and whose memory it needs no longer.
  std::uint64_t released() noexcept override {
    flush();
    return released_;
  }
  void stop() noexcept override;
  int capacity() const noexcept override { return limits::credits; }
  std::size_t slot_bytes() const noexcept override { return limits::tcp_slot_bytes; }
  Status status() const noexcept override { return peer_.send_status(); }
  const std::vector<ZeroCopy>& zero_copies() const noexcept { return zero_copies_; }  // by socket

 private:
  static constexpr std::size_t packed_bytes_max = 512 - sizeof(Header);
  struct Slot {
    Header header;
    std::array<std::byte, packed_bytes_max> packed;  // few bytes follow their header: one piece costs the kernel less
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
    std::size_t done = 0;             // of header and data
    bool stays = false;               // the data, until all is done
    bool own = false;                 // the data lies in one of our rooms
    std::uint64_t zero_copy_end = 0;  // the kernel reads the data until its sends before this one are free
    bool is_packed() const noexcept { return data == packed.data(); }
    bool whole() const noexcept { return done == sizeof(Header) + bytes; }  // the kernel has it all
  };
  Slot& slot(std::uint64_t index) noexcept { return slots_[index % limits::headers]; }
  const Slot& slot(std::uint64_t index) const noexcept { return slots_[index % limits::headers]; }
  std::size_t socket_of(std::uint64_t index) const noexcept { return index % sockets_.size(); }
  /// Whether the memory of a whole message is its owner's again.
  bool free(std::uint64_t index) const noexcept {
    return zero_copies_[socket_of(index)].free_before(slot(index).zero_copy_end);
  }
  void release() noexcept;
  /// What is left: of the header, and of the data.
  static std::array<iovec, 2> rest(Slot& slot) noexcept;
  void enqueue(const std::byte* data, std::size_t bytes, const Signature& signature, MessageFlags flags,
               bool stays = true) noexcept;
  /// Gives the kernel more of message `index`; true when it has it all.
  bool push(std::uint64_t index) noexcept;
  /// The part of helpers in that: takes in what they have done, hands over what is theirs.  False: a helper has it.
  bool share(std::uint64_t index) noexcept;
  void break_off() noexcept;
  /// The room for the next message that needs one.
  std::byte* room() noexcept { return rooms_.get() + rooms_taken_ % limits::credits * limits::tcp_slot_bytes; }
  void take_room(Slot& slot) noexcept;

  const std::vector<int> sockets_;
  Peer& peer_;
  std::vector<ZeroCopy> zero_copies_;
  std::array<Slot, limits::headers> slots_;
  std::unique_ptr<std::byte[]> rooms_;
  std::uint64_t rooms_taken_ = 0;
  std::uint64_t rooms_free_ = limits::credits;  // behind the last one that may be taken
  std::uint64_t sent_ = 0;
  std::uint64_t released_ = 0;
  bool broken_ = false;  // takes nothing more
  Errands errands_;      // last: they touch all of the above
};

class Receiver final : public ReceiveEnd {
 public:
  Receiver(std::vector<int> sockets, Peer& peer, Helpers* helpers = nullptr);

  const Message* peek() noexcept override;
  void release() noexcept override;
  void poll() noexcept override;
  void land(std::byte* target, std::size_t bytes, int ahead = 0, std::size_t run = 0) noexcept override;
  std::size_t lands_from() const noexcept override { return 0; }
  bool polled() const noexcept override { return true; }
  void add_wakeups(Wakeups& wakeups) const noexcept override;
  void stop() noexcept override;
  /// Messages take their sockets in turn: nothing comes once that of the next one has ended.
  Status status() const noexcept override { return peer_.receive_status(streams_[received_ % streams_.size()].ended); }

 private:
  /// What one socket is in the middle of.
  struct Stream {
    int socket = -1;
    bool ended = false;      // brings nothing more
    std::uint64_t next = 0;  // number of the message that comes next on it
    bool has_header = false;
    Header header;
    std::byte* target = nullptr;  // of that message's bytes
    std::size_t got = 0;
    std::size_t begin = 0;  // of what is staged
    std::size_t end = 0;
    std::array<std::byte, 4096> staged;
  };
  struct Slot {
    bool complete = false;
    std::byte* room = nullptr;  // of ours, where its bytes are not landed
    Message message;
  };
  void fill(Stream& stream, std::uint64_t end) noexcept;
  /// Of what a helper may be at: whether the stream's bytes are its owner's again.
  bool back(Stream& stream) noexcept;
  void end(Stream& stream) noexcept;
  std::size_t place(const Stream& stream) const noexcept { return static_cast<std::size_t>(&stream - streams_.data()); }
  /// Reads from the socket: the rest of the message's bytes, then what follows into the stage.  False: nothing came.
  /// `drained` becomes true if that was all there is.
  bool read(Stream& stream, std::size_t missing, bool& drained) noexcept;
  bool open(Stream& stream) noexcept;
  void close(Stream& stream) noexcept;
  std::size_t bytes_of(const Header& header) const noexcept;

  Peer& peer_;
  std::vector<Stream> streams_;
  std::array<Slot, limits::credits> slots_;
  std::unique_ptr<std::byte[]> payloads_;
  std::array<std::byte*, limits::credits> free_;  // rooms; the last one is the one used last, and hot in the cache
  std::size_t free_count_ = 0;
  std::uint64_t received_ = 0;
  std::byte* landing_ = nullptr;  // of message received_, if it has landing_bytes_
  std::size_t landing_bytes_ = 0;
  std::uint64_t looked_behind_ = 0;  // up to message looked_behind_, for those that follow
  Errands errands_;                  // last: they touch all of the above
};

}  // namespace rondo::tcp
