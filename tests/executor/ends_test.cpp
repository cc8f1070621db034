// Several calls of one communicator under way in one thread: in which order they get the ends of their links, which may
// send before the calls before them have their messages, and which the executor need not look at.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <vector>

#include "executor.h"
#include "kernels/host_reducer.h"

using namespace rondo;

namespace {

/// A link that has room for so many messages, and brings what the test puts into it.
struct Wire final : SendEnd, ReceiveEnd {
  std::size_t gains_up_to = any_bytes;
  bool lends = false;
  std::uint64_t count = 0;
  bool among_others = false;  // the last one
  std::byte room[64] = {};
  std::deque<Message> come;

  std::byte* reserve(std::size_t) noexcept override { return room; }
  void commit(std::size_t, const Signature&, MessageFlags flags) noexcept override {
    ++count;
    among_others = flags.among_others;
  }
  bool lend(const std::byte*, std::byte*, std::size_t, const Signature&, MessageFlags) noexcept override {
    ++count;
    return true;
  }
  bool can_lend(const std::byte*, std::size_t) noexcept override { return lends; }
  std::uint64_t sent() const noexcept override { return count; }
  std::uint64_t released() noexcept override { return count; }
  int capacity() const noexcept override { return limits::credits; }
  std::size_t slot_bytes() const noexcept override { return limits::slot_bytes; }
  std::size_t ahead_bytes_max() const noexcept override { return gains_up_to; }
  Status status() const noexcept override { return {}; }
  const Message* peek() noexcept override { return come.empty() ? nullptr : &come.front(); }
  void release() noexcept override { come.pop_front(); }
  bool polled() const noexcept override { return false; }
  void add_wakeups(Wakeups&) const noexcept override {}
  void stop() noexcept override {}
};

class Wires final : public Links {
 public:
  SendEnd& send_end(int, int) override { return out; }
  ReceiveEnd& receive_end(int, int) override { return in; }
  EndOrder& send_order(int, int) override { return orders_[0]; }
  EndOrder& receive_order(int, int) override { return orders_[1]; }
  Wire out, in;

 private:
  EndOrder orders_[2];
};

/// All-reduces of rank 0 of two, a float each, by `algorithm`, all under way.
struct Calls {
  Wires wires;
  std::unique_ptr<Program> program, lending;
  std::vector<float> data;
  std::deque<Run> runs;
  float theirs = 10;

  /// `lends`: each has two programs, here of one plan, and begins with the one for ranks that all can lend.
  Calls(plan::Algorithm algorithm, std::size_t count, std::size_t gains_up_to, bool lends = false)
      : data(count, 1.0f), runs(count) {
    wires.out.gains_up_to = gains_up_to;
    wires.out.lends = lends;
    const plan::Schedule& schedule = *plan::find(CollectiveKind::all_reduce, algorithm);
    const auto topology = plan::Topology::on_hosts({0, 0});
    const plan::Collective collective{CollectiveKind::all_reduce, 2, schedule.blocks(topology), 0, 0};
    const auto bind = [&] {
      return std::make_unique<Program>(collective, schedule.build(topology, 0, 0), schedule.widest(topology), wires);
    };
    program = bind(), lending = bind();
    for (std::size_t i = 0; i < count; ++i) {
      RunArguments a;
      a.program = program.get();
      a.layout = plan::Layout(program->shape(), 1, DataType::float32);
      a.in = reinterpret_cast<const std::byte*>(&data[i]);
      a.out = reinterpret_cast<std::byte*>(&data[i]);
      a.reduction = {DataType::float32, Operator::sum, 2, 0};
      a.reduce = host_reducer().find(DataType::float32, Operator::sum);
      a.signature.call = static_cast<std::uint32_t>(i);
      if (lends) a.lending = {lending.get(), a.layout};
      a.alone = false;
      runs[i].start(a);
    }
  }
  /// As execute() does, but in the order given.
  void look(const std::vector<std::size_t>& order) {
    for (const std::size_t i : order) (void)runs[i].progress();
  }
  void bring(std::uint32_t call) {
    Message message;
    message.data = reinterpret_cast<std::byte*>(&theirs);
    message.bytes = sizeof theirs;
    message.signature.call = call;
    wires.in.come.push_back(message);
  }
};

}  // namespace

TEST_CASE("A call sends before the call before it has its message, and receives behind it") {
  Calls calls(plan::Algorithm::one_shot, 3, SendEnd::any_bytes);
  calls.look({2, 1});
  CHECK(calls.wires.out.count == 0);  // in the order of calls
  calls.look({0, 1, 2});
  CHECK(calls.wires.out.count == 3);
  for (const std::uint32_t call : {0, 1, 2}) calls.bring(call);
  calls.look({2, 1});
  CHECK(calls.wires.in.come.size() == 3);  // the first message is the first call's
  calls.look({0, 1, 2});
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(calls.runs[i].done());
    CHECK(calls.runs[i].status().ok());
    CHECK(calls.data[i] == 11);
  }
}

