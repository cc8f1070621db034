// The cost model: an event simulation of strands, links and ports.
//
// Plans are compiled to small records and dropped one by one, so that thousands of ranks fit.  An event is "a message
// reaches its receiver's port" or "look whether this strand can run its next slice"; what arrives, a credit, or a
// release makes one of the latter for the strand at the other end.
#include "plan/cost.h"

#include <algorithm>
#include <queue>
#include <span>
#include <string>
#include <unordered_map>

#include "base/result.h"
#include "plan/symmetry.h"

namespace rondo::plan {
namespace {

/// A first-in first-out queue that is small when empty: there may be a million.
template <typename T>
class Fifo {
 public:
  bool empty() const { return at_ == items_.size(); }
  std::size_t size() const { return items_.size() - at_; }
  const T& front() const { return items_[at_]; }
  void push(const T& item) { items_.push_back(item); }
  void pop() {
    if (++at_ < items_.size()) return;
    items_.clear();
    at_ = 0;
  }

 private:
  std::vector<T> items_;
  std::size_t at_ = 0;
};

struct Message {
  std::size_t bytes = 0;
  bool lent = false;
  double available = 0;  // when the receiver can read it
};

struct Link {
  std::int32_t from = 0, to = 0;
  std::int32_t sender = -1, receiver = -1;  // actors; a link of replies may have one of them only
  Fifo<Message> flying, messages;           // on their way; arrived
  int unused_credits = 0;
  Fifo<double> returned_credits;  // when each comes back
  std::uint64_t lent = 0;         // not yet waited for
  Fifo<double> settled;           // when the lender sees each release
  std::uint64_t bytes = 0;
};

/// A step, compiled.  Its links lie in Actor::links: receipts, then sends (or, of a wait, the links lent on).
struct Record {
  Operation operation;
  bool reply, stores, offers_reply;
  std::int32_t operands;
  Range range;  // source or target; sizes the messages
  std::uint32_t links_at, receipts;
};

struct Actor {
  std::int32_t rank, strand;
  std::int32_t lane;
  std::vector<Record> records;
  std::vector<std::int32_t> links;
  std::uint64_t tile = 0;
  std::size_t step = 0;
  int slice = 0;
  double ready = 0;          // done with the slice before
  double start = 0;          // of the next slice, by those of its links
  std::size_t checked = 0;   //   that are checked already
  std::int32_t awaits = -1;  // the link that it waits for, or -1
};

class Simulation {
 public:
  Simulation(const Schedule& schedule, const Topology& topology, std::uint64_t bytes, const Parameters& parameters,
             int root);
  Cost run();

 private:
  void compile(const Plan& plan, int rank);
  std::int32_t link(int from, int to, int lane);
  std::int32_t back(const Link& l, int lane) { return link(l.to, l.from, lane); }
  bool same_host(const Link& l) const { return topology_.host_of_rank[l.from] == topology_.host_of_rank[l.to]; }
  LinkCost cost_of(const Link& l) const;
  bool lends(const Link& l) const { return parameters_.lends && same_host(l); }
  double& port(std::vector<double>& ports, const Link& l, std::int32_t rank);
  std::int32_t index_of(const Link& l) const { return static_cast<std::int32_t>(&l - links_.data()); }
  void look(std::int32_t actor, const Link& l, double time);
  void advance(std::int32_t id, double now);
  struct Ends {
    std::span<const std::int32_t> receipts, sends;
  };
  static Ends links_of(const Actor& a, const Record& record);
  bool can_start(Actor& a, const Record& record);
  bool has_credit(const Link& l, double& start) const;
  bool settle(Actor& a, const Record& record, double now);
  void execute(Actor& a, const Record& record, double now);
  double reply_and_release(Actor& a, const Record& record, double time, std::size_t bytes);
  void release(Link& l, double time, bool lent);
  void send(Link& l, const Message& message, double time);
  void arrive(Link& l, double time);
  void next(Actor& a);

