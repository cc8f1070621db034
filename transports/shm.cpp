// Shared memory between two ranks.  The lower rank makes the segment, writes a random number into it, and passes it
// with its doorbell; the higher rank maps both, finds that number there (the proof that memory is shared), answers
// in the segment, and passes its own doorbell.  Two rings of slots, one each way, then carry everything: each made by
// the rank that receives on it, in memory of its node.
//
// Lending: memory from ncclMemAlloc is a memfd.  The newest regions' descriptors are offered to the peer when the links
// open, others by their first lend, which is declined; once the peer has mapped a region, lends of it go through.
// Neither side ever waits for the other.  Other memory is lent by address where the kernel lets one process copy from
// the other (process_vm_readv; tried once when the links open, given up in silence where it is denied) and the message
// is large enough to pay for the system call.
#include "shm.h"

#include <sys/mman.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/doorbell.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/memory_file.h"
#include "base/processor.h"
#include "regions.h"
#include "shared_memory.h"
#include "slots.h"

namespace rondo {
namespace {

/// What a pair shares begins with this; the rings of all lanes are on the pages behind it.
struct Segment {
  std::uint64_t nonce = 0;
  std::atomic<std::uint64_t> answer{0};
};
/// One lane's rings: from the lower rank; from the higher rank.
template <typename Ring>
struct Rings {
  Ring of[2];
};
using LargeRings = Rings<slots::Ring>;
using SmallRings = Rings<slots::SecondRing>;  // of the second lane, where none was asked for
constexpr std::size_t rings_at = 4096;
static_assert(limits::plan_lanes_max == 2);
static_assert(sizeof(Segment) <= rings_at && sizeof(LargeRings) % alignof(LargeRings) == 0);
static_assert(rings_at + sizeof(LargeRings) + sizeof(SmallRings) <= (1u << 20), "a used peer costs at most 1 MiB");

template <typename T>
T* rings_of(Segment& segment, int lane) {
  std::byte* const at = reinterpret_cast<std::byte*>(&segment) + rings_at;
  return reinterpret_cast<T*>(at + static_cast<std::size_t>(lane) * sizeof(LargeRings));
}

std::size_t segment_bytes(int lanes) {
  return rings_at + static_cast<std::size_t>(lanes) * sizeof(LargeRings) + (lanes == 1 ? sizeof(SmallRings) : 0);
}

/// Commits the pages of one ring, the last of the segment or not, on a node and makes it there, in zeroed memory.
/// Payloads are not touched.  Where two rings share a page, it is of the one that begins there.
template <typename Ring>
void make_ring(SharedMemory& memory, int fd, Ring& place, bool last, int node) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  auto* const base = static_cast<std::byte*>(memory.data());
  const std::size_t at = static_cast<std::size_t>(reinterpret_cast<std::byte*>(&place) - base);
  const std::size_t begin = at / page * page;
  const std::size_t end = last ? memory.bytes() : (at + sizeof(Ring)) / page * page;
  memory.commit(fd, begin, end - begin, node);
  new (&place) Ring;
}

/// Each rank makes the rings that it receives on, on its own node: those from the higher rank, or from the lower.
void make_rings(SharedMemory& memory, int fd, int lanes, int from_higher, int node) {
  Segment& segment = *static_cast<Segment*>(memory.data());
  for (int lane = 0; lane < lanes; ++lane) {
    const bool last = from_higher == 1 && lanes > 1 && lane == lanes - 1;
    make_ring(memory, fd, rings_of<LargeRings>(segment, lane)->of[from_higher], last, node);
  }
  if (lanes == 1) make_ring(memory, fd, rings_of<SmallRings>(segment, 1)->of[from_higher], from_higher == 1, node);
}

/// The ring of a lane that carries what the lower rank sends, or the higher.
slots::RingView ring(Segment& segment, int lane, int lanes, int from_higher) {
  if (lane == 1 && lanes == 1) return rings_of<SmallRings>(segment, lane)->of[from_higher];
  return rings_of<LargeRings>(segment, lane)->of[from_higher];
}

/// Of a pair whose communicator has so many.
int links_of(int lanes) { return std::max(lanes, limits::plan_lanes_max); }

enum FrameKind : std::uint16_t {
  offer = 1,
  accept = 2,
  region_offer = 3,
  region_ready = 4,
  region_gone = 5,
  reads_memory = 6,  // "I can copy from and to your memory by address"
};

// Below this, a copy through a slot is cheaper than a system call and its page walks.
constexpr std::size_t kernel_copy_bytes_min = 8 * 1024;

constexpr std::size_t landing_bytes = slots::rooms_max * limits::slot_bytes;  // of a lane

/// How to find out whether one process may read and write the other's memory: `value` lies at `address` in process
/// `pid`, and there is room for it at `answer`.
struct Probe {
  std::uint64_t nonce = 0;  // what the segment holds
  std::int64_t pid = 0;
  std::uint64_t address = 0;
  std::uint64_t answer = 0;
  std::uint64_t value = 0;
};

struct RegionFrame {
  std::uint32_t id = 0;
  std::uint32_t unused = 0;
  std::uint64_t bytes = 0;
};

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <typename T>
T read_body(const Frame& frame) {
  T value;
  if (frame.body.size() != sizeof value) throw Error(Code::internal_error, "a shared-memory frame has a wrong size");
  std::memcpy(&value, frame.body.data(), sizeof value);
  return value;
}

void expect_descriptors(const Frame& frame, std::size_t count, const std::string& with) {
  if (frame.descriptors_lost) {
    throw Error(Code::system_error,
                "no room for " + std::to_string(count) + " more open files, for " + with + " (see ulimit -n)");
  }
  if (frame.descriptors.size() != count) throw Error(Code::internal_error, with + " came with other descriptors");
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) throw_system_error("cannot get random bytes");
  return number;
}