TEST_CASE("A call that leads sends, and looks at nothing that has come") {
  Calls calls(plan::Algorithm::one_shot, 1, SendEnd::any_bytes);
  calls.bring(0);
  calls.runs[0].lead();
  CHECK(calls.wires.out.count == 1);
  CHECK(calls.wires.in.come.size() == 1);
  CHECK(calls.runs[0].waits_for() == std::vector{1});  // what is looked for next
  calls.look({0});
  CHECK(calls.runs[0].done());
  CHECK(calls.data[0] == 11);
}

TEST_CASE("A message says that its thread sends others at the same time") {
  Calls calls(plan::Algorithm::one_shot, 1, SendEnd::any_bytes);
  for (const bool among_others : {true, false}) {
    calls.runs[0].arguments().alone = true;
    calls.runs[0].arguments().among_others = among_others;
    calls.runs[0].start();
    calls.runs[0].lead();
    CHECK(calls.wires.out.among_others == among_others);
  }
}

TEST_CASE("Where a link gains nothing by that, a call waits for the one before it") {
  Calls calls(plan::Algorithm::one_shot, 2, sizeof(float) - 1);
  calls.look({0, 1});
  CHECK(calls.wires.out.count == 1);
  CHECK_FALSE(calls.runs[1].begun());
  calls.bring(0);
  calls.look({0, 1});
  CHECK(calls.runs[0].done());
  CHECK(calls.wires.out.count == 2);
}

TEST_CASE("A call that may begin again, and send once more, keeps its ends") {
  Calls calls(plan::Algorithm::one_shot, 2, SendEnd::any_bytes, true);
  calls.look({0, 1});
  CHECK(calls.wires.out.count == 1);
  CHECK_FALSE(calls.runs[1].begun());
  calls.bring(0);
  calls.look({0, 1});
  CHECK(calls.runs[0].done());
  CHECK(calls.wires.out.count == 2);
}

TEST_CASE("An end is passed on behind the last step that uses it, not the first") {
  Calls calls(plan::Algorithm::ring, 2, SendEnd::any_bytes);  // it sends, and sends on what it receives
  calls.look({0, 1});
  CHECK(calls.wires.out.count == 1);
}

TEST_CASE("The end by which a reply may come is kept to the end") {
  using namespace rondo::plan;
  const std::vector<Step> steps{{.operation = Operation::lend, .to = {1}, .source = in(0), .target = out(0)},
                                {.operation = Operation::recv_copy, .from = {1}, .target = scratch(0)}};
  Wires wires;
  const Collective collective{CollectiveKind::send_recv, 2, 1, 0, 1};
  const Program program(collective, Plan{{{steps, 0}}, 1, 0}, 1, wires);
  const BoundStrand& strand = program.strands()[0];
  REQUIRE(strand.ends.size() == 2);
  REQUIRE(strand.steps[0].last_ends.size() == 1);
  CHECK(strand.ends[strand.steps[0].last_ends[0]] == &wires.send_order(1, 0));
  CHECK(strand.steps[1].last_ends.empty());
}

TEST_CASE("What waits behind a call that waits for its turn is not looked at") {
  struct Asked final : Watch {
    explicit Asked(const Calls& calls) : calls(calls) {}
    Status hopeless(const Run& run) const noexcept override {
      for (std::size_t i = 0; i < calls.runs.size(); ++i) {
        if (&calls.runs[i] == &run) ++times[i];
      }
      return {};
    }
    const Calls& calls;
    mutable int times[4] = {};
  };
  Calls calls(plan::Algorithm::one_shot, 4, 0);
  const Asked asked(calls);
  const std::atomic<int> failed{0};
  std::vector<Execution> executions(4);
  for (std::size_t i = 0; i < 4; ++i) {
    executions[i].run = &calls.runs[i];
    executions[i].supervision = {&failed, &asked};
    executions[i].behind = 3 - i;
  }
  Doorbell doorbell = Doorbell::create();
  Waiter waiter(WaitStyle::yield, doorbell, std::chrono::milliseconds(10));
  execute(executions, waiter);
  for (const Execution& e : executions) CHECK(e.status.code == Code::timeout);  // also those that were not looked at
  CHECK(asked.times[0] > 0);
  CHECK(asked.times[1] > 0);  // it is the one that waits for its turn
  CHECK(asked.times[2] == 0);
  CHECK(asked.times[3] == 0);
}
