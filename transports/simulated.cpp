// Links as queues with times: see simulated.h for what they promise.
#include "simulated.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace rondo::simulated {
namespace {

constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t guard_bytes = 16;  // behind every room: a sender that writes too much is caught
constexpr int guard_value = 0xc5;
constexpr int poison_value = 0xb7;  // what was released, and what was not written yet

void fill(std::byte* data, int value, std::size_t bytes) noexcept {
  if (bytes > 0) std::memset(data, value, bytes);
}

}  // namespace

/// The queue of one link, and its two ends.
class World::Link {
 public:
  Link(World& world, int from, int to, int lane)
      : world_(world), from_(from), to_(to), lane_(lane), slots_(world.options_.credits) {}

  SendEnd& send_end() noexcept { return sender_; }
  ReceiveEnd& receive_end() noexcept { return receiver_; }
  int from() const noexcept { return from_; }
  std::uint64_t unreceived() const noexcept { return sent_ - received_; }
  std::string name() const {
    std::string text("link ");
    return text.append(std::to_string(from_))
        .append(" -> ")
        .append(std::to_string(to_))
        .append(", lane ")
        .append(std::to_string(lane_));
  }
  /// Every message that has not arrived yet never does.
  void cut() noexcept {
    for (std::uint64_t i = received_; i < sent_; ++i) {
      if (slot(i).arrives_at > world_.now_) slot(i).arrives_at = never;
    }
  }

 private:
  struct Name {
    std::byte* target;
    std::size_t bytes;
    std::size_t run;
  };
  struct Slot {
    std::vector<std::byte> room;
    std::size_t bytes = 0;
    Message message;
    std::size_t run = 0;  // see MessageFlags
    std::uint64_t arrives_at = 0;
    std::uint64_t credited_at = 0;
  };

  class Sender final : public SendEnd {
   public:
    explicit Sender(Link& link) noexcept : link_(link) {}
    std::byte* reserve(std::size_t bytes) noexcept override { return link_.reserve(bytes); }
    void commit(std::size_t bytes, const Signature& signature, MessageFlags flags) noexcept override {
      link_.commit(bytes, signature, flags);
    }
    bool lend(const std::byte* source, std::byte* reply, std::size_t bytes, const Signature& signature,
              MessageFlags flags) noexcept override {
      return link_.lend(source, reply, bytes, signature, flags);
    }
    bool can_lend(const std::byte*, std::size_t) noexcept override { return link_.can_lend(); }
    std::uint64_t sent() const noexcept override { return link_.sent_; }
    std::uint64_t released() noexcept override { return link_.credits_returned(); }
    int capacity() const noexcept override { return link_.world_.options_.credits; }
    std::size_t slot_bytes() const noexcept override { return link_.world_.options_.slot_bytes; }
    Status status() const noexcept override { return link_.world_.status_seen(link_.from_, link_.to_); }

   private:
    Link& link_;
  };

  class Receiver final : public ReceiveEnd {
   public:
    explicit Receiver(Link& link) noexcept : link_(link) {}
    const Message* peek() noexcept override { return link_.peek(); }
    void release() noexcept override { link_.release(); }
    void land(std::byte* target, std::size_t bytes, int ahead, std::size_t run) noexcept override {
      link_.land({target, bytes, run}, ahead);
    }
    int landings_wanted() const noexcept override { return link_.landings_wanted(); }
    std::size_t lands_from() const noexcept override {
      return link_.world_.options_.landings > 0 ? 1 : ReceiveEnd::never_lands;
    }
    Status status() const noexcept override { return link_.world_.status_seen(link_.to_, link_.from_); }

   private:
    Link& link_;
  };

  Slot& slot(std::uint64_t message) noexcept { return slots_[message % slots_.size()]; }

  std::byte* reserve(std::size_t bytes) noexcept {
    if (bytes > world_.options_.slot_bytes) complain("a message of more than slot_bytes()");
    if (sent_ - credits_returned() >= slots_.size()) return nullptr;
    Slot& next = slot(sent_);
    if (reserved_ && next.bytes == bytes) return next.room.data();
    next.bytes = bytes;
    next.room.resize(std::max(next.room.size(), bytes + guard_bytes));
    fill(next.room.data(), poison_value, bytes);
    fill(next.room.data() + bytes, guard_value, guard_bytes);
    reserved_ = true;
    return next.room.data();
  }

