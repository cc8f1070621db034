// Joining: a rank's side of the bootstrap.  The caller waits; the control thread does the rest.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "base/result.h"
#include "control.h"
#include "control/connector.h"
#include "control/crypto.h"
#include "control/host.h"
#include "control/root.h"
#include "control/table.h"
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
class Joiner : public std::enable_shared_from_this<Joiner>, private Table::Owner {
 public:
  Joiner(ControlThread& thread, RootAddress address, int rank, int ranks, Deadline deadline, std::string settings,
         Cpus cpus)
      : thread_(thread),
        address_(std::move(address)),
        cpus_(cpus),
        settings_(std::move(settings)),
        ranks_(ranks),
        deadline_(deadline),
        patience_(time_left(deadline)),
        timer_(thread.loop()),
        rank_(rank),
        table_(rank, ranks, *this) {}

  void start() {
    timer_.start(deadline_ + grace, [self = shared_from_this()] { self->expire(); });
    Call call;
    call.name = address_.name;
    call.addresses = in_order_of_promise(address_.addresses);
    call.key = address_.key();
    call.secret = address_.secret;
    joining::Greeting greeting;
    greeting.member = {rank_, ::getpid(), host_name(), host_key(), thread_.listener_name(), {}, cpus_.key, cpus_.count};
    if (address_.networked()) greeting.member.addresses = thread_.addresses();
    greeting.ranks = static_cast<std::uint32_t>(ranks_);
    greeting.settings = settings_;
    greeting.settings_digest = ByteReader(sha256(view(settings_))).number<std::uint64_t>();
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
    const auto place = frame.kind == joining::placed ? joining::decode_place(frame.body) : std::nullopt;
    if (place && !parent_ && rank_ != 0) return take_place(*place);
    if (rank_ != 0 || frame.kind != joining::members) {
      return fail(Error(Code::internal_error, "the root of the unique id sent a malformed frame"));
    }
    take(frame);
  }

  /// The parent has the table, and this rank's children come to it.
  void take_place(const joining::Place& place) {
    parent_ = place.parent;
    offer(place.communicator, place.secret);
    Call call;
    call.name = place.parent.listener;
    call.addresses = in_order_of_promise(place.parent.addresses);
    call.key = {Purpose::table, place.communicator, static_cast<std::uint32_t>(place.parent.rank)};
    call.secret = place.secret;
    call.greeting = ByteWriter().number(static_cast<std::uint32_t>(rank_)).bytes();
    connector_ = std::make_unique<Connector>(
        thread_.loop(), std::move(call),
        [self = shared_from_this()](Outcome outcome, std::shared_ptr<Channel> channel, const std::string&) {
          if (outcome != Outcome::connected) return false;  // if the parent died, the root says so
          self->parent_channel_ = std::move(channel);
          self->parent_channel_->handle({[self](Plane, Frame& frame) { self->take(frame); }, {}});
          return true;
        });
  }

  void offer(std::uint64_t communicator, const Secret& secret) {
    key_ = Key{Purpose::table, communicator, static_cast<std::uint32_t>(rank_)};
    Service service;
    service.secret = secret;
    service.accept = [self = shared_from_this()](std::shared_ptr<Channel> channel, View greeting) {
      self->accept(channel, greeting);
    };
    thread_.reception().offer(*key_, std::move(service));
  }

  void accept(const std::shared_ptr<Channel>& channel, View greeting) {
    ByteReader reader(greeting);
    const int child = static_cast<int>(reader.number<std::uint32_t>());
    const auto old = reader.complete() ? children_.find(child) : children_.end();
    if (old != children_.end()) old->second->stop();
    if (!reader.complete()) return channel->stop();
    children_[child] = channel;
    channel->handle({[self = shared_from_this(), child](Plane, Frame& frame) {
                       if (frame.kind == joining::received) self->table_.received(child);
                       self->check_served();
                     },
                     [self = shared_from_this(), child](const std::string&) {
                       self->table_.lost(child);
                       self->children_.erase(child);
                     }});
    if (!table_.attached(child)) {
      channel->stop();
      children_.erase(child);
    }
  }

