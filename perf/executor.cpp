// What the executor itself costs: nanoseconds a step over null links, which have every message and every credit at once
// and carry nothing, with a reducer that does nothing.  Prints a line for each schedule; the best of several rounds.
#include "executor.h"

#include <chrono>
#include <cstdio>

namespace rondo {
namespace {

constexpr std::size_t message_bytes = 64;

class NullSend final : public SendEnd {
 public:
  std::byte* reserve(std::size_t) noexcept override { return room_; }
  void commit(std::size_t, const Signature&, MessageFlags) noexcept override { ++sent_; }
  bool lend(const std::byte*, std::byte*, std::size_t, const Signature&, MessageFlags) noexcept override {
    ++sent_;
    return true;
  }
  std::uint64_t sent() const noexcept override { return sent_; }
  std::uint64_t released() noexcept override { return sent_; }
  int capacity() const noexcept override { return limits::credits; }
  std::size_t slot_bytes() const noexcept override { return limits::slot_bytes; }
  Status status() const noexcept override { return {}; }

 private:
  std::uint64_t sent_ = 0;
  std::byte room_[message_bytes] = {};
};

class NullReceive final : public ReceiveEnd {
 public:
  NullReceive() {
    message_.data = data_;
    message_.bytes = message_bytes;
    message_.lent = true;
    message_.reply = data_;
  }
  const Message* peek() noexcept override { return &message_; }
  void release() noexcept override {}
  Status status() const noexcept override { return {}; }

 private:
  std::byte data_[message_bytes] = {};
  Message message_;
};

class NullLinks final : public Links {
 public:
  explicit NullLinks(int ranks) : sends_(ranks), receives_(ranks), orders_(2 * ranks) {}
  SendEnd& send_end(int peer, int) override { return sends_[peer]; }
  ReceiveEnd& receive_end(int peer, int) override { return receives_[peer]; }
  EndOrder& send_order(int peer, int) override { return orders_[2 * peer]; }
  EndOrder& receive_order(int peer, int) override { return orders_[2 * peer + 1]; }

 private:
  std::vector<NullSend> sends_;
  std::vector<NullReceive> receives_;
  std::vector<EndOrder> orders_;
};

void reduce_nothing(const Reduction&, const Source*, int, std::byte* const*, int, std::size_t, bool) noexcept {}

double nanoseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::nano>(time).count();
}

/// Best time of several rounds of `repeat` calls, each over `tiles` tiles, in nanoseconds a call.
double best_call(const Program& program, int blocks, std::uint64_t tiles, int repeat) {
  const std::uint64_t count = tiles * message_bytes * static_cast<std::uint64_t>(blocks);
  std::vector<std::byte> memory(count);
  RunArguments a;
  a.program = &program;
  a.layout = plan::Layout(program.shape(), count, DataType::int8, {message_bytes, 1, message_bytes});
  a.in = a.out = a.scratch = memory.data();
  a.reduction.type = DataType::int8;
  a.reduce = reduce_nothing;
  Run run;
  run.arguments() = a;
  run.prepare();
  double best = 1e30;
  for (int round = 0; round < 20; ++round) {
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < repeat; ++i) {
      run.start();
      while (!run.done() && run.status().ok()) run.progress();
    }
    best = std::min(best, nanoseconds(std::chrono::steady_clock::now() - began) / repeat);
  }
  return run.status().ok() ? best : -1;
}

void measure(const plan::Schedule& schedule, int ranks) {
  const auto topology = plan::Topology::one_host(ranks);
  const int blocks = schedule.blocks(topology);
  const plan::Plan plan = schedule.build(topology, 0, 0);
  NullLinks links(ranks);
  const Program program({schedule.kind, ranks, blocks, 0, 0}, plan, schedule.widest(topology), links);
  std::size_t steps = 0, operands = 0;
  for (const plan::Strand& strand : plan.strands) {
    steps += strand.steps.size();
    for (const plan::Step& step : strand.steps) operands += step.from.size() + step.to.size();
  }
  constexpr std::uint64_t tiles = 1000;
  const double many = best_call(program, blocks, tiles, 10);
  const double one = best_call(program, blocks, 1, 10'000);
  std::printf("%-9s %-15s %5d %7zu %9zu %14.1f %18.1f %14.1f\n", std::string(plan::name(schedule.algorithm)).c_str(),
              std::string(plan::name(schedule.kind)).c_str(), ranks, steps, operands, many / tiles / steps,
              many / tiles / static_cast<double>(std::max<std::size_t>(operands, 1)), one);
}

}  // namespace
}  // namespace rondo

int main() {
  std::printf("# The executor with null links: time a step, a peer of a step, and of a call of one tile\n");
  std::printf("%-9s %-15s %5s %7s %9s %14s %18s %14s\n", "algorithm", "collective", "ranks", "steps", "peers",
              "step (ns)", "step's peer (ns)", "call (ns)");
  for (const rondo::plan::Schedule& schedule : rondo::plan::schedules()) {
    for (const int ranks : {2, 8}) rondo::measure(schedule, ranks);
  }
  return 0;
}
