// The control plane's network parts: the choice of interfaces, addresses, ids that carry them, ports, and the way to a
// peer among several.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "control/connector.h"
#include "control/crypto.h"
#include "control/interfaces.h"
#include "control/root.h"
#include "control/socket.h"
#include "processes.h"
#include "rank.h"

using namespace rondo;
using namespace rondo::test;
using namespace rondo::control;

namespace {

Address at(const std::string& numbers, std::uint16_t port = 0) { return *parse_address(numbers, port); }

/// A machine with a bit of everything.
std::vector<Interface> machine() {
  Address local = at("fe80::1");
  local.scope = 3;
  return {{"lo", at("127.0.0.1"), 8, true},         {"lo", at("::1"), 128, true},
          {"docker0", at("172.17.0.1"), 16, false}, {"eth0", at("10.0.0.5"), 24, false},
          {"eth0", at("2001:db8::5"), 64, false},   {"eth0", local, 64, false},
          {"eth1", at("10.1.0.5"), 24, false},      {"ib0", at("192.168.7.5"), 24, false},
          {"veth12", at("10.200.0.1"), 24, false}};
}

std::vector<Interface> without(const std::string& prefix) {
  std::vector<Interface> rest;
  for (const Interface& one : machine()) {
    if (!one.name.starts_with(prefix)) rest.push_back(one);
  }
  return rest;
}

std::string chosen(const std::vector<Interface>& all, const InterfaceRules& rules) {
  return in_words(choose_interfaces(all, rules).interfaces);
}

/// A port of 127.0.0.1 on which nothing listens, with the next one free, too.
Descriptor taken_port(std::uint16_t& port) {
  for (;;) {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    socklen_t bytes = sizeof address;
    REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), bytes) == 0);
    REQUIRE(::listen(socket.get(), 1) == 0);
    REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &bytes) == 0);
    port = ntohs(address.sin_port);
    Descriptor next(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    address.sin_port = htons(static_cast<std::uint16_t>(port + 1));
    if (port < 65535 && ::bind(next.get(), reinterpret_cast<sockaddr*>(&address), bytes) == 0) return socket;
  }
}

}  // namespace

TEST_CASE("interfaces in NCCL's order: InfiniBand, others, those of containers, loopback") {
  CHECK(chosen(machine(), {}) == "ib0 192.168.7.5");
  CHECK(chosen(without("ib"), {}) == "eth0 10.0.0.5, eth0 2001:db8::5, eth1 10.1.0.5");
  CHECK(chosen({machine()[0], machine()[2], machine()[8]}, {}) == "docker0 172.17.0.1, veth12 10.200.0.1");
  CHECK(chosen({machine()[0], machine()[1]}, {}) == "lo 127.0.0.1, lo ::1");
  CHECK(choose_interfaces(machine(), {}).why.find("InfiniBand") != std::string::npos);
}

TEST_CASE("NCCL_SOCKET_IFNAME: prefixes, exact names, exclusion") {
  CHECK(chosen(machine(), {"eth", "", {}}) == "eth0 10.0.0.5, eth0 2001:db8::5, eth1 10.1.0.5");
  CHECK(chosen(machine(), {"=eth1", "", {}}) == "eth1 10.1.0.5");
  CHECK(chosen(machine(), {"eth1,veth", "", {}}) == "eth1 10.1.0.5, veth12 10.200.0.1");
  CHECK(chosen(machine(), {"lo", "", {}}) == "lo 127.0.0.1, lo ::1");
  CHECK(chosen(machine(), {"^ib", "", {}}) == "eth0 10.0.0.5, eth0 2001:db8::5, eth1 10.1.0.5");
  CHECK(chosen(machine(), {"^=ib0,eth0", "", {}}) == "eth1 10.1.0.5");
  CHECK(chosen(machine(), {"^ib,eth", "", {}}) == "docker0 172.17.0.1, veth12 10.200.0.1");
}

TEST_CASE("an NCCL_SOCKET_IFNAME that matches nothing is an error that names what there is") {
  for (const std::string names : {"=eth", "wlan", "^lo,docker,eth,ib,veth"}) {
    const std::string sentence = sentence_of(Code::invalid_usage, [&] {
      (void)choose_interfaces(machine(), {names, "", {}});
    });
    CHECK(contains(sentence, "NCCL_SOCKET_IFNAME=" + names));
    CHECK(contains(sentence, "eth1 10.1.0.5"));
    CHECK(contains(sentence, "docker0"));
  }
  CHECK(contains(sentence_of(Code::invalid_usage,
                             [] {
                               (void)choose_interfaces({machine()[0]}, {"", "AF_INET6", {}});
                             }),
                 "NCCL_SOCKET_FAMILY"));
}

