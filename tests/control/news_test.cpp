// News along the tree, in virtual time: every rank that is here knows of every rank that is not, whatever leaves or
// dies, and within bounds.
#include "control/news.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/limits.h"
#include "control/tree.h"
#include "virtual_network.h"

using namespace rondo;
using namespace rondo::test;
using control::Bytes;
using control::News;
using control::View;

namespace {

class Society {
 public:
  explicit Society(int ranks) : network(static_cast<std::size_t>(ranks), {}) {
    for (int rank = 0; rank < ranks; ++rank) nodes.push_back(std::make_unique<Node>(*this, rank, ranks));
    for (auto& node : nodes) node->news.start();
  }

  void end(int rank, News::State how) {
    Node& node = *nodes[static_cast<std::size_t>(rank)];
    if (!node.here) return;
    node.here = false;
    node.ended_at = network.now();
    node.how = how;
    for (const int other : std::set<int>(node.lines)) {
      network.send(rank, 16, [this, rank, other, how] {
        nodes[static_cast<std::size_t>(other)]->lines.erase(rank);
        if (nodes[static_cast<std::size_t>(other)]->here) {
          nodes[static_cast<std::size_t>(other)]->news.note(rank, how, "died");
        }
      });
    }
    node.lines.clear();
  }

  struct Node final : News::Owner {
    Node(Society& in, int number, int ranks) : society(in), rank(number), news(number, ranks, *this) {}
    void send(int to, std::uint16_t kind, View body) override {
      REQUIRE(lines.contains(to));
      society.network.send(rank, 16 + body.size(), [this, to, kind, bytes = Bytes(body.begin(), body.end())] {
        Node& peer = *society.nodes[static_cast<std::size_t>(to)];
        if (peer.here && peer.lines.contains(rank)) REQUIRE(peer.news.receive(rank, kind, bytes));
      });
    }
    void call(int to) override {
      REQUIRE(to < rank);
      society.network.connect(to, [this, to] {
        Node& peer = *society.nodes[static_cast<std::size_t>(to)];
        if (!here) return;
        if (!peer.here) return news.unreachable(to);
        lines.insert(to);
        peer.lines.insert(rank);
        peer.news.attached(rank);
        news.attached(to);
        if (news.complete()) complete_at = society.network.now();
      });
    }
    void mend_soon() override {
      society.network.after(limits::mend_pause_ms / 1000.0, [this] {
        if (here) news.mend();
      });
    }
    void gone(int other, News::State, const std::string&) override {
      REQUIRE(heard.insert(other).second);
      heard_at = society.network.now();
    }

    Society& society;
    int rank;
    News news;
    bool here = true;
    News::State how = News::State::here;
    double ended_at = 0;
    double complete_at = 0;
    double heard_at = 0;
    std::set<int> lines;
    std::set<int> heard;
  };

  VirtualNetwork network;
  std::vector<std::unique_ptr<Node>> nodes;
};

/// Every rank that is here knows who is not, and how it went; its parent is one of those that are here.
void check_knowledge(const Society& society) {
  for (const auto& node : society.nodes) {
    if (!node->here) continue;
    for (const auto& other : society.nodes) {
      if (other->rank != node->rank) REQUIRE(node->news.state(other->rank) == other->how);
    }
  }
}

/// All that are here know the same, and nothing that is not so.
void check_agreement(const Society& society) {
  const Society::Node* first = nullptr;
  for (const auto& node : society.nodes) {
    if (!node->here) continue;
    if (first == nullptr) first = node.get();
    for (const auto& other : society.nodes) {
      const News::State known = node->news.state(other->rank);
      REQUIRE(known == first->news.state(other->rank));
      if (known != News::State::here) REQUIRE(known == other->how);
    }
  }
}

/// Two thirds of all end, those high in the tree more often, each a while after the one before.
void end_many(Society& society, std::mt19937& random, double pause_s) {
  const auto ranks = static_cast<unsigned>(society.nodes.size());
  for (unsigned i = 0; i < ranks * 2 / 3; ++i) {
    const auto rank = static_cast<int>(random() % (i % 3 == 0 ? std::min(ranks, 12u) : ranks));
    const auto how = random() % 2 == 0 ? News::State::left : News::State::failed;
    society.network.after(0.1 + i * pause_s, [&society, rank, how] { society.end(rank, how); });
  }
}

}  // namespace

TEST_CASE("the tree reaches all ranks, by parents below them") {
  for (const int ranks : {1, 2, 9, 10, 1000}) {
    std::vector<int> reached(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      for (const int child : control::tree_children(rank, ranks)) {
        CHECK(control::tree_parent(child) == rank);
        ++reached[static_cast<std::size_t>(child)];
      }
    }
    CHECK(reached[0] == 0);
    CHECK(std::count(reached.begin() + 1, reached.end(), 1) == ranks - 1);
  }
}

TEST_CASE("the death of any of 1,000 ranks is known to all within 10 ms of virtual time") {
  for (const int victim : {0, 1, 9, 124, 500, 999}) {
    Society society(1000);
    society.network.after(1, [&] {
      for (const auto& node : society.nodes) REQUIRE(node->news.complete());
      society.end(victim, News::State::failed);
    });
    society.network.run();
    check_knowledge(society);
    for (const auto& node : society.nodes) {
      if (node->rank != victim) CHECK(node->heard_at < 1.01);
    }
  }
}

TEST_CASE("departures and deaths one after another become known to all that stay, in any order") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    Society society(2 + static_cast<int>(random() % 150));
    end_many(society, random, 0.3);
    society.network.run();
    check_knowledge(society);
    check_agreement(society);
  }
}

TEST_CASE("whatever goes at once, those that stay agree, and believe of nobody what is not so") {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    Society society(2 + static_cast<int>(random() % 150));
    end_many(society, random, seed % 2 == 0 ? 5e-3 : 20e-6);
    society.network.run();
    check_agreement(society);
  }
}

TEST_CASE("what cannot be news is refused") {
  Society society(3);
  News& news = society.nodes[1]->news;
  const Bytes body = control::ByteWriter().number(std::uint32_t{2}).bytes();
  CHECK(!news.receive(0, News::left, View(body).first(3)));
  CHECK(!news.receive(0, News::failed, body));
  CHECK(!news.receive(0, 99, body));
  CHECK(!news.receive(0, News::left, control::ByteWriter().number(std::uint32_t{3}).bytes()));
  CHECK(news.receive(0, News::left, control::ByteWriter().number(std::uint32_t{1}).bytes()));  // of itself: passed over
  CHECK(news.state(1) == News::State::here);
}
