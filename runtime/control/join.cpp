// Joining: a rank's side of the bootstrap.  The caller waits; the control thread does the rest.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>

#include "base/limits.h"
#include "control.h"
#include "control/connector.h"
#include "control/host.h"
#include "control/root.h"
#include "control/thread.h"
#include "control/words.h"

namespace rondo::control {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds grace(500);  // beyond the deadline, for the root's own and better sentence to arrive

/// What joining came to.  The words of an error cross threads, not the exception object.
struct Result {
  Membership membership;
  std::optional<Failure> failure;
};

/// One rank that joins.  Lives on the control thread until `result` is set.
class Joiner : public std::enable_shared_from_this<Joiner> {
 public:
  Joiner(ControlThread& thread, RootAddress address, int rank, int ranks, Deadline deadline)
      : thread_(thread),
        address_(std::move(address)),
        ranks_(ranks),
        deadline_(deadline),
        patience_(time_left(deadline)),
        timer_(thread.loop()) {
    membership_.rank = rank;
  }

  void start() {
    timer_.start(deadline_ + grace, [self = shared_from_this()] { self->expire(); });
    Call call;
    call.name = address_.name;
    call.addresses = in_order_of_promise(address_.addresses);
    call.key = address_.key();
    call.secret = address_.secret;
    joining::Greeting greeting;
    greeting.member = {membership_.rank, ::getpid(), host_name(), host_key(), thread_.listener_name(), {}};
    if (address_.networked()) greeting.member.addresses = thread_.addresses();
    greeting.ranks = static_cast<std::uint32_t>(ranks_);
    greeting.patience_ms = static_cast<std::uint64_t>(patience_.count());
    greeting.left_ms = static_cast<std::uint64_t>(time_left(deadline_).count());
    call.greeting = joining::encode(greeting);
    connector_ = std::make_unique<Connector>(
        thread_.loop(), std::move(call),
        [self = shared_from_this()](Outcome outcome, std::shared_ptr<Channel> channel, const std::string& text) {
          return self->connected(outcome, std::move(channel), text);
        });
  }
  std::future<Result> result() { return result_.get_future(); }

 private:
  bool connected(Outcome outcome, std::shared_ptr<Channel> channel, const std::string& text) {
    if (outcome == Outcome::connected) {
      channel_ = std::move(channel);
      channel_->handle({[self = shared_from_this()](Plane, Frame& frame) { self->receive(frame); },
                        [self = shared_from_this()](const std::string& why) { self->closed(why); }});
      return true;
    }
    if (address_.derived && (outcome == Outcome::nobody || outcome == Outcome::unknown_key)) return false;
    if (outcome == Outcome::nobody) {
      fail(Error(Code::remote_error,
                 "nobody serves this unique id: the process that made it has ended, or cannot be reached from here (" +
                     text + ")"));
    } else if (outcome == Outcome::unknown_key) {
      fail(Error(Code::invalid_usage,
                 "the process that made this unique id does not serve it any more: an id serves "
                 "one communicator, once; make a new one with ncclGetUniqueId"));
    } else if (outcome == Outcome::wrong_secret) {
      fail(Error(Code::invalid_argument, "the root of this unique id has another secret than this rank"));
    } else {
      return false;
    }
    return true;
  }

  void receive(Frame& frame) {
    if (frame.kind == joining::failure) return fail(joining::decode_error(frame.body));
    const bool good = frame.kind == joining::members && joining::decode_members(frame.body, membership_) &&
                      membership_.members.size() <= static_cast<std::size_t>(ranks_);
    if (!good) return fail(Error(Code::internal_error, "the root sent a malformed list of members"));
    if (membership_.members.size() < static_cast<std::size_t>(ranks_)) return;
    release();
    result_.set_value({std::move(membership_), {}});
  }

  void closed(const std::string& why) {
    fail(Error(Code::remote_error,
               "the process that made the unique id ended before all ranks had joined (" + why + ")"));
  }

  void expire() {
    std::string sentence = "timed out after " + in_words(patience_) + ": ";
    if (channel_) {
      sentence += "the root of the unique id does not answer";
    } else if (address_.derived) {
      sentence += "rank 0 does not serve the rendezvous '" + address_.name + "'";
    } else {
      sentence += "the root of the unique id cannot be reached";
    }
    if (connector_ && !connector_->last_trouble().empty()) sentence += " (" + connector_->last_trouble() + ")";
    fail(Error(Code::timeout, sentence + "; see whether it runs, or set RONDO_TIMEOUT (seconds) higher"));
  }

  void fail(const Error& error) {
    release();
    result_.set_value({{}, Failure{error.code(), -1, error.what()}});
  }

  /// Ends what may call this joiner, and with it what keeps it alive.
  void release() {
    timer_.cancel();
    connector_.reset();
    if (channel_) channel_->stop();
    if (channel_) channel_->handle({});
  }

  ControlThread& thread_;
  RootAddress address_;
  int ranks_;
  Deadline deadline_;
  milliseconds patience_;
  Timer timer_;
  std::unique_ptr<Connector> connector_;
  std::shared_ptr<Channel> channel_;
  Membership membership_;
  std::promise<Result> result_;
};

}  // namespace

Membership join(const UniqueId& id, int rank, int ranks, Deadline deadline) {
  if (ranks < 1 || ranks > limits::ranks_max) {
    throw Error(Code::invalid_argument, "a communicator has 1 to " + std::to_string(limits::ranks_max) +
                                            " ranks, not " + std::to_string(ranks));
  }
  if (rank < 0 || rank >= ranks) {
    throw Error(Code::invalid_argument, "rank " + std::to_string(rank) + " is outside the world of " +
                                            std::to_string(ranks) + " ranks (0 to " + std::to_string(ranks - 1) + ")");
  }
  RootAddress address = decode(id);
  ControlThread& thread = ControlThread::get();
  std::future<Result> future;
  thread.call([&] {
    // Shared by its own handlers; its timer lives and dies on the control thread.
    const auto joiner = std::make_shared<Joiner>(thread, std::move(address), rank, ranks, bounded(deadline));
    future = joiner->result();
    joiner->start();
  });
  Result result = future.get();
  if (result.failure) throw Error(result.failure->code, result.failure->sentence);
  return std::move(result.membership);
}

}  // namespace rondo::control