/// The two ends of one lane.
struct Lane {
  Lane(slots::RingView outgoing, slots::RingView incoming, slots::Peer& peer, std::byte* landing)
      : send(outgoing, peer, acknowledged), receive(incoming, peer, acknowledged, 0, landing) {
    if (&outgoing.head != &incoming.head) acknowledged.join(outgoing, incoming);
  }
  slots::Acknowledged acknowledged;
  slots::Sender send;
  slots::Receiver receive;
};

std::byte* end_of(const iovec& range) noexcept { return static_cast<std::byte*>(range.iov_base) + range.iov_len; }

/// Copies between the peer's memory and ours by address; an errno, or 0.
int transfer(std::int64_t pid, std::span<const slots::Copy> copies, bool write) noexcept {
  iovec local[slots::copies_max];
  iovec remote[slots::copies_max];
  std::size_t count = 0;
  std::size_t bytes = 0;
  for (const slots::Copy& copy : copies) {
    bytes += copy.bytes;
    if (count > 0) {
      iovec& here = local[count - 1];
      iovec& there = remote[count - 1];
      // What lies together goes together: each range costs the kernel 1.7 us besides its bytes.
      if (end_of(here) == copy.here && end_of(there) == reinterpret_cast<std::byte*>(copy.there)) {
        here.iov_len += copy.bytes;
        there.iov_len += copy.bytes;
        continue;
      }
    }
    local[count] = {copy.here, copy.bytes};
    remote[count++] = {reinterpret_cast<void*>(copy.there), copy.bytes};
  }
  const auto call = write ? ::process_vm_writev : ::process_vm_readv;
  const ssize_t done = call(static_cast<pid_t>(pid), local, count, remote, count, 0);
  return done == static_cast<ssize_t>(bytes) ? 0 : done < 0 ? errno : EFAULT;
}

/// What each side may do with the other's memory: this process's regions as the peer has mapped them, the peer's as
/// mapped here, and any memory by address where the kernel allows it.
class Borrowing final : public slots::Lender, public Regions::Watcher {
 public:
  Borrowing(Wire& wire, int lanes) : wire_(wire), lanes_(lanes), probe_value_(random_number()) {
    Regions::instance().watch(*this);
  }
  ~Borrowing() override { Regions::instance().unwatch(*this); }