TEST_CASE("a meeting in a family that is not allowed, or that this host has not, is an error that says both") {
  const std::vector<Interface> four = {machine()[0], machine()[1], machine()[3]};
  const auto usable = [](const std::vector<std::string>& numbers, const std::string& family,
                         const std::vector<Interface>& all) {
    std::vector<Address> addresses;
    for (const std::string& one : numbers) addresses.push_back(at(one));
    std::string words;
    for (const Address& one : usable_addresses("MASTER_ADDR=there", addresses, family, all)) {
      words += (words.empty() ? "" : " ") + in_words(one);
    }
    return words;
  };
  const auto trouble = [&](const std::vector<std::string>& numbers, const std::string& family,
                           const std::vector<Interface>& all) {
    return sentence_of(Code::invalid_usage, [&] { (void)usable(numbers, family, all); });
  };
  CHECK(usable({"10.0.0.1", "2001:db8::1"}, "", machine()) == "10.0.0.1 2001:db8::1");
  CHECK(usable({"10.0.0.1", "2001:db8::1"}, "AF_INET6", machine()) == "2001:db8::1");
  CHECK(usable({"10.0.0.1", "2001:db8::1"}, "", four) == "10.0.0.1 2001:db8::1");
  CHECK(usable({}, "AF_INET6", machine()) == "");
  CHECK(usable({"127.0.1.1"}, "", {machine()[0], machine()[4]}) == "127.0.1.1");
  CHECK(usable({"2001:db8::1"}, "", {machine()[0]}) == "2001:db8::1");  // no network at all: perhaps not yet
  const std::string other = trouble({"10.0.0.1"}, "AF_INET6", machine());
  CHECK(contains(other, "MASTER_ADDR=there is of AF_INET, but NCCL_SOCKET_FAMILY=AF_INET6"));
  CHECK(contains(trouble({"2001:db8::1"}, "AF_INET", machine()), "is of AF_INET6, but NCCL_SOCKET_FAMILY=AF_INET "));
  for (const std::string family : {"", "AF_INET6"}) {
    const std::string lacks = trouble({"2001:db8::1"}, family, four);
    CHECK(contains(lacks, "MASTER_ADDR=there"));
    CHECK(contains(lacks, "no interface to others with an address of AF_INET6"));
    CHECK(contains(lacks, "eth0 10.0.0.5"));
  }
  CHECK(contains(trouble({}, "AF_INET6", four), "AF_INET6 (NCCL_SOCKET_FAMILY)"));
}

TEST_CASE("families, networks in common, and link-local addresses") {
  CHECK(chosen(without("ib"), {"", "AF_INET", {}}) == "eth0 10.0.0.5, eth1 10.1.0.5");
  CHECK(chosen(machine(), {"", "AF_INET6", {}}) == "eth0 2001:db8::5");
  CHECK(chosen(without("ib"), {"", "", at("10.1.0.77")}) == "eth1 10.1.0.5");
  CHECK(chosen(without("ib"), {"", "", at("127.0.0.1")}) == "lo 127.0.0.1");
  CHECK(contains(chosen({machine()[0], machine()[5]}, {}), "eth0 fe80::1%"));  // the only one of its interface
}

TEST_CASE("addresses are read and written as the field does") {
  for (const std::string text : {"10.0.0.1:4000", "[2001:db8::1]:4000"}) {
    const std::string numbers = text[0] == '[' ? "2001:db8::1" : "10.0.0.1";
    CHECK(in_words(at(numbers, 4000)) == text);
  }
  CHECK(in_words(at("::ffff:10.0.0.1")) == "10.0.0.1");
  for (const char* wrong : {"", "host", "10.0.0", "10.0.0.1.1", "::g", "1.2.3.4%lo", "fe80::1%no-such-interface"}) {
    CHECK(!parse_address(wrong, 1));
  }
  CHECK(is_loopback(at("127.1.2.3")));
  CHECK(is_loopback(at("::1")));
  CHECK(!is_loopback(at("::2")));
  CHECK(is_link_local(at("fe80::1")));
  CHECK(share_prefix(at("10.0.0.1"), at("10.0.1.1"), 23));
  CHECK(!share_prefix(at("10.0.0.1"), at("10.0.1.1"), 24));
  CHECK(!share_prefix(at("10.0.0.1"), at("::1"), 0));
}