  const Topology& topology_;
  const Parameters& parameters_;
  const Symmetry symmetry_;  // only its first `stride` ranks are run
  Cost result_;
  std::vector<Actor> actors_;
  std::vector<Link> links_;
  std::unordered_map<std::uint64_t, std::int32_t> link_of_;
  std::vector<Layout> layouts_;            // by rank
  std::vector<double> egress_, ingress_;   // when each port is free: ranks, then hosts
  std::vector<std::uint64_t> sent_bytes_;  // by rank
  struct Event {
    double time;
    std::int32_t what;  // an actor, or the complement of a link
    bool operator>(const Event& other) const { return time != other.time ? time > other.time : what > other.what; }
  };
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

// ---- setting up

Simulation::Simulation(const Schedule& schedule, const Topology& topology, std::uint64_t bytes,
                       const Parameters& parameters, int root)
    : topology_(topology),
      parameters_(parameters),
      symmetry_(parameters.whole ? Symmetry{topology.ranks(), topology.ranks()}
                                 : symmetry_of(schedule, topology, root)) {
  const int ranks = topology.ranks();
  const Collective collective{schedule.kind, ranks, schedule.blocks(topology), root, 0};
  const int hosts = *std::max_element(topology.host_of_rank.begin(), topology.host_of_rank.end()) + 1;
  egress_.assign(ranks + hosts, 0);
  ingress_.assign(ranks + hosts, 0);
  sent_bytes_.assign(ranks, 0);
  std::vector<Shape> shapes;
  for (int rank = 0; rank < symmetry_.stride; ++rank) {
    const Plan plan = schedule.build(topology, rank, root);
    compile(plan, rank);
    shapes.push_back(shape_of(collective, plan, 1));
  }
  for (Shape& shape : shapes) {
    shape.widest = schedule.widest(topology);
    const bool shared_out = shape.segmented && schedule.kind != CollectiveKind::send_recv;
    layouts_.emplace_back(shape, shared_out ? (bytes + ranks - 1) / ranks : bytes, DataType::uint8, parameters.cut);
  }
  result_.tiles = layouts_.front().tiles();
  result_.slices = layouts_.front().slices();
}

void Simulation::compile(const Plan& plan, int rank) {
  for (std::size_t index = 0; index < plan.strands.size(); ++index) {
    const Strand& strand = plan.strands[index];
    const auto id = static_cast<std::int32_t>(actors_.size());
    Actor& a = actors_.emplace_back();
    a.rank = rank;
    a.strand = static_cast<std::int32_t>(index);
    a.lane = strand.lane;
    a.records.reserve(strand.steps.size());
    for (const Step& s : strand.steps) {
      const Range range = s.source ? s.source : s.target;
      const auto links_at = static_cast<std::uint32_t>(a.links.size());
      for (const std::int32_t peer : s.from)
        if (peer != here) {
          a.links.push_back(link(peer, rank, strand.lane));
          links_[a.links.back()].receiver = id;
        }
      const auto receipts = static_cast<std::uint32_t>(a.links.size()) - links_at;
      for (const std::int32_t peer : s.to) {
        a.links.push_back(link(rank, peer, strand.lane));
        links_[a.links.back()].sender = id;
        if (s.operation == Operation::lend && s.target) links_[link(peer, rank, strand.lane)].receiver = id;
      }
      if (s.reply)
        for (std::uint32_t i = 0; i < receipts; ++i)
          links_[back(links_[a.links[links_at + i]], strand.lane)].sender = id;
      a.records.push_back({s.operation, s.reply, static_cast<bool>(s.target),
                           s.operation == Operation::lend && s.target, static_cast<std::int32_t>(s.from.size()), range,
                           links_at, receipts});
    }
  }
}

std::int32_t Simulation::link(int from, int to, int lane) {
  const auto ranks = static_cast<std::uint64_t>(topology_.ranks());
  const Symmetry::Ends ends = symmetry_.representative(from, to);
  from = ends.from;
  to = ends.to;
  const auto [at, added] =
      link_of_.try_emplace((lane * ranks + from) * ranks + to, static_cast<std::int32_t>(links_.size()));
  if (added) {
    Link& l = links_.emplace_back();
    l.from = from;
    l.to = to;
    l.unused_credits = parameters_.credits;
  }
  return at->second;
}

LinkCost Simulation::cost_of(const Link& l) const {
  if (l.from == l.to) return {0, 0};
  return same_host(l) ? parameters_.same_host : parameters_.other_host;
}

double& Simulation::port(std::vector<double>& ports, const Link& l, std::int32_t rank) {
  const std::int32_t run = rank % symmetry_.stride;
  return ports[same_host(l) ? run : topology_.ranks() + topology_.host_of_rank[run]];
}

// ---- events

/// Something came on a link: queues an event for the actor at that end, if it waits for this link.
void Simulation::look(std::int32_t actor, const Link& l, double time) {
  if (actor < 0 || actors_[actor].awaits != index_of(l)) return;
  actors_[actor].awaits = -1;
  events_.push({time, actor});
}

bool Simulation::has_credit(const Link& l, double& start) const {
  if (l.unused_credits > 0) return true;
  if (l.returned_credits.empty()) return false;
  start = std::max(start, l.returned_credits.front());
  return true;
}

Simulation::Ends Simulation::links_of(const Actor& a, const Record& record) {
  const std::size_t end = &record == &a.records.back() ? a.links.size() : (&record + 1)->links_at;
  const std::span<const std::int32_t> all(a.links.data() + record.links_at, end - record.links_at);
  return {all.first(record.receipts), all.subspan(record.receipts)};
}

/// Whether all that the next slice waits for is known to come; a.start is then when it can start.  Goes on where it
/// last stopped: what has come does not go away.
bool Simulation::can_start(Actor& a, const Record& record) {
  const Ends ends = links_of(a, record);
  const std::size_t receipts = ends.receipts.size();
  for (; a.checked < receipts + ends.sends.size(); ++a.checked) {
    const bool receives = a.checked < receipts;
    a.awaits = receives ? ends.receipts[a.checked] : ends.sends[a.checked - receipts];
    const Link& l = links_[a.awaits];
    if (!receives) {
      if (!has_credit(l, a.start)) return false;
      continue;
    }
    if (l.messages.empty()) return false;
    a.start = std::max(a.start, l.messages.front().available);
    if (!record.reply || l.messages.front().lent) continue;
    a.awaits = back(l, a.lane);  // a declined lend is answered by a message
    if (!has_credit(links_[a.awaits], a.start)) return false;
  }
  a.awaits = -1;
  return true;
}

/// Runs an actor as far as it comes at `now`.
void Simulation::advance(std::int32_t id, double now) {
  Actor& a = actors_[id];
  while (a.tile < result_.tiles && !a.records.empty()) {
    const Record& record = a.records[a.step];
    const bool waits = record.operation == Operation::wait;
    a.start = std::max(a.start, a.ready);
    if (!(waits ? settle(a, record, now) : can_start(a, record))) return;
    if (a.start > now) {
      events_.push({a.start, id});
      return;
    }
    if (waits) {
      result_.seconds = std::max(result_.seconds, now);
      a.slice = result_.slices - 1;
    } else {
      execute(a, record, now);
    }
    a.checked = 0;
    next(a);
  }
}

/// Takes what has answered this strand's lends, peer by peer.  False: the next answer is not known yet.  Otherwise
/// a.start is when it is seen, or not after `now`: all are taken.
bool Simulation::settle(Actor& a, const Record& record, double now) {
  const Ends ends = links_of(a, record);
  for (; a.checked < ends.sends.size(); ++a.checked) {
    Link& l = links_[ends.sends[a.checked]];
    const bool declined = !lends(l);
    for (; l.lent > 0; --l.lent) {
      a.awaits = declined ? back(l, a.lane) : ends.sends[a.checked];
      Link& answers = links_[a.awaits];
      if (declined ? answers.messages.empty() : answers.settled.empty()) return false;
      a.start = std::max(a.start, declined ? answers.messages.front().available : answers.settled.front());
      if (a.start > now) return true;
      if (declined) {
        answers.messages.pop();
        release(answers, now, false);
      } else {
        answers.settled.pop();
      }
    }
  }
  a.awaits = -1;
  return true;
}

void Simulation::next(Actor& a) {
  if (++a.slice < result_.slices) return;
  a.slice = 0;
  if (++a.step < a.records.size()) return;
  a.step = 0;
  ++a.tile;
}

// ---- one slice

void Simulation::execute(Actor& a, const Record& record, double now) {
  const Piece piece = layouts_[a.rank].piece(record.range, a.tile, a.slice);
  const std::size_t bytes = piece.bytes * piece.segments;
  const double reduce = parameters_.reduce_seconds_per_byte * static_cast<double>(bytes);
  const Ends ends = links_of(a, record);
  double time = now;
  for (const std::int32_t i : ends.receipts) {
    if (!links_[i].messages.front().lent) continue;
    double& free = port(ingress_, links_[i], a.rank);
    time = free = std::max(time, free) + cost_of(links_[i]).seconds_per_byte * static_cast<double>(bytes);
  }
  if (!ends.receipts.empty()) {
    time += reduce * (record.operands - 1);
  } else if (record.stores && record.operation != Operation::lend) {
    time += reduce;
  }
  time = reply_and_release(a, record, time, bytes);
  for (const std::int32_t i : ends.sends) {
    Link& l = links_[i];
    const bool lent = record.operation == Operation::lend && lends(l);
    if (lent || record.offers_reply) ++l.lent;
    send(l, {bytes, lent}, time);
  }
  a.ready = time;
  result_.seconds = std::max(result_.seconds, time);
}

/// Replies to and releases the messages of a slice that is computed at `time`; returns when that is done.
double Simulation::reply_and_release(Actor& a, const Record& record, double time, std::size_t bytes) {
  for (const std::int32_t i : links_of(a, record).receipts) {
    const Message m = links_[i].messages.front();
    links_[i].messages.pop();
    if (record.reply) {
      Link& answers = links_[back(links_[i], a.lane)];
      if (m.lent) {
        double& free = port(egress_, answers, a.rank);
        time = free = std::max(time, free) + cost_of(answers).seconds_per_byte * static_cast<double>(bytes);
        answers.bytes += bytes;
        sent_bytes_[a.rank] += bytes;
      } else {
        send(answers, {bytes, false}, time);
      }
    }
    release(links_[i], time, m.lent);
  }
  return time;
}

void Simulation::release(Link& l, double time, bool lent) {
  const double seen = time + cost_of(l).latency_s;
  l.returned_credits.push(seen);
  if (lent) l.settled.push(seen);
  look(l.sender, l, seen);
}

void Simulation::send(Link& l, const Message& message, double time) {
  if (l.unused_credits > 0) {
    --l.unused_credits;
  } else {
    l.returned_credits.pop();
  }
  const LinkCost link = cost_of(l);
  const double duration =
      link.seconds_per_message + (message.lent ? 0 : link.seconds_per_byte * static_cast<double>(message.bytes));
  double& free = port(egress_, l, l.from);
  const double begin = l.from == l.to ? time : std::max(time, free);
  if (l.from != l.to) free = begin + duration;
  l.bytes += message.bytes;
  sent_bytes_[l.from] += message.bytes;
  ++result_.messages;
  l.flying.push(message);
  events_.push({begin + cost_of(l).latency_s, ~index_of(l)});
}

/// The oldest flying message reaches the receiver's port: ports serve in order of arrival.
void Simulation::arrive(Link& l, double time) {
  Message m = l.flying.front();
  l.flying.pop();
  m.available = time;
  if (l.from != l.to) {
    double& free = port(ingress_, l, l.to);
    const LinkCost link = cost_of(l);
    m.available = std::max(time, free) + link.seconds_per_message +
                  (m.lent ? 0 : link.seconds_per_byte * static_cast<double>(m.bytes));
    free = m.available;
  }
  l.messages.push(m);
  look(l.receiver, l, m.available);
}

Cost Simulation::run() {
  for (std::size_t id = 0; id < actors_.size(); ++id) events_.push({0, static_cast<std::int32_t>(id)});
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    if (event.what < 0) {
      arrive(links_[~event.what], event.time);
    } else {
      advance(event.what, event.time);
    }
  }
  for (const Actor& a : actors_)
    if (a.tile < result_.tiles && !a.records.empty())
      throw Error(Code::invalid_argument, "the plan deadlocks with " + std::to_string(parameters_.credits) +
                                              " credits: rank " + std::to_string(a.rank) + " waits at step " +
                                              std::to_string(a.step));
  for (const Link& l : links_) result_.link_bytes_max = std::max(result_.link_bytes_max, l.bytes);
  result_.messages *= static_cast<std::uint64_t>(symmetry_.ranks / symmetry_.stride);
  result_.rank_bytes_max = *std::max_element(sent_bytes_.begin(), sent_bytes_.end());
  return result_;
}

}  // namespace

int ranks_run(const Schedule& schedule, const Topology& topology) { return symmetry_of(schedule, topology, 0).stride; }

Cost cost(const Schedule& schedule, const Topology& topology, std::uint64_t bytes, const Parameters& parameters,
          int root) {
  return Simulation(schedule, topology, bytes, parameters, root).run();
}

Cost cost(CollectiveKind kind, Algorithm algorithm, const Topology& topology, std::uint64_t bytes,
          const Parameters& parameters, int root) {
  const Schedule* schedule = find(kind, algorithm);
  if (!schedule)
    throw Error(Code::invalid_argument, std::string(name(algorithm)).append(" does not serve ").append(name(kind)));
  return cost(*schedule, topology, bytes, parameters, root);
}

}  // namespace rondo::plan