  Probe probe(std::uint64_t nonce) const noexcept {
    return {nonce, ::getpid(), reinterpret_cast<std::uintptr_t>(&probe_value_),
            reinterpret_cast<std::uintptr_t>(&probe_answer_), probe_value_};
  }

  /// Tries to read what the peer's probe names, and to write it back; tells the peer if that worked.
  void try_probe(const Probe& probe) {
    std::uint64_t found = 0;
    slots::Copy copy{reinterpret_cast<std::byte*>(&found), probe.address, sizeof found};
    if (transfer(probe.pid, {&copy, 1}, false) != 0 || found != probe.value) return;
    copy.there = probe.answer;
    if (transfer(probe.pid, {&copy, 1}, true) != 0) return;
    same_process_ = probe.pid == ::getpid();
    peer_pid_ = probe.pid;
    if (!same_process_) landings_ = std::make_unique_for_overwrite<std::byte[]>(lanes_ * landing_bytes);
    wire_.send(reads_memory, {});
  }
  void peer_reads_memory() noexcept { peer_reads_.store(true, std::memory_order_release); }
  std::string_view describe() const noexcept {
    if (same_process_) return "same process";
    return peer_pid_ != 0 ? "kernel copy" : "no kernel copy";
  }

  bool reachable_by_address(std::size_t bytes) const noexcept override {
    return bytes >= kernel_copy_bytes_min && peer_reads_.load(std::memory_order_acquire);
  }
  bool read(std::span<const slots::Copy> copies) noexcept override {
    return copied(transfer(peer_pid_, copies, false));
  }
  bool write(std::span<const slots::Copy> copies) noexcept override {
    return copied(transfer(peer_pid_, copies, true));
  }
  int error() const noexcept override { return error_.load(std::memory_order_relaxed); }
  /// For what a lane's messages lend by address; null: no copies.
  std::byte* landing(int lane) noexcept { return landings_ ? landings_.get() + lane * landing_bytes : nullptr; }

  bool find(const void* data, std::size_t bytes, std::uint32_t& region, std::uint64_t& offset) noexcept override {
    Regions::Found found;
    if (!Regions::instance().find(data, bytes, found)) return false;
    const std::uint32_t slot = Regions::slot_of(found.id);
    if (mapped_there_[slot].load(std::memory_order_acquire) != found.id) {
      if (offered_[slot].exchange(found.id, std::memory_order_relaxed) != found.id) offer_region(found.id);
      return false;
    }
    region = found.id;
    offset = found.offset;
    return true;
  }

  /// Offers what will most likely be lent, so that the first lends need not be declined.
  void offer_newest() {
    for (const std::uint32_t id : Regions::instance().newest(limits::regions_offered)) {
      if (offered_[Regions::slot_of(id)].exchange(id, std::memory_order_relaxed) != id) offer_region(id);
    }
  }

  std::byte* at(std::uint32_t region, std::uint64_t offset) noexcept override {
    const Mapping& mapping = mapped_here_[Regions::slot_of(region)];
    if (mapping.id.load(std::memory_order_acquire) != region) return nullptr;
    return mapping.base.load(std::memory_order_relaxed) + offset;
  }

  void gone(std::uint32_t id) noexcept override {
    const std::uint32_t slot = Regions::slot_of(id);
    if (offered_[slot].load(std::memory_order_relaxed) != id) return;
    offered_[slot].store(0, std::memory_order_relaxed);  // this number may come again
    mapped_there_[slot].store(0, std::memory_order_relaxed);
    try {
      wire_.send(region_gone, bytes_of(RegionFrame{id, 0, 0}));
    } catch (...) {
      // Not told: the peer keeps the region mapped until the connection ends, and never uses it.
    }
  }

