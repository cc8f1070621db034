// The table of members along the tree, in virtual time: 1,000 ranks join.
#include "control/table.h"

#include <catch2/catch.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "control/root.h"
#include "control/tree.h"
#include "virtual_network.h"

using namespace rondo;
using namespace rondo::test;
using control::Bytes;
using control::Membership;
using control::Table;
using control::View;

namespace {

Membership members(int ranks) {
  Membership membership;
  membership.communicator = 7;
  for (int rank = 0; rank < ranks; ++rank) {
    control::Member member;
    member.rank = rank;
    member.pid = 1000 + rank;
    member.host = "a-host-with-a-name-" + std::to_string(rank / 8);
    member.listener = "rondo-0123456789abcdef";
    member.addresses = {*control::parse_address("10.0.0.1", 4000), *control::parse_address("2001:db8::1", 4000)};
    membership.members.push_back(member);
  }
  return membership;
}

/// The ranks and, as the last node, the root.
class Joining {
 public:
  explicit Joining(int ranks)
      : network(static_cast<std::size_t>(ranks) + 1, {}), sent(static_cast<std::size_t>(ranks) + 1), root(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      nodes.push_back(std::make_unique<Node>(*this, rank, ranks));
      network.connect(root, [this, rank, ranks] {
        send(rank, 200, [this, ranks] {
          if (++arrived == ranks) place_all(ranks);
        });
      });
    }
  }

  void send(int from, std::size_t bytes, std::function<void()> arrive) {
    sent[static_cast<std::size_t>(from)] += bytes;
    network.send(from, bytes, std::move(arrive));
  }

  void place_all(int ranks) {
    for (Bytes& frame : control::joining::encode(members(ranks))) {
      send(root, frame.size(), [this, frame] { nodes[0]->take(frame); });
    }
    for (int rank = 1; rank < ranks; ++rank) {
      send(root, 200, [this, rank] {
        network.connect(control::tree_parent(rank), [this, rank] {
          REQUIRE(nodes[static_cast<std::size_t>(control::tree_parent(rank))]->table.attached(rank));
        });
      });
    }
  }

  struct Node final : Table::Owner {
    Node(Joining& in, int number, int ranks) : joining(in), rank(number), table(number, ranks, *this) {}
    void hand_on(int child, View frame) override {
      joining.send(rank, frame.size(), [this, child, bytes = Bytes(frame.begin(), frame.end())] {
        joining.nodes[static_cast<std::size_t>(child)]->take(bytes);
      });
    }
    void take(const Bytes& frame) {
      REQUIRE(table.take(frame));
      if (table.complete() && rank != 0) {
        joining.send(rank, 16, [this] {
          Node& parent = *joining.nodes[static_cast<std::size_t>(control::tree_parent(rank))];
          parent.table.received(rank);
        });
      }
    }
    Joining& joining;
    int rank;
    Table table;
  };

  VirtualNetwork network;
  std::vector<std::size_t> sent;  // bytes, by node
  int root;
  int arrived = 0;
  std::vector<std::unique_ptr<Node>> nodes;
};

}  // namespace

TEST_CASE("1,000 ranks join within a second of virtual time, and nobody sends more than eight tables") {
  for (const int ranks : {1, 2, 9, 64, 1000}) {
    Joining joining(ranks);
    joining.network.run();
    std::size_t table_bytes = 0;
    for (const Bytes& frame : control::joining::encode(members(ranks))) table_bytes += frame.size();
    for (const auto& node : joining.nodes) {
      REQUIRE(node->table.served());
      REQUIRE(node->table.membership().members.back().pid == 1000 + ranks - 1);
      REQUIRE(joining.sent[static_cast<std::size_t>(node->rank)] <= control::tree_fanout * table_bytes + 300);
    }
    // At 1 Gbit/s the root alone would send 1,000 tables in 0.9 s.
    CHECK(joining.sent.back() <= table_bytes + 200 * static_cast<std::size_t>(ranks));
    CHECK(joining.network.now() < 0.2);
  }
}

TEST_CASE("a table takes no stranger for a child, and no malformed frame") {
  struct Nobody final : Table::Owner {
    void hand_on(int, View) override { FAIL("to nobody"); }
  } nobody;
  Table table(1, 100, nobody);
  CHECK(!table.attached(8));
  CHECK(!table.attached(1));
  CHECK(!table.attached(-1));
  CHECK(!table.attached(20));
  CHECK(!table.take(Bytes(100, std::byte{7})));
  Table small(0, 2, nobody);
  CHECK(!small.take(control::joining::encode(members(3)).front()));
}