  void commit(std::size_t bytes, const Signature& signature, MessageFlags flags) noexcept {
    if (!take(bytes)) return;
    Slot& next = slot(sent_);
    const std::byte* const guard = next.room.data() + bytes;
    if (std::any_of(guard, guard + guard_bytes, [](std::byte b) { return b != std::byte{guard_value}; })) {
      complain("written behind the room of a message");
    }
    if (bytes > 0 && world_.strikes(Fault::flip_bit)) next.room[bytes / 2] ^= std::byte{1};
    Slot& before = slot(sent_ + slots_.size() - 1);
    if (sent_ > received_ && slots_.size() > 1 && bytes > 0 && before.bytes == bytes && !before.message.lent &&
        world_.strikes(Fault::swap)) {
      std::swap_ranges(before.room.data(), before.room.data() + bytes, next.room.data());
    }
    publish({next.room.data(), static_cast<std::uint32_t>(bytes), false, flags.raw, flags.offers_reply, nullptr,
             signature});
  }

  bool lend(const std::byte* source, std::byte* reply, std::size_t bytes, const Signature& signature,
            MessageFlags flags) noexcept {
    const Lending lending = world_.options_.lending;
    if (lending == Lending::none || (lending == Lending::mixed && world_.random_.percent(50))) return false;
    if (!take(bytes)) return false;
    ++world_.lends_;
    ++world_.lent_out_[from_];
    if (bytes > 0 && reply != nullptr && world_.strikes(Fault::drop_reply)) reply = slot(sent_).room.data();
    publish({source, static_cast<std::uint32_t>(bytes), true, flags.raw, flags.offers_reply, reply, signature},
            flags.run);
    return true;
  }

  bool can_lend() noexcept {
    const Lending lending = world_.options_.lending;
    return lending == Lending::all || (lending == Lending::mixed && world_.random_.percent(50));
  }

  bool take(std::size_t bytes) noexcept {
    if (!reserved_ || slot(sent_).bytes != bytes) {
      complain("sent a message that was not reserved");
      return false;
    }
    reserved_ = false;
    return true;
  }

  void publish(const Message& message, std::size_t run = 0) noexcept {
    Slot& next = slot(sent_);
    next.message = message;
    next.run = run;
    ++world_.messages_;
    last_arrival_ = world_.arrival(last_arrival_);
    next.arrives_at = last_arrival_;
    if (lost_ || world_.killed_[to_] || world_.strikes(Fault::lose)) {
      next.arrives_at = never;
      lost_ = true;
    }
    ++sent_;
    if (!stale_credit_) stale_credit_ = world_.strikes(Fault::stale_credit);
  }

  std::uint64_t credits_returned() noexcept {
    while (credited_ < received_ && slot(credited_).credited_at <= world_.now_) ++credited_;
    return credited_ + (stale_credit_ && credited_ < sent_ ? 1 : 0);
  }

  const Message* peek() noexcept {
    if (!arrived(received_)) return nullptr;
    Message& message = slot(received_).message;
    if (landed_ == 0 && ahead_bytes_ == 0) bring();
    if (message.lent && ahead_bytes_ > 0 && message.bytes <= ahead_bytes_) message.data = ahead_;
    peeked_ = true;
    return &message;
  }

  bool arrived(std::uint64_t message) noexcept { return message < sent_ && slot(message).arrives_at <= world_.now_; }

  /// Names are kept in order; one out of order is a broken rule.
  void land(const Name& name, int ahead) noexcept {
    names_.resize(std::min(names_.size(), static_cast<std::size_t>(ahead)));
    if (names_.size() < static_cast<std::size_t>(ahead)) return complain("named a place out of order");
    names_.push_back(name);
  }

  int landings_wanted() noexcept {
    if (landed_ > 0 || ahead_bytes_ > 0) return 0;
    return static_cast<int>(world_.random_.below(static_cast<std::uint64_t>(world_.options_.landings) + 1));
  }

  /// Stores every message that has arrived where it is named to go, as soon as that is allowed; of a run, some more.
  void bring() noexcept {
    Slot& first = slot(received_);
    const std::size_t run = names_.empty() ? 0 : std::min(names_[0].run, first.run);
    if (run > first.bytes && first.bytes == names_[0].bytes && !first.message.raw && !first.message.offers_reply) {
      ahead_bytes_ = first.bytes + world_.random_.below(run - first.bytes + 1);
      ahead_ = names_[0].target;
      std::memcpy(ahead_, first.message.data, ahead_bytes_);
      ++world_.runs_;
      return;
    }
    for (const Name& name : names_) {
      const std::uint64_t index = received_ + static_cast<std::uint64_t>(landed_);
      if (!arrived(index)) return;
      Message& message = slot(index).message;
      if (message.raw || message.offers_reply || message.bytes != name.bytes) return;
      std::memcpy(name.target, message.data, message.bytes);
      message.data = name.target;
      ++landed_;
    }
  }