  void map(const Frame& frame) {
    const auto body = read_body<RegionFrame>(frame);
    Mapping& mapping = mapped_here_[Regions::slot_of(body.id)];
    try {
      expect_descriptors(frame, 1, "a peer's region");
      mapping.memory = SharedMemory::map(frame.descriptors[0].get(), body.bytes);
    } catch (const Error& error) {  // its lends stay declined
      log::info(log::Subsystem::alloc,
                std::string("A peer's memory is copied, not read in place: ") + error.what() + ".");
      return;
    }
    // Fill the page tables here, on the control thread, rather than by faults in the middle of a collective.
    ::madvise(mapping.memory.data(), body.bytes, MADV_POPULATE_WRITE);
    mapping.base.store(static_cast<std::byte*>(mapping.memory.data()), std::memory_order_relaxed);
    mapping.id.store(body.id, std::memory_order_release);
    wire_.send(region_ready, bytes_of(body));
  }

  void unmap(const Frame& frame) {
    const auto body = read_body<RegionFrame>(frame);
    Mapping& mapping = mapped_here_[Regions::slot_of(body.id)];
    if (mapping.id.load(std::memory_order_relaxed) != body.id) return;
    mapping.id.store(0, std::memory_order_relaxed);
    // Another rank's death may have failed the lender's call, and not yet ours, which may be reading: so no unmapping.
    mapping.memory.empty();
  }

  void confirmed(const Frame& frame) {
    const auto body = read_body<RegionFrame>(frame);
    const std::uint32_t slot = Regions::slot_of(body.id);
    if (offered_[slot].load(std::memory_order_relaxed) != body.id) return;  // gone meanwhile
    mapped_there_[slot].store(body.id, std::memory_order_release);
  }

 private:
  /// `memory` is the control thread's; others look at `id` and `base`.
  struct Mapping {
    std::atomic<std::uint32_t> id{0};
    std::atomic<std::byte*> base{nullptr};
    SharedMemory memory;
  };

  bool copied(int error) noexcept {
    if (error != 0) error_.store(error, std::memory_order_relaxed);
    return error == 0;
  }

  void offer_region(std::uint32_t id) noexcept {
    try {
      Regions::instance().with(id, [&](int fd, std::size_t bytes) {
        const int descriptors[] = {fd};
        wire_.send(region_offer, bytes_of(RegionFrame{id, 0, bytes}), descriptors);
      });
    } catch (...) {
      // Not offered: the region's lends stay declined, which is always right.
    }
  }

  Wire& wire_;
  const std::size_t lanes_;
  const std::uint64_t probe_value_;
  std::uint64_t probe_answer_ = 0;  // written by the peer
  std::int64_t peer_pid_ = 0;       // 0: its memory can't be read by address
  bool same_process_ = false;
  std::unique_ptr<std::byte[]> landings_;
  std::atomic<bool> peer_reads_{false};
  std::atomic<int> error_{0};
  std::array<std::atomic<std::uint32_t>, limits::regions_max> offered_{};
  std::array<std::atomic<std::uint32_t>, limits::regions_max> mapped_there_{};
  std::array<Mapping, limits::regions_max> mapped_here_{};
};

class ShmConnection final : public Connection {
 public:
  ShmConnection(int peer, bool initiator, Wire& wire, Doorbell& doorbell, int lanes, int node, bool crowded,
                std::atomic<int>& busy)
      : initiator_(initiator),
        wire_(wire),
        doorbell_(doorbell),
        lanes_(lanes),
        node_(node),
        borrowing_(wire, links_of(lanes)) {
    peer_.rank = peer;
    peer_.lender = &borrowing_;
    peer_.has_core = !crowded;
    peer_.takes_lines = processor::writers_wait_for_readers();
    peer_.busy = &busy;
    if (!initiator) return;
    memory_ = SharedMemory::create("rondo-pair", segment_bytes(lanes));
    memory_.commit(memory_.fd(), 0, rings_at, node);
    segment_ = new (memory_.data()) Segment;
    make_rings(memory_, memory_.fd(), lanes, 1, node);
    segment_->nonce = random_number();
    const int descriptors[] = {memory_.fd(), doorbell_.page_fd(), doorbell_.event_fd()};
    wire_.send(offer, bytes_of(borrowing_.probe(segment_->nonce)), descriptors);
  }

