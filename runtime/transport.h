// Transports and links: interfaces only.
//
// A link is one-way, ordered and bounded: (from, to, lane).  Its two ends live in the two ranks; each end belongs to
// one strand while a run uses it.  Every call is noexcept and never blocks, reorders, allocates or calls back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "base/wakeups.h"

namespace rondo {

/// Which call a message belongs to: travels with every message, compared by the receiver.
struct Signature {
  std::uint64_t count = 0;      // elements, as the caller gave them
  std::uint32_t call = 0;       // number of the call on its communicator
  std::uint8_t collective = 0;  // CollectiveKind
  std::uint8_t type = 0;        // DataType
  std::uint8_t op = 0;          // Operator
  std::uint8_t root_low = 0;    // root, modulo 256
  friend constexpr bool operator==(const Signature&, const Signature&) = default;
};
static_assert(sizeof(Signature) == 16);

/// A message as the receiver sees it, from peek() until release().
struct Message {
  const std::byte* data = nullptr;  // `bytes` bytes: in a slot, or the lender's own memory
  std::uint32_t bytes = 0;
  bool lent = false;           // data is the lender's memory
  bool raw = false;            // data are elements of the lender's `in`: apply the pre-operator
  bool offers_reply = false;   // the sender waits for a reply: in `reply`, or as a message on the reverse link
  std::byte* reply = nullptr;  // lent and offered: where to store the reply, `bytes` bytes
  Signature signature;
};

/// What a message says besides its bytes.  In two registers: what travels through memory is stored in parts and read
/// whole, for which a processor waits until all that it has stored before, such as a message's bytes, is in its cache.
struct MessageFlags {
  bool raw = false;  // see Message
  bool offers_reply = false;
  bool among_others = false;  // its thread sends (of lend(): lends) on other links, too, before it looks for an answer
  std::size_t run = 0;  // of lend(): bytes from `source` on that this message and those behind it lend, one behind the
                        // other, each as long but the last; all may be read from now on; 0: no more than its own
};
static_assert(sizeof(MessageFlags) <= 2 * sizeof(std::size_t));

/// The sending end of a link.
class SendEnd {
 public:
  virtual ~SendEnd() = default;
  /// Room for the next message of `bytes` <= slot_bytes(), or null while there is no credit.  Asking again before
  /// commit() gives the same room.  There are credits for capacity() messages of any size, or one less while the
  /// peer keeps the room of one for an answer, or has not told of the last ones released.  There may be more for small
  /// ones and for lent ones.
  virtual std::byte* reserve(std::size_t bytes) noexcept = 0;
  /// Like reserve(), for the answer to a message of the reverse link that is peeked, and will be released just before
  /// this is committed.  It may be the room of the message itself: the answer's bytes come from the message's, one by
  /// one.
  virtual std::byte* reserve_answer(const Message& message) noexcept { return reserve(message.bytes); }
  /// Sends the reserved message.
  virtual void commit(std::size_t bytes, const Signature& signature, MessageFlags flags) noexcept = 0;
  /// Offers `bytes` at `source` in place of a copy, and `reply` (or null) for the answer.  Needs a credit: call after
  /// reserve() gave room.  False: declined, nothing was sent; copy into the room and commit.
  virtual bool lend(const std::byte* source, std::byte* reply, std::size_t bytes, const Signature& signature,
                    MessageFlags flags) noexcept = 0;
  /// Whether the receiver could read and write `bytes` at `data` in place.
  virtual bool can_lend(const std::byte* data, std::size_t bytes) noexcept {
    (void)data, (void)bytes;
    return false;
  }
  /// Like lend(), for links that copy: the bytes leave from `source` itself, which must stay as it is until released()
  /// counts the message; the receiver sees an ordinary one.  False: not offered; copy into the room and commit.
  virtual bool send_from(const std::byte* source, std::size_t bytes, const Signature& signature,
                         MessageFlags flags) noexcept {
    (void)source, (void)bytes, (void)signature, (void)flags;
    return false;
  }
  /// Like commit(), of a copy of `source`, which may change after the call.  Needs a credit.
  virtual void send_copy(const std::byte* source, std::size_t bytes, const Signature& signature,
                         MessageFlags flags) noexcept {
    std::byte* const room = reserve(bytes);
    if (bytes > 0) std::memcpy(room, source, bytes);
    commit(bytes, signature, flags);
  }
  /// Whether send_copy() costs less than to fill the room.
  virtual bool copies() const noexcept { return false; }
  /// Pushes what is queued.  True when every byte sent is in shared slots or the kernel's buffers.
  virtual bool flush() noexcept { return true; }
  /// Whether the end moves only when it is asked: flush() while a run waits, whatever it waits for.
  virtual bool polled() const noexcept { return false; }
  /// If polled(): adds what tells that flush() can do something; nothing where nothing is queued.
  virtual void add_wakeups(Wakeups& wakeups) const noexcept { (void)wakeups; }
  /// The end's user gives up in the middle of its use: from the return on nothing of its memory is touched any more,
  /// and the end is of no further use.  May wait for a system call of another thread or of the peer.
  virtual void stop() noexcept {}
  /// Messages sent, and messages the receiver released (or the kernel took), since the link opened: of a run all count
  /// when its first is sent, and when its last is released.  released() may lag where the last ones released were small
  /// and not lent.
  virtual std::uint64_t sent() const noexcept = 0;
  virtual std::uint64_t released() noexcept = 0;
  /// For a strand that waits for a credit or a release: does a part of what brings it.  True if it did something.
  virtual bool help() noexcept { return false; }
  /// For who has just read the first `upto` bytes of what it lends by one or more messages: brings its receiver as much
  /// of them as it is asked to.
  virtual void follow(std::size_t upto) noexcept { (void)upto; }
  /// Whether what is lent may be asked for in this way, and has not been yet.
  virtual bool may_be_asked() noexcept { return false; }
  virtual int capacity() const noexcept = 0;
  virtual std::size_t slot_bytes() const noexcept = 0;
  static constexpr std::size_t any_bytes = ~std::size_t{0};
  /// The longest message that gains where a call sends it before the peer's message of the call before has come.
  virtual std::size_t ahead_bytes_max() const noexcept { return any_bytes; }
  virtual Status status() const noexcept = 0;
};

/// The receiving end of a link.
class ReceiveEnd {
 public:
  virtual ~ReceiveEnd() = default;
  /// The oldest message not released, or null.
  virtual const Message* peek() noexcept = 0;
  /// Gives the peeked message's slot (or lent range) back to the sender.
  virtual void release() noexcept = 0;
  /// Takes in what has arrived, as far as there is room.  While a run waits, whatever it waits for, if polled().
  virtual void poll() noexcept {}
  virtual bool polled() const noexcept { return false; }
  /// If polled(): adds what tells that peek() or poll() can do something; nothing where there is no room.
  virtual void add_wakeups(Wakeups& wakeups) const noexcept { (void)wakeups; }
  /// Landing: names where the next message, if it has `bytes` bytes, should go; peek() then shows it there.  A hint, to
  /// be given before peek() and good until the message is released; `target` may be written at any time until then.
  /// `ahead` > 0: the same for the message so many behind the next one, which may be brought together with it; after
  /// those before it are named.  `run`: so many bytes, the message's and of those behind it, go to `target` one behind
  /// the other, and may be brought together with it; 0: no more than its own.
  virtual void land(std::byte* target, std::size_t bytes, int ahead = 0, std::size_t run = 0) noexcept {
    (void)target, (void)bytes, (void)ahead, (void)run;
  }
  /// For how many messages, from the next one on, land() may have an effect now.
  virtual int landings_wanted() const noexcept { return 1; }
  static constexpr std::size_t never_lands = ~std::size_t{0};
  /// For a strand that waits for a message that is lent: does a part of what brings it.  True if it did something.
  virtual bool help() noexcept { return false; }
  /// The bytes from which on land() may have an effect.
  virtual std::size_t lands_from() const noexcept { return never_lands; }
  /// See SendEnd::stop().
  virtual void stop() noexcept {}
  /// Where peek() has found nothing: why nothing comes any more.
  virtual Status status() const noexcept = 0;
};

/// What two ranks' control threads tell each other.  `kind` is the owner's: each Connection has its own numbers.
struct Frame {
  std::uint16_t kind = 0;
  std::vector<std::byte> body;
  std::vector<Descriptor> descriptors;
  bool descriptors_lost = false;  // they came, and this process had no room for them (RLIMIT_NOFILE)
};

inline constexpr std::uint16_t socket_frame = 0xffff;  // see Wire::connect_sockets
/// The body of such a frame, in this machine's byte order: it never leaves the process.
struct SocketPlace {
  std::uint32_t index = 0;
  std::uint32_t count = 0;
};
inline Frame make_socket_frame(SocketPlace place, Descriptor socket) {
  Frame frame{socket_frame, std::vector<std::byte>(sizeof place), {}};
  std::memcpy(frame.body.data(), &place, sizeof place);
  frame.descriptors.push_back(std::move(socket));
  return frame;
}

/// A reliable ordered channel of frames to one peer.  Any thread may send; sends never block (they queue).  Descriptors
/// are duplicated; the caller keeps its own.
class Wire {
 public:
  virtual ~Wire() = default;
  /// Whether descriptors can travel: not between hosts.
  virtual bool passes_descriptors() const noexcept { return true; }
  /// Connects `count` stream sockets between the two processes, proved on both sides like the wire itself.  Each side's
  /// Connection then gets `count` frames of kind socket_frame: a socket, and its SocketPlace.  On one side only, once.
  virtual void connect_sockets(int count) = 0;
  virtual void send(std::uint16_t kind, std::span<const std::byte> body, std::span<const int> descriptors = {}) = 0;
};

/// All links between this rank and one peer (which may be itself), by one transport.
class Connection {
 public:
  virtual ~Connection() = default;
  /// A frame from the peer.  On the control thread.  May throw Error: the connection has failed.
  virtual void receive(Frame& frame) = 0;
  /// The links are open; from then on the ends may be used.  Any thread.
  virtual bool ready() const noexcept = 0;
  /// Nothing more is sent from here: what was sent still arrives, and then its end.  Any thread.
  virtual void finish() noexcept {}
  /// Nothing more can come from the peer: the ends report `code` from now on.  Any thread.
  virtual void fail(Code code) noexcept = 0;
  virtual SendEnd& send_end(int lane) noexcept = 0;
  virtual ReceiveEnd& receive_end(int lane) noexcept = 0;
  /// Why the ends report an error, where the connection itself found it; empty: it did not.  By whoever uses the ends.
  virtual std::string trouble() const { return {}; }
  /// One sentence for the log: sizes, kind of memory.
  virtual std::string describe() const = 0;
};

/// A way to move bytes between ranks.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const noexcept = 0;
  /// Whether links to the peer behind the wire can be tried.
  virtual bool reaches(const Wire& wire) const noexcept = 0;
  /// Whether it links ranks of one host only.
  virtual bool local() const noexcept = 0;
  /// Begins opening the links to `peer` over `wire`; both ranks call it, `initiator` on exactly one of them (true on
  /// the lower rank).  On the control thread or the caller's.  `wire` outlives the connection.  Throws Error.
  virtual std::unique_ptr<Connection> open(int peer, bool initiator, Wire& wire) = 0;
  /// Links from this rank to itself (strands are joined by them), or null: this transport has none.
  virtual std::unique_ptr<Connection> open_self() = 0;
};

}  // namespace rondo