  void release() noexcept {
    if (!peeked_) return complain("released a message that was not peeked");
    peeked_ = false;
    names_.clear();
    landed_ -= landed_ > 0 ? 1 : 0;
    Slot& first = slot(received_);
    const std::size_t there = std::min(ahead_bytes_, first.bytes);
    ahead_bytes_ -= there;
    ahead_ += there;
    if (first.message.lent) {
      --world_.lent_out_[from_];
    } else {
      fill(first.room.data(), poison_value, first.bytes);
    }
    first.message = {};
    last_credit_ = world_.arrival(last_credit_);
    first.credited_at = last_credit_;
    ++received_;
  }

  void complain(const std::string& what) noexcept { world_.complain(name().append(": ").append(what)); }

  World& world_;
  const int from_;
  const int to_;
  const int lane_;
  std::vector<Slot> slots_;
  Sender sender_{*this};
  Receiver receiver_{*this};
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t credited_ = 0;
  std::uint64_t last_arrival_ = 0;
  std::uint64_t last_credit_ = 0;
  bool reserved_ = false;
  bool peeked_ = false;
  std::vector<Name> names_;      // where the next messages should land
  int landed_ = 0;               // messages from the oldest on that have landed
  std::size_t ahead_bytes_ = 0;  // of a run, from the oldest message on, that are there
  std::byte* ahead_ = nullptr;   // and where
  bool lost_ = false;
  bool stale_credit_ = false;
};

World::World(int ranks, const Options& options)
    : ranks_(ranks),
      options_(options),
      random_(options.seed),
      killed_(ranks, false),
      death_known_at_(static_cast<std::size_t>(ranks) * ranks, never),
      lent_out_(ranks, 0) {}

World::~World() = default;

World::Link& World::link(int from, int to, int lane) {
  auto& link = links_[{from, to, lane}];
  if (link == nullptr) link = std::make_unique<Link>(*this, from, to, lane);
  return *link;
}

SendEnd& World::send_end(int from, int to, int lane) { return link(from, to, lane).send_end(); }
ReceiveEnd& World::receive_end(int to, int from, int lane) { return link(from, to, lane).receive_end(); }

bool World::advance() {
  while (!events_.empty() && events_.top() <= now_) events_.pop();
  if (events_.empty()) return false;
  now_ = events_.top();
  return true;
}

void World::kill(int rank) {
  if (killed_[rank]) return;
  killed_[rank] = true;
  for (auto& [ends, link] : links_) {
    if (link->from() == rank && random_.percent(50)) link->cut();
  }
  for (int observer = 0; observer < ranks_; ++observer) {
    const std::uint64_t known_at = now_ + 1 + random_.below(options_.delay_max + options_.stall_ticks + 1);
    death_known_at_[static_cast<std::size_t>(observer) * ranks_ + rank] = known_at;
    events_.push(known_at);
  }
}

Status World::status_seen(int observer, int peer) const noexcept {
  if (death_known_at_[static_cast<std::size_t>(observer) * ranks_ + peer] > now_) return {};
  return {Code::remote_error, peer};
}

std::string World::leftovers() const {
  std::string text;
  for (const auto& [ends, link] : links_) {
    if (link->unreceived() == 0) continue;
    text.append(link->name()).append(": ").append(std::to_string(link->unreceived())).append(" messages left\n");
  }
  return text;
}

void World::complain(const std::string& what) noexcept {
  if (complaints_.size() < 100) complaints_.push_back(what);
}

std::uint64_t World::arrival(std::uint64_t not_before) noexcept {
  std::uint64_t ticks = random_.below(options_.delay_max + 1);
  if (random_.percent(options_.stall_percent)) ticks += options_.stall_ticks;
  const std::uint64_t time = std::max(not_before, now_ + ticks);
  events_.push(time);
  return time;
}

bool World::strikes(Fault fault) noexcept { return options_.fault == fault && fault_count_++ == options_.fault_at; }

}  // namespace rondo::simulated
