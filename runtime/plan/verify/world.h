// The running world of the verifier: strands as actors, links as bounded queues, cells with values and vector clocks.
//
// A strand's clock is its own time and a base of what it knows of all others.  The base changes only when the strand
// receives, so the messages it sends in between share it: that keeps clocks exact and cheap at a thousand ranks.
// world.cpp sets the world up and judges its end; steps.cpp runs it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "plan/verify.h"
#include "plan/verify/form.h"
#include "plan/verify/trees.h"

namespace rondo::plan {

using Clock = std::vector<std::int32_t>;  // by actor

struct Cell {
  std::int32_t value = -1;                // a tree, or -1: never written
  std::int32_t writer = -1, written = 0;  // actor and its time at the last store
  std::int32_t reads = -1;                // list of reads since that store
};
struct Read {
  std::int32_t actor, time, next;
};

/// One rank's buffers in one run: tiles of user cells (`in` and `out`), then scratch.
struct Memory {
  int run = 0, rank = 0;
  Spaces at;
  std::int32_t tile_cells = 0, scratch_begin = 0;
  std::vector<Cell> cells;
};
struct Cells {
  std::int32_t memory = -1, first = 0, count = 0;
  explicit operator bool() const noexcept { return memory >= 0; }
};

struct Message {
  std::int32_t sender = 0, sent = 0;  // actor, its time, and
  std::shared_ptr<const Clock> base;  //   what it knew: shared with the actor and its neighbouring messages
  std::int32_t slice = 0, count = 0;
  std::vector<std::int32_t> values;  // copied, or
  Cells lent;                        // cells to read in place,
  bool raw = false;                  //   which hold the lender's `in`: the borrower applies the pre-operator
  Cells reply;                       // cells for the reply: stored by the borrower if lent, else by `wait`
  bool reply_in_out = false;
  bool answer = false;  // the reply to a lend that was declined
  std::int32_t borrower = -1, released = 0;
  int holders = 0;  // the link, and the lender until it has waited
  Message* next = nullptr;
};

/// One end of a link: the strands that use it, in call order, each with the messages it has left.
struct End {
  struct Use {
    std::int32_t actor;
    std::int64_t left;
  };
  std::vector<Use> uses;
  std::size_t at = 0;
  bool belongs_to(std::int32_t actor) const { return at < uses.size() && uses[at].actor == actor; }
  void used() {
    if (--uses[at].left == 0) ++at;
  }
};
struct Link {
  LinkName name{};
  bool lends = false;
  Message *head = nullptr, *tail = nullptr;
  int size = 0;
  End send, receive;
};

/// What a strand has lent to one peer and not yet waited for, oldest first.
struct Lent {
  std::vector<Message*> messages;
  std::size_t settled = 0;
};

/// One strand of one rank in one run.
struct Actor {
  std::int32_t id, rank, run, index, memory;
  const Strand* strand;
  int tiles_apart;  // one stripe's
  int tile = 0, step = 0, slice = 0;
  std::int32_t time = 0;
  std::shared_ptr<Clock> base;
  std::map<std::int32_t, Lent> lent;
  std::vector<std::int32_t> links;      // of all steps: those of its receipts, of their answers (or -1), of its sends
  std::vector<std::uint32_t> links_at;  // by step
};

std::string who(const Actor& a);
std::string text(const LinkName& link);

class World {
 public:
  World(std::span<const Run> runs, const Options& options, Verdict& verdict);
  void go();

 private:
  // Setting up
  void admit(const Run& run, int run_index, int rank);
  void admit_step(Actor& a, std::size_t index);
  int link_index(const LinkName& name);
  void use(int link, bool sending, const Actor& a, const Step& s);
  // Memory
  Cells cut(const Actor& a, const Range& range) const;
  std::string place(const Cells& cells, std::int32_t k) const;
  void require_order(const Actor& a, std::int32_t other, std::int32_t time, const char* what, const Cells&, int k);
  std::int32_t read(Actor& a, const Cells& cells, std::int32_t k);
  void store(Actor& a, const Cells& cells, std::span<const std::int32_t> values);
  // Steps
  struct Links {
    std::span<const std::int32_t> incoming, answers, outgoing;
  };
  Links links_of(const Actor& a) const;
  bool advance(Actor& a);
  bool ready(const Actor& a, const Step& s, const Links& links) const;
  void receive_clocks(Actor& a, const Links& links);
  void compute(Actor& a, const Step& s, const Links& links);
  void add_operand(std::span<const std::int32_t> operand, bool raw);
  void read_operand(Actor& a, const Cells& cells, bool raw);
  void check_final(const Actor& a, const Step& s) const;
  void reply_and_release(Actor& a, const Step& s, const Links& links);
  void send(Actor& a, const Step& s, int link, std::int32_t blocks, bool answer);
  bool settle(Actor& a, const Step& s);
  bool settle_one(Actor& a, Message& m, Link& back);
  void next(Actor& a);
  int count(const Step& s, const Links& links) const;
  bool is_there(const Actor& a, const Step& s) const;
  bool reduces(const Actor& a) const { return runs_[a.run].collective.reduces(); }
  // Links
  Message* new_message();
  void pop(Link& link);
  void let_go(Message* m) {
    if (--m->holders == 0) free_.push_back(m);
  }
  // The end
  void judge();
  std::int32_t held(const Memory& m, int tile, std::int32_t cell) const;
  void write_expressions(const Memory& m);
  void judge_rank(int run, int memory);
  void check_value(const Memory& m, std::int32_t tree, std::int32_t cell, int tile);

  std::span<const Run> runs_;
  const Options& options_;
  Verdict& verdict_;
  Trees trees_;
  std::vector<std::int32_t> element_base_, tile_elements_;  // by run
  std::vector<std::vector<int>> memory_of_;                 // by run, rank
  std::vector<Memory> memories_;
  std::vector<Read> reads_;
  std::int32_t free_reads_ = -1;
  std::vector<Actor> actors_;
  std::vector<Link> links_;
  std::unordered_map<std::uint64_t, int> link_of_;
  std::deque<Message> messages_;
  std::vector<Message*> free_;
  std::vector<std::int32_t> result_, operand_;  // of the slice being computed
  int ranks_ = 0;
};

}  // namespace rondo::plan