  void hand_on(int child, View frame) override { children_.at(child)->send(Plane::control, joining::members, frame); }

  void take(const Frame& frame) {
    if (frame.kind != joining::members || !table_.take(frame.body)) {
      return fail(Error(Code::internal_error, "the list of members that came is malformed"));
    }
    const Membership& got = table_.membership();
    if (rank_ == 0 && !key_) {
      Secret secret;
      std::copy(std::begin(got.secret), std::end(got.secret), secret.begin());
      offer(got.communicator, secret);
    }
    if (table_.complete() && parent_channel_) parent_channel_->send(Plane::control, joining::received, {});
    check_served();
  }

  void check_served() {
    if (!table_.served() || !channel_) return;
    channel_->send(Plane::control, joining::served, {});
    const auto self = shared_from_this();  // the handlers held the others
    release();
    result_.set_value({std::move(table_.membership()), {}});
  }

  void closed(const std::string& why) {
    if (parent_) return;  // the parent will do: the root may have been a process that was quick to end
    fail(Error(Code::remote_error,
               "the process that made the unique id ended before all ranks had joined (" + why + ")"));
  }

  void expire() {
    std::string sentence = "timed out after " + in_words(patience_) + ": ";
    if (parent_) {
      sentence += "the list of members did not come from " + in_words(*parent_);
    } else if (channel_) {
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
    if (key_) thread_.reception().withdraw(*std::exchange(key_, std::nullopt));
    for (auto& [child, channel] : std::exchange(children_, {})) drop(channel);
    drop(std::exchange(parent_channel_, nullptr));
    drop(std::exchange(channel_, nullptr));
  }

  static void drop(const std::shared_ptr<Channel>& channel) {
    if (!channel) return;
    channel->stop();
    channel->handle({});
  }

  ControlThread& thread_;
  RootAddress address_;
  Cpus cpus_;
  const std::string settings_;
  const int ranks_;
  Deadline deadline_;
  milliseconds patience_;
  Timer timer_;
  std::unique_ptr<Connector> connector_;
  std::shared_ptr<Channel> channel_;
  const int rank_;
  Table table_;
  std::optional<Member> parent_;  // once placed
  std::optional<Key> key_;        // offered
  std::shared_ptr<Channel> parent_channel_;
  std::map<int, std::shared_ptr<Channel>> children_;
  std::promise<Result> result_;
};

/// Without that many descriptors the last ranks would be turned away until the time is up.
void check_open_files(int ranks) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return;
  if (files.rlim_cur >= static_cast<rlim_t>(ranks) + limits::descriptors_of_process) return;
  throw Error(Code::system_error, "rank 0 needs a socket for each of the " + std::to_string(ranks) +
                                      " ranks that join, and this process may have no more than " +
                                      std::to_string(files.rlim_cur) + " open files: raise the limit (ulimit -n)");
}

}  // namespace

Membership join(const UniqueId& id, int rank, int ranks, Deadline deadline, const std::string& settings) {
  if (ranks < 1 || ranks > limits::ranks_max) {
    throw Error(Code::invalid_argument, "a communicator has 1 to " + std::to_string(limits::ranks_max) +
                                            " ranks, not " + std::to_string(ranks));
  }
  if (rank < 0 || rank >= ranks) {
    throw Error(Code::invalid_argument, "rank " + std::to_string(rank) + " is outside the world of " +
                                            std::to_string(ranks) + " ranks (0 to " + std::to_string(ranks - 1) + ")");
  }
  if (rank == 0) check_open_files(ranks);
  RootAddress address = decode(id);
  ControlThread& thread = ControlThread::get();
  const Cpus cpus = cpus_of_this_thread();
  std::future<Result> future;
  thread.call([&] {
    // Shared by its own handlers; its timer lives and dies on the control thread.
    const auto joiner =
        std::make_shared<Joiner>(thread, std::move(address), rank, ranks, bounded(deadline), settings, cpus);
    future = joiner->result();
    joiner->start();
  });
  Result result = future.get();
  if (result.failure) throw Error(result.failure->code, result.failure->sentence);
  return std::move(result.membership);
}

}  // namespace rondo::control
