// The kinds of links that exist: simulated, slot rings in plain memory, shared memory, TCP.
#include "pair.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <stdexcept>
#include <thread>

#include "memory.h"
#include "transports/regions.h"
#include "transports/shm.h"
#include "transports/simulated.h"
#include "transports/slots.h"
#include "transports/tcp.h"
#include "wires.h"

namespace links {
namespace {

class SimulatedPair final : public Pair {
 public:
  SimulatedPair() : world_(2, {.seed = 5, .lending = rondo::simulated::Lending::mixed}) {}
  rondo::SendEnd& send_end(int rank) override { return world_.send_end(rank, 1 - rank); }
  rondo::ReceiveEnd& receive_end(int rank) override { return world_.receive_end(rank, 1 - rank); }
  void pass() override { world_.advance(); }
  std::byte* lendable(int, std::size_t bytes) override {
    memory_.push_back(std::make_unique<std::byte[]>(bytes));
    return memory_.back().get();
  }
  void give_back(std::byte* memory) override {
    std::erase_if(memory_, [&](const auto& owned) { return owned.get() == memory; });
  }
  void kill(int rank) override { world_.kill(rank); }

 private:
  rondo::simulated::World world_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

/// Memory that is reachable as soon as it is allocated.
class PlainLender final : public rondo::slots::Lender {
 public:
  std::byte* allocate(std::size_t bytes) {
    auto owned = std::make_unique<std::byte[]>(bytes);
    std::byte* const memory = owned.get();
    memory_[memory] = {std::move(owned), bytes};
    return memory;
  }
  void free(std::byte* memory) { memory_.erase(memory); }

  bool reachable_by_address(std::size_t) const noexcept override { return false; }
  bool read(std::span<const rondo::slots::Copy>) noexcept override { return false; }
  bool write(std::span<const rondo::slots::Copy>) noexcept override { return false; }
  bool find(const void* data, std::size_t bytes, std::uint32_t& region, std::uint64_t& offset) noexcept override {
    for (const auto& [base, block] : memory_) {
      const auto* const at = static_cast<const std::byte*>(data);
      if (at < base || at + bytes > base + block.bytes) continue;
      region = 1;
      offset = reinterpret_cast<std::uintptr_t>(data);
      return true;
    }
    return false;
  }
  std::byte* at(std::uint32_t, std::uint64_t offset) noexcept override { return reinterpret_cast<std::byte*>(offset); }

 private:
  struct Block {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes = 0;
  };
  std::map<const std::byte*, Block> memory_;
};

class SlotsPair final : public Pair {
 public:
  SlotsPair(std::uint64_t first, bool takes_lines) {
    for (int rank = 0; rank < 2; ++rank) {
      peers_[rank].rank = 1 - rank;
      peers_[rank].doorbell = {&doorbells_[1 - rank]};
      peers_[rank].lender = &lender_;
      peers_[rank].takes_lines = takes_lines;
      rings_[rank] = std::make_unique<rondo::slots::Ring>();
      rings_[rank]->released.store(static_cast<std::uint32_t>(first));
      for (std::uint64_t i = first - std::min<std::uint64_t>(first, rondo::limits::headers); i < first; ++i) {
        rings_[rank]->headers[i % rondo::limits::headers].sequence.store(static_cast<std::uint32_t>(i + 1));
      }
    }
    for (int rank = 0; rank < 2; ++rank) {
      auto& acknowledged = acknowledged_[rank];
      acknowledged.join(*rings_[rank], *rings_[1 - rank]);
      senders_.push_back(std::make_unique<rondo::slots::Sender>(*rings_[rank], peers_[rank], acknowledged, first));
      receivers_.push_back(
          std::make_unique<rondo::slots::Receiver>(*rings_[1 - rank], peers_[rank], acknowledged, first));
    }
  }
  rondo::SendEnd& send_end(int rank) override { return *senders_[rank]; }
  rondo::ReceiveEnd& receive_end(int rank) override { return *receivers_[rank]; }
  void pass() override {}
  std::byte* lendable(int, std::size_t bytes) override { return lender_.allocate(bytes); }
  void give_back(std::byte* memory) override { lender_.free(memory); }
  void kill(int rank) override { peers_[1 - rank].code.store(static_cast<int>(rondo::Code::remote_error)); }

