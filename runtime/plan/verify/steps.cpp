// The world of the verifier: cells and their order, and one slice of one step.
#include <algorithm>
#include <utility>

#include "plan/text.h"
#include "plan/verify/world.h"

namespace rondo::plan {

// ---- memory

/// The cells of the current slice: a range of L blocks is cut into equal slices, each of L cells.
Cells World::cut(const Actor& a, const Range& range) const {
  const Memory& m = memories_[a.memory];
  const std::int32_t first = range.first * options_.slices + a.slice * range.count;
  if (range.space == Space::scratch) {
    const std::int32_t stripe_begin = a.strand->stripe * m.at.scratch_blocks * options_.slices;
    return {a.memory, m.scratch_begin + stripe_begin + first, range.count};
  }
  const std::int32_t base = range.space == Space::in ? m.at.in_base : m.at.out_base;
  return {a.memory, a.tile * m.tile_cells + base * options_.slices + first, range.count};
}

std::string World::place(const Cells& cells, std::int32_t k) const {
  const Memory& m = memories_[cells.memory];
  const std::int32_t at = cells.first + k;
  const bool scratch = at >= m.scratch_begin;
  const std::int32_t cell = scratch ? at - m.scratch_begin : at % m.tile_cells;
  const std::int32_t block = scratch ? cell / options_.slices % m.at.scratch_blocks : cell / options_.slices;
  const bool in = !scratch && block >= m.at.in_base && block < m.at.in_base + m.at.in_blocks;
  return "rank " + std::to_string(m.rank) + "'s " +
         (scratch ? "scratch"
          : in    ? "in"
                  : "out") +
         " block " +
         std::to_string(block - (scratch ? 0
                                 : in    ? m.at.in_base
                                         : m.at.out_base)) +
         (scratch ? "" : " of tile " + std::to_string(at / m.tile_cells));
}

void World::require_order(const Actor& a, std::int32_t other, std::int32_t time, const char* what, const Cells& cells,
                          int k) {
  if (other < 0 || other == a.id || (*a.base)[other] >= time) return;
  throw Broken{Fault::race, who(a) + what + place(cells, k) + ", unordered with " + who(actors_[other])};
}

std::int32_t World::read(Actor& a, const Cells& cells, std::int32_t k) {
  Cell& c = memories_[cells.memory].cells[cells.first + k];
  require_order(a, c.writer, c.written, " reads ", cells, k);
  if (c.value < 0) throw Broken{Fault::stale, who(a) + " reads " + place(cells, k) + ", never written"};
  std::int32_t at = c.reads;
  while (at >= 0 && reads_[at].actor != a.id) at = reads_[at].next;
  if (at < 0) {
    if (free_reads_ >= 0) {
      at = std::exchange(free_reads_, reads_[free_reads_].next);
    } else {
      at = static_cast<std::int32_t>(reads_.size());
      reads_.emplace_back();
    }
    reads_[at].actor = a.id;
    reads_[at].next = std::exchange(c.reads, at);
  }
  reads_[at].time = a.time;
  return c.value;
}

void World::store(Actor& a, const Cells& cells, std::span<const std::int32_t> values) {
  for (std::int32_t k = 0; k < cells.count; ++k) {
    Cell& c = memories_[cells.memory].cells[cells.first + k];
    while (c.reads >= 0) {
      const std::int32_t at = c.reads;
      require_order(a, reads_[at].actor, reads_[at].time, " stores to ", cells, k);
      c.reads = reads_[at].next;
      reads_[at].next = std::exchange(free_reads_, at);
    }
    require_order(a, c.writer, c.written, " stores to ", cells, k);
    c.value = values[k];
    c.writer = a.id;
    c.written = a.time;
  }
}

// ---- one slice of one step

World::Links World::links_of(const Actor& a) const {
  const std::size_t begin = a.links_at[a.step];
  const std::size_t end = a.step + 1u < a.links_at.size() ? a.links_at[a.step + 1] : a.links.size();
  const Step& s = a.strand->steps[a.step];
  const std::size_t sends = s.operation == Operation::wait ? 0 : s.to.size();
  const std::size_t receipts = (end - begin - sends) / 2;
  const std::span<const std::int32_t> all(a.links.data() + begin, end - begin);
  return {all.first(receipts), all.subspan(receipts, receipts), all.last(sends)};
}

bool World::ready(const Actor& a, const Step& s, const Links& links) const {
  for (const std::int32_t link : links.incoming)
    if (!links_[link].receive.belongs_to(a.id) || !links_[link].head) return false;
  if (s.reply)
    for (const std::int32_t link : links.incoming)
      if (!links_[link].head->reply)
        throw Broken{Fault::lending, who(a) + " replies to a message that offered no range: " + text(s)};
  const auto can_send = [&](std::int32_t link) {
    return link < 0 || (links_[link].send.belongs_to(a.id) && links_[link].size < options_.credits);
  };
  return std::all_of(links.outgoing.begin(), links.outgoing.end(), can_send) &&
         std::all_of(links.answers.begin(), links.answers.end(), can_send);
}

/// Executes the next slice if it can; says whether it did.
bool World::advance(Actor& a) {
  if (a.tile >= options_.tiles || a.strand->steps.empty()) return false;
  const Step& s = a.strand->steps[a.step];
  if (s.operation == Operation::wait) return settle(a, s);
  const Links links = links_of(a);
  if (!ready(a, s, links)) return false;
  receive_clocks(a, links);
  ++a.time;
  const bool lends = s.operation == Operation::lend;
  const auto link_lends = [&](std::int32_t link) { return links_[link].lends; };
  if (!lends || !std::all_of(links.outgoing.begin(), links.outgoing.end(), link_lends)) compute(a, s, links);
  if (s.target && !lends) {
    if (s.target.space == Space::out) check_final(a, s);
    if (!is_there(a, s)) store(a, cut(a, s.target), result_);
  }
  const std::int32_t blocks = count(s, links);
  reply_and_release(a, s, links);
  for (const std::int32_t link : links.outgoing) send(a, s, link, blocks, false);
  for (const std::int32_t link : links.answers)
    if (link >= 0) send(a, s, link, blocks, true);
  ++verdict_.slices;
  next(a);
  return true;
}

/// Messages order; waiting for credits does not.  Knowing a strand's time implies knowing all it knew then.
void World::receive_clocks(Actor& a, const Links& links) {
  for (const std::int32_t link : links.incoming) {
    const Message& m = *links_[link].head;
    if (m.sender == a.id || (*a.base)[m.sender] >= m.sent) continue;
    if (a.base.use_count() > 1) a.base = std::make_shared<Clock>(*a.base);
    std::int32_t* mine = a.base->data();
    const std::int32_t* theirs = m.base->data();
    for (std::size_t i = 0; i < actors_.size(); ++i) mine[i] = std::max(mine[i], theirs[i]);
    mine[m.sender] = std::max(mine[m.sender], m.sent);
  }
}

/// In place, what a step copies as it is may be where it belongs: then nothing is stored, and readers need not wait.
bool World::is_there(const Actor& a, const Step& s) const {
  if (!s.from.empty() || !s.source || s.finish || (reduces(a) && s.source.space == Space::in)) return false;
  const Cells source = cut(a, s.source), target = cut(a, s.target);
  return source.memory == target.memory && source.first == target.first;
}

int World::count(const Step& s, const Links& links) const {
  return s.source ? s.source.count : s.target ? s.target.count : links_[links.incoming.front()].head->count;
}

/// Leaves the values of this slice in `result_`.
void World::compute(Actor& a, const Step& s, const Links& links) {
  result_.clear();
  std::size_t receipt = 0;
  const std::int32_t blocks = count(s, links);
  const bool raw = reduces(a) && s.source.space == Space::in;
  if (s.from.empty()) read_operand(a, cut(a, s.source), raw);
  for (const std::int32_t peer : s.from) {
    if (peer == here) {
      read_operand(a, cut(a, s.source), raw);
      continue;
    }
    const Message& m = *links_[links.incoming[receipt++]].head;
    if (m.slice != a.slice || m.count != blocks || m.answer)
      throw Broken{Fault::unmatched, who(a) + ": " + text(s) + " got slice " + std::to_string(m.slice) + " of " +
                                         std::to_string(m.count) + (m.answer ? " blocks, a reply," : " blocks") +
                                         " from " + std::to_string(peer)};
    if (m.lent) {
      read_operand(a, m.lent, m.raw);
    } else {
      add_operand(m.values, false);
    }
  }
  if (s.finish)
    for (std::int32_t& value : result_) value = trees_.post(value);
}

void World::add_operand(std::span<const std::int32_t> operand, bool raw) {
  const bool first = result_.empty();
  if (first) result_.assign(operand.begin(), operand.end());
  for (std::size_t k = 0; k < operand.size(); ++k) {
    const std::int32_t value = raw ? trees_.pre(operand[k]) : operand[k];
    result_[k] = first ? value : trees_.sum(result_[k], value);
  }
}

void World::read_operand(Actor& a, const Cells& cells, bool raw) {
  operand_.resize(cells.count);
  for (std::int32_t k = 0; k < cells.count; ++k) operand_[k] = read(a, cells, k);
  add_operand(operand_, raw);
}

void World::check_final(const Actor& a, const Step& s) const {
  if (!reduces(a)) return;
  for (const std::int32_t value : result_)
    if (trees_[value].kind != Trees::Kind::post)
      throw Broken{Fault::partial_in_out, who(a) + " stores an unfinished value: " + text(s)};
}

void World::reply_and_release(Actor& a, const Step& s, const Links& links) {
  for (const std::int32_t link : links.incoming) {
    Message& m = *links_[link].head;
    if (s.reply && m.reply_in_out) check_final(a, s);
    if (s.reply && m.lent) store(a, m.reply, result_);
    m.borrower = a.id;
    m.released = a.time;
    pop(links_[link]);
    links_[link].receive.used();
  }
}

void World::send(Actor& a, const Step& s, int index, std::int32_t blocks, bool answer) {
  Link& link = links_[index];
  Message* m = new_message();
  m->sender = a.id;
  m->sent = a.time;
  m->base = a.base;
  m->slice = a.slice;
  m->count = blocks;
  m->answer = answer;
  const bool lends = s.operation == Operation::lend;
  if (lends && link.lends) {
    m->lent = cut(a, s.source);
    m->raw = reduces(a) && s.source.space == Space::in;
  } else {
    m->values = result_;
  }
  if (lends && s.target) {
    m->reply = cut(a, s.target);
    m->reply_in_out = s.target.space == Space::out;
  }
  if (m->lent || m->reply) {
    ++m->holders;
    a.lent[link.name.to].messages.push_back(m);
  }
  ++m->holders;
  (link.tail ? link.tail->next : link.head) = m;
  link.tail = m;
  ++link.size;
  link.send.used();
  ++verdict_.messages;
}

/// `wait` orders the lent cells and nothing else, so that a lend that was declined changes no proof.
bool World::settle(Actor& a, const Step& s) {
  bool done = false;
  for (const std::int32_t peer : s.to) {
    const auto found = a.lent.find(peer);
    if (found == a.lent.end()) continue;
    Lent& lent = found->second;
    while (lent.settled < lent.messages.size()) {
      Message* m = lent.messages[lent.settled];
      if (!settle_one(a, *m, links_[link_index({peer, a.rank, a.strand->lane})])) return done;
      ++lent.settled;
      let_go(m);
      done = true;
    }
    lent.messages.clear();
    lent.settled = 0;
  }
  a.slice = options_.slices - 1;  // once a step, not once a slice
  ++verdict_.slices;
  next(a);
  return true;
}

bool World::settle_one(Actor& a, Message& m, Link& back) {
  if (!m.lent) {  // declined: the reply is a message
    if (!back.receive.belongs_to(a.id) || !back.head) return false;
    const Message& reply = *back.head;
    if (!reply.answer || reply.slice != m.slice || reply.count != m.reply.count)
      throw Broken{Fault::unmatched, who(a) + " waits for a reply and got another message on " + text(back.name)};
    ++a.time;
    store(a, m.reply, reply.values);
    pop(back);
    back.receive.used();
    return true;
  }
  if (m.borrower < 0) return false;
  ++a.time;
  for (std::int32_t k = 0; k < m.lent.count; ++k) {
    std::int32_t* at = &memories_[m.lent.memory].cells[m.lent.first + k].reads;
    while (*at >= 0 && reads_[*at].actor != m.borrower) at = &reads_[*at].next;
    if (*at < 0 || reads_[*at].time > m.released) continue;
    const std::int32_t gone = *at;
    *at = reads_[gone].next;
    reads_[gone].next = std::exchange(free_reads_, gone);
  }
  for (std::int32_t k = 0; k < m.reply.count; ++k) {
    Cell& c = memories_[m.reply.memory].cells[m.reply.first + k];
    if (c.writer != m.borrower || c.written != m.released) continue;
    c.writer = a.id;
    c.written = a.time;
  }
  return true;
}

void World::next(Actor& a) {
  if (++a.slice < options_.slices) return;
  a.slice = 0;
  if (++a.step < static_cast<int>(a.strand->steps.size())) return;
  a.step = 0;
  a.tile += a.tiles_apart;
}

// ---- links

Message* World::new_message() {
  if (free_.empty()) return &messages_.emplace_back();
  Message* m = free_.back();
  free_.pop_back();
  std::vector<std::int32_t> values = std::move(m->values);  // keeps its memory
  *m = Message{};
  m->values = std::move(values);
  return m;
}

void World::pop(Link& link) {
  Message* m = link.head;
  link.head = m->next;
  if (!link.head) link.tail = nullptr;
  m->next = nullptr;
  m->base.reset();
  --link.size;
  let_go(m);
}

}  // namespace rondo::plan