  void receive(Frame& frame) override {
    switch (frame.kind) {
      case offer: return accept_offer(frame);
      case accept: return finish_offer(frame);
      case region_offer: return borrowing_.map(frame);
      case region_ready: return borrowing_.confirmed(frame);
      case region_gone: return borrowing_.unmap(frame);
      case reads_memory: return borrowing_.peer_reads_memory();
      default: throw Error(Code::internal_error, "an unknown shared-memory frame, " + std::to_string(frame.kind));
    }
  }

  bool ready() const noexcept override { return ready_.load(std::memory_order_acquire); }
  void fail(Code code) noexcept override {
    int none = 0;
    peer_.code.compare_exchange_strong(none, static_cast<int>(code), std::memory_order_acq_rel);
  }
  SendEnd& send_end(int lane) noexcept override { return links_[lane]->send; }
  ReceiveEnd& receive_end(int lane) noexcept override { return links_[lane]->receive; }
  std::string trouble() const override {
    const auto words = [](int error) {
      return " (process_vm_readv, process_vm_writev: " + std::string(std::strerror(error)) + ")";
    };
    for (const auto& lane : links_) {
      const int error = lane->receive.refused() ? borrowing_.error() : 0;
      if (error > 0) return "the kernel copies nothing between the two processes any more" + words(error);
      const int theirs = lane->send.refused();
      if (theirs > 0) return "the kernel lets it copy nothing between the two processes any more" + words(theirs);
    }
    return {};
  }
  std::string describe() const override {
    return "shared memory, " + std::to_string(limits::credits) + " slots of " +
           std::to_string(limits::slot_bytes / 1024) + " KiB each way" +
           (lanes_ > 1 ? " on each of " + std::to_string(lanes_) + " lanes, " : ", ") +
           std::string(borrowing_.describe());
  }

 private:
  void accept_offer(Frame& frame) {
    if (initiator_) throw Error(Code::internal_error, "a wrong shared-memory offer");
    expect_descriptors(frame, 3, "an offer of shared memory");
    memory_ = SharedMemory::map(frame.descriptors[0].get(), segment_bytes(lanes_));
    segment_ = static_cast<Segment*>(memory_.data());
    const auto probe = read_body<Probe>(frame);
    if (segment_->nonce != probe.nonce) {
      throw Error(Code::system_error, "shared memory passed by the peer does not hold what the peer wrote");
    }
    make_rings(memory_, frame.descriptors[0].get(), lanes_, 0, node_);
    segment_->answer.store(~segment_->nonce, std::memory_order_release);
    const int descriptors[] = {doorbell_.page_fd(), doorbell_.event_fd()};
    wire_.send(accept, bytes_of(borrowing_.probe(segment_->nonce)), descriptors);
    borrowing_.try_probe(probe);
    open(frame.descriptors[1].get(), frame.descriptors[2].get());
  }

  void finish_offer(Frame& frame) {
    if (!initiator_) throw Error(Code::internal_error, "a wrong shared-memory answer");
    expect_descriptors(frame, 2, "an answer of shared memory");
    if (segment_->answer.load(std::memory_order_acquire) != ~segment_->nonce) {
      throw Error(Code::system_error, "the peer's answer did not arrive in shared memory");
    }
    memory_.take_descriptor();
    borrowing_.try_probe(read_body<Probe>(frame));
    open(frame.descriptors[0].get(), frame.descriptors[1].get());
  }

  void open(int page_file, int event_fd) {
    peer_doorbell_.emplace_back(Doorbell::map(page_file, event_fd));
    peer_.doorbell = peer_doorbell_.back().ringer();
    const int outgoing = initiator_ ? 0 : 1;
    for (int lane = 0; lane < links_of(lanes_); ++lane) {
      links_.push_back(std::make_unique<Lane>(ring(*segment_, lane, lanes_, outgoing),
                                              ring(*segment_, lane, lanes_, 1 - outgoing), peer_,
                                              borrowing_.landing(lane)));
    }
    borrowing_.offer_newest();
    ready_.store(true, std::memory_order_release);
  }