 private:
  PlainLender lender_;
  rondo::DoorbellPage doorbells_[2];
  rondo::slots::Peer peers_[2];
  std::unique_ptr<rondo::slots::Ring> rings_[2];
  rondo::slots::Acknowledged acknowledged_[2];
  std::vector<std::unique_ptr<rondo::slots::Sender>> senders_;
  std::vector<std::unique_ptr<rondo::slots::Receiver>> receivers_;
};

class ShmPair final : public Pair {
 public:
  ShmPair() {
    for (int rank = 0; rank < 2; ++rank) {
      doorbells_.push_back(std::make_unique<rondo::Doorbell>(rondo::Doorbell::create()));
      transports_.push_back(rondo::make_shm_transport(*doorbells_.back()));
      connections_.push_back(transports_.back()->open(1 - rank, rank == 0, wires_[rank]));
    }
    pass();
    if (!connections_[0]->ready() || !connections_[1]->ready()) throw std::runtime_error("the links did not open");
  }
  ~ShmPair() override {
    while (!memory_.empty()) give_back(memory_.back());
  }
  rondo::SendEnd& send_end(int rank) override { return connections_[rank]->send_end(0); }
  rondo::ReceiveEnd& receive_end(int rank) override { return connections_[rank]->receive_end(0); }
  void pass() override {
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < 2; ++rank) {
        rondo::Frame frame;
        while (wires_[rank].take(frame)) {
          connections_[1 - rank]->receive(frame);
          moved = true;
        }
      }
    }
  }
  std::byte* lendable(int, std::size_t bytes) override {
    memory_.push_back(static_cast<std::byte*>(rondo::Regions::instance().allocate(bytes)));
    return memory_.back();
  }
  void give_back(std::byte* memory) override {
    std::erase(memory_, memory);
    rondo::Regions::instance().release(memory);
  }
  void kill(int rank) override { connections_[1 - rank]->fail(rondo::Code::remote_error); }

 private:
  QueueWire wires_[2];
  std::vector<std::unique_ptr<rondo::Doorbell>> doorbells_;
  std::vector<std::unique_ptr<rondo::Transport>> transports_;
  std::vector<std::unique_ptr<rondo::Connection>> connections_;
  std::vector<std::byte*> memory_;
};

class TcpPair final : public Pair {
 public:
  explicit TcpPair(rondo::limits::TcpSockets sockets) {
    for (int rank = 0; rank < 2; ++rank) {
      doorbells_.push_back(std::make_unique<rondo::Doorbell>(rondo::Doorbell::create()));
      transports_.push_back(rondo::make_tcp_transport(*doorbells_.back(), sockets));
      connections_.push_back(transports_.back()->open(1 - rank, rank == 0, wire_));
    }
    rondo::Frame frame;
    while (wire_.take(frame)) connections_[1]->receive(frame);
    while (wire_.take_own(frame)) connections_[0]->receive(frame);
    if (!connections_[0]->ready() || !connections_[1]->ready()) throw std::runtime_error("the links did not open");
  }
  rondo::SendEnd& send_end(int rank) override { return connections_[rank]->send_end(0); }
  rondo::ReceiveEnd& receive_end(int rank) override { return connections_[rank]->receive_end(0); }
  /// What the executor does while a run waits.  A busy kernel may take its time.
  void pass() override {
    if (++passes_ % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
    for (const auto& connection : connections_) {
      if (connection == nullptr) continue;
      (void)connection->send_end(0).flush();
      connection->receive_end(0).poll();
    }
  }
  std::byte* lendable(int, std::size_t bytes) override {
    memory_.push_back(std::make_unique<std::byte[]>(bytes));
    return memory_.back().get();
  }
  void give_back(std::byte* memory) override {
    std::erase_if(memory_, [&](const auto& owned) { return owned.get() == memory; });
  }
  void kill(int rank) override {
    connections_[rank].reset();
    connections_[1 - rank]->fail(rondo::Code::remote_error);
  }
  void leave(int rank) override {
    connections_[rank]->finish();
    connections_[1 - rank]->fail(rondo::Code::remote_error);
  }

 private:
  QueueWire wire_;
  int passes_ = 0;
  std::vector<std::unique_ptr<rondo::Doorbell>> doorbells_;
  std::vector<std::unique_ptr<rondo::Transport>> transports_;
  std::vector<std::unique_ptr<rondo::Connection>> connections_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

}  // namespace

std::unique_ptr<Pair> simulated_pair() { return std::make_unique<SimulatedPair>(); }
std::unique_ptr<Pair> slots_pair(std::uint64_t first, bool takes_lines) {
  return std::make_unique<SlotsPair>(first, takes_lines);
}
std::unique_ptr<Pair> shm_pair() { return std::make_unique<ShmPair>(); }
std::unique_ptr<Pair> tcp_pair(int sockets, int threads) {
  return std::make_unique<TcpPair>(rondo::limits::TcpSockets{sockets, threads});
}

std::vector<Kind> kinds() {
  return {{"simulated", simulated_pair},
          {"slots", [] { return slots_pair(0); }},
          {"slots before the counters wrap", [] { return slots_pair((1ull << 32) - 40); }},
          {"slots whose lines are taken", [] { return slots_pair(0, true); }},
          {"shm", shm_pair},
          {"tcp", [] { return tcp_pair(1); }, false},
          {"tcp, 3 sockets", [] { return tcp_pair(3); }, false},
          {"tcp, 2 sockets, 2 threads", [] { return tcp_pair(2, 2); }, false},
          {"tcp, 8 sockets, 4 threads", [] { return tcp_pair(8, 4); }, false}};
}

}  // namespace links
