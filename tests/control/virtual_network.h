// Nodes in virtual time: a clock, events in order, and messages that take a latency and their sender's bandwidth.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace rondo::test {

class VirtualNetwork {
 public:
  struct Speed {
    double latency_s = 50e-6;
    double bytes_per_s = 125e6;  // 1 Gbit/s
    double message_s = 20e-6;    // of its sender's time
  };
  VirtualNetwork(std::size_t nodes, Speed speed) : speed_(speed), busy_until_(nodes, 0) {}

  double now() const noexcept { return now_; }
  void after(double seconds, std::function<void()> action) {
    events_.emplace(std::make_pair(now_ + seconds, next_++), std::move(action));
  }
  /// Runs `arrive` when the bytes have gone out behind what the sender sent before, and have crossed the network.
  void send(int from, std::size_t bytes, std::function<void()> arrive) {
    double& busy = busy_until_[static_cast<std::size_t>(from)];
    busy = std::max(busy, now_) + speed_.message_s + static_cast<double>(bytes) / speed_.bytes_per_s;
    after(busy + speed_.latency_s - now_, std::move(arrive));
  }
  /// A connection and its handshake: eight ways, some of the callee's time.
  void connect(int to, std::function<void()> done) {
    after(6 * speed_.latency_s, [this, to, done = std::move(done)] { send(to, 500, done); });
  }
  /// Runs until nothing is left to happen.
  void run() {
    while (!events_.empty()) {
      const auto first = events_.begin();
      now_ = first->first.first;
      const auto action = std::move(first->second);
      events_.erase(first);
      action();
    }
  }

 private:
  Speed speed_;
  double now_ = 0;
  std::uint64_t next_ = 0;
  std::vector<double> busy_until_;
  std::map<std::pair<double, std::uint64_t>, std::function<void()>> events_;
};

}  // namespace rondo::test