  const bool initiator_;
  Wire& wire_;
  Doorbell& doorbell_;
  const int lanes_;
  const int node_;
  SharedMemory memory_;
  Segment* segment_ = nullptr;
  std::vector<Doorbell> peer_doorbell_;  // none until the peer's has come
  slots::Peer peer_;
  Borrowing borrowing_;
  std::vector<std::unique_ptr<Lane>> links_;  // by lane
  std::atomic<bool> ready_{false};
};

/// A rank's links to itself: the same rings in private memory, lending by plain addresses.
class SelfConnection final : public Connection, slots::Lender {
 public:
  SelfConnection(Doorbell& doorbell, int lanes) {
    peer_.doorbell = doorbell.ringer();
    peer_.lender = this;
    for (int lane = 0; lane < lanes; ++lane) {
      rings_.push_back(std::make_unique_for_overwrite<slots::Ring>());
      links_.push_back(std::make_unique<Lane>(*rings_.back(), *rings_.back(), peer_, nullptr));
    }
    if (lanes == 1) links_.push_back(std::make_unique<Lane>(*second_ring_, *second_ring_, peer_, nullptr));
  }
  void receive(Frame&) override {}
  bool ready() const noexcept override { return true; }
  void fail(Code) noexcept override {}
  SendEnd& send_end(int lane) noexcept override { return links_[lane]->send; }
  ReceiveEnd& receive_end(int lane) noexcept override { return links_[lane]->receive; }
  std::string describe() const override { return "itself"; }

 private:
  bool reachable_by_address(std::size_t) const noexcept override { return false; }
  bool read(std::span<const slots::Copy>) noexcept override { return false; }
  bool write(std::span<const slots::Copy>) noexcept override { return false; }
  bool find(const void* data, std::size_t, std::uint32_t&, std::uint64_t& offset) noexcept override {
    offset = reinterpret_cast<std::uintptr_t>(data);
    return true;
  }
  std::byte* at(std::uint32_t, std::uint64_t offset) noexcept override { return reinterpret_cast<std::byte*>(offset); }

  slots::Peer peer_;
  // Payloads stay untouched, and so take no memory, until a plan uses the link.
  std::vector<std::unique_ptr<slots::Ring>> rings_;
  const std::unique_ptr<slots::SecondRing> second_ring_ = std::make_unique_for_overwrite<slots::SecondRing>();
  std::vector<std::unique_ptr<Lane>> links_;  // by lane
};

class ShmTransport final : public Transport {
 public:
  ShmTransport(Doorbell& doorbell, int lanes, int node, bool crowded)
      : doorbell_(doorbell), lanes_(lanes), node_(node), crowded_(crowded) {
    const std::string limit = memory_file_limit(segment_bytes(lanes));
    may_share_ = limit.empty();
    if (may_share_) return;
    log::warn("other ranks are not linked by shared memory: a pair takes " + std::to_string(segment_bytes(lanes)) +
              " bytes of it, and " + limit);
  }
  std::string_view name() const noexcept override { return "shm"; }
  bool reaches(const Wire& wire) const noexcept override { return may_share_ && wire.passes_descriptors(); }
  bool local() const noexcept override { return true; }
  std::unique_ptr<Connection> open(int peer, bool initiator, Wire& wire) override {
    return std::make_unique<ShmConnection>(peer, initiator, wire, doorbell_, lanes_, node_, crowded_, busy_);
  }
  std::unique_ptr<Connection> open_self() override { return std::make_unique<SelfConnection>(doorbell_, lanes_); }

 private:
  Doorbell& doorbell_;
  const int lanes_;
  const int node_;
  const bool crowded_;
  std::atomic<int> busy_{0};  // slots::Peer::busy
  bool may_share_ = true;     // whichever rank of a pair makes the segment: the pair takes what both offer
};

}  // namespace

std::unique_ptr<Transport> make_shm_transport(Doorbell& doorbell, int lanes, int node, bool crowded) {
  return std::make_unique<ShmTransport>(doorbell, lanes, node, crowded);
}

}  // namespace rondo