TEST_CASE("a unique id carries the addresses there is room for") {
  RootAddress address;
  address.name = random_name();
  address.port = 4711;
  address.secret = random_secret();
  for (int i = 1; i <= 3; ++i) address.addresses.push_back(at("2001:db8::" + std::to_string(i), 4711));
  address.addresses.push_back(at("10.0.0.1", 4711));
  const RootAddress back = decode(encode(address));
  CHECK(back.name == address.name);
  CHECK(back.networked());
  // Two long ones fit, and a short one behind them.
  CHECK(back.addresses == std::vector<Address>{address.addresses[0], address.addresses[1], address.addresses[3]});
  address.name = std::string(60, 'n');
  CHECK_THROWS_AS(encode(address), Error);
}

TEST_CASE("RONDO_PORT_RANGE: the first free port, an error that names the range when there is none") {
  std::uint16_t port = 0;
  const Descriptor taken = taken_port(port);
  const std::string range = std::to_string(port) + "-" + std::to_string(port + 1);
  World world(2, [&](int me, Board& board) {
    ::setenv("RONDO_PORT_RANGE", range.c_str(), 1);
    if (me == 0) {
      expect(decode(create_unique_id()).port == port + 1, "the free port");
      ++board.counters[0];
      expect(board.await(0, 2), "the other");
      return;
    }
    expect(board.await(0, 1), "the first");
    const std::string sentence = sentence_of(Code::system_error, [] { create_unique_id(); });
    expect(contains(sentence, "RONDO_PORT_RANGE=" + range), sentence);
    for (const char* wrong : {"1", "5-4", "0-1", "1-65536", "a-b", "1-2x", "-1-2"}) {
      ::setenv("RONDO_PORT_RANGE", wrong, 1);
      expect(contains(sentence_of(Code::invalid_argument, [] { create_unique_id(); }), "RONDO_PORT_RANGE"), wrong);
    }
    ++board.counters[0];
  });
  CHECK(world.trouble() == "");
}

TEST_CASE("of several addresses the one that proves the secret is taken, and the peer meets the caller once") {
  World world(3, [](int me, Board& board) {
    if (me == 2) {  // another job's process
      board.publish(create_unique_id(), 1);
      expect(board.await(0, 1), "the join");
      return;
    }
    if (me == 0) {
      board.publish(create_unique_id());
      const std::string sentence = sentence_of(Code::remote_error, [&] { join(board.ids[0], 0, 2, in_seconds(20)); });
      expect(contains(sentence, "rank 1 (host caller, pid 1) died while the ranks were joining"), sentence);
      ++board.counters[0];
      return;
    }
    const RootAddress root = decode(board.await_id());
    const std::uint16_t others_port = decode(board.await_id(1)).port;
    Loop loop;
    Call call;
    call.name = "nobody";
    call.addresses = {at("127.0.0.1", others_port), at("127.0.0.1", root.port), at("127.0.0.1", root.port),
                      at("::1", root.port)};
    call.key = root.key();
    call.secret = root.secret;
    joining::Greeting greeting;
    greeting.member = {1, 1, "caller", 0, "nobody", {}};
    greeting.ranks = 2;
    greeting.left_ms = 20000;
    greeting.settings_digest = ByteReader(sha256({})).number<std::uint64_t>();  // as that of a rank with no settings
    call.greeting = joining::encode(greeting);
    std::shared_ptr<Channel> connected;
    std::unique_ptr<Connector> connector;
    connector = std::make_unique<Connector>(loop, call, [&](Outcome outcome, std::shared_ptr<Channel> channel, auto&) {
      if (outcome != Outcome::connected) return false;
      connected = std::move(channel);
      connected->handle({[&](Plane, Frame& frame) {
                           expect(frame.kind == joining::placed, "its place: it has joined once");
                           loop.stop();
                         },
                         {}});
      return true;
    });
    loop.run();
    expect(!connected->passes_descriptors() && connected->peer_address().port == root.port, "the root");
    connector.reset();
    connected->stop();
  });
  CHECK(world.trouble() == "");
}
