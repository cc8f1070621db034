// Proves every schedule: 1..64 ranks, in and out of place, lent and declined, with exactly the credits it claims; every
// root; other ring orders; mixes and random orders of events; several calls on the same links.
#include <algorithm>
#include <random>

#include "proof.h"

namespace rondo::plan {
namespace {

/// A topology of several hosts whose ring order is not 0, 1, 2, ...
Topology shuffled(int ranks, unsigned seed) {
  Topology topology = Topology::one_host(ranks);
  std::mt19937 random(seed);
  for (int i = ranks - 1; i > 0; --i) std::swap(topology.ring_order[i], topology.ring_order[random() % (i + 1)]);
  for (int i = 0; i < ranks; ++i) topology.host_of_rank[topology.ring_order[i]] = i / 4;
  return topology;
}

TEST_CASE("every schedule is proved for 1 to 64 ranks") {
  for (const Schedule& schedule : schedules())
    for (int ranks = 1; ranks <= 64; ++ranks) prove(schedule, ranks);
}

TEST_CASE("every schedule is proved for every number of slices and every root at small sizes") {
  for (const Schedule& schedule : schedules())
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (int slices = 1; slices <= 4; ++slices)
        for (int root = 0; root < ranks; ++root) prove(schedule, Topology::one_host(ranks), root, slices);
}

/// All stripes have two tiles, and the first has one more.
void prove_striped(const Schedule& schedule, const Topology& topology, int root, int slices, int stripes) {
  Run run = build_run(schedule, topology, root);
  for (Plan& plan : run.plans) plan = striped(plan, schedule.lanes, stripes);
  for (Options& mode : modes(schedule, topology.ranks(), slices)) {
    mode.tiles = 2 * stripes + 1;
    INFO(name(schedule.kind) << " " << name(schedule.algorithm) << ", " << topology.ranks() << " ranks, root " << root
                             << ", " << slices << " slices, " << stripes << " stripes");
    const Verdict verdict = verify(run, mode);
    INFO(verdict.text);
    REQUIRE(verdict.ok());
  }
}

TEST_CASE("every schedule is proved in stripes, with the credits of one") {
  for (const Schedule& schedule : schedules())
    for (int ranks = 1; ranks <= 16; ++ranks)
      for (const int stripes : {2, 3 + ranks % 2})
        prove_striped(schedule, Topology::one_host(ranks), ranks / 2, 1 + ranks % 2, stripes);
}

TEST_CASE("stripes that share lanes, scratch or tiles are no proof") {
  const Schedule& pull = *find(CollectiveKind::all_reduce, Algorithm::one_shot_pull);
  const auto fault = [&](const std::function<void(Plan&)>& change) {
    Run run = build_run(pull, Topology::one_host(3));
    for (Plan& plan : run.plans) change(plan = striped(plan, 1, 2));
    return verify(run, {.credits = 4, .tiles = 4}).fault;
  };
  REQUIRE(fault([](Plan&) {}) == Fault::none);
  REQUIRE(fault([](Plan& plan) { plan.strands[1].lane = 0; }) == Fault::strand);
  REQUIRE(fault([](Plan& plan) { plan.strands[1].stripe = 0; }) == Fault::race);
  REQUIRE(fault([](Plan& plan) { plan.strands[1].stripe = 2; }) == Fault::form);
  REQUIRE(fault([](Plan& plan) { plan.strands.pop_back(); }) == Fault::missing);
}

TEST_CASE("schedules follow any ring order") {
  for (const Schedule& schedule : schedules())
    for (int ranks = 2; ranks <= 17; ++ranks) prove(schedule, shuffled(ranks, ranks), ranks / 2, 2);
}

TEST_CASE("the hierarchical schedule is proved for any shape of hosts") {
  const Schedule& schedule = *find(CollectiveKind::all_reduce, Algorithm::hierarchical);
  const std::vector<std::vector<int>> shapes = {{1, 1},       {2, 1},    {1, 3},       {2, 2},          {4, 4},
                                                {3, 5, 1},    {1, 1, 1}, {7, 2, 2, 1}, {2, 3, 4, 5, 6}, {8, 8, 8, 8},
                                                {16, 16, 16}, {31, 33},  {5, 1, 1, 1}, {1, 2, 1, 2, 1}};
  for (const std::vector<int>& shape : shapes) {
    std::vector<std::int32_t> hosts;
    for (std::size_t host = 0; host < shape.size(); ++host) hosts.insert(hosts.end(), shape[host], 10 * host);
    for (const bool scattered : {false, true}) {
      if (scattered) std::shuffle(hosts.begin(), hosts.end(), std::mt19937(shape[0]));
      for (const int slices : {1, 2}) prove(schedule, Topology::on_hosts(hosts), 0, slices);
    }
  }
}

TEST_CASE("every schedule is proved on several hosts, whose ring enters and leaves each host once") {
  std::mt19937 random(7);
  for (int ranks = 2; ranks <= 20; ++ranks) {
    std::vector<std::int32_t> hosts(ranks);
    for (std::int32_t& host : hosts) host = random() % 4;
    const Topology topology = Topology::on_hosts(hosts);
    int crossings = 0;
    for (int i = 0; i < ranks; ++i)
      crossings += hosts[topology.ring_order[i]] != hosts[topology.ring_order[(i + 1) % ranks]];
    const int count = static_cast<int>(topology.hosts().size());
    REQUIRE(crossings == (count > 1 ? count : 0));
    for (const Schedule& schedule : schedules()) prove(schedule, topology, ranks / 2, 1 + ranks % 2);
  }
}

TEST_CASE("the credits a schedule claims are the least") {
  for (const Schedule& schedule : schedules())
    for (int ranks = 2; ranks <= 8; ++ranks)
      for (int slices = 1; slices <= 4; ++slices) {
        const Run run = build_run(schedule, Topology::one_host(ranks), 0);
        Options worst = modes(schedule, ranks, slices).back();
        if (--worst.credits == 0) continue;
        INFO(name(schedule.kind) << " " << name(schedule.algorithm) << ", " << ranks << " ranks, " << slices);
        REQUIRE(verify(run, worst).fault == Fault::deadlock);
      }
}

TEST_CASE("mixes of places, lends and orders of events give one result") {
  for (const Schedule& schedule : schedules())
    for (const int ranks : {3, 6}) {
      const Run run = build_run(schedule, Topology::one_host(ranks), ranks - 1);
      Options plain{.credits = 4};
      plain.expressions = true;
      const Verdict first = verify(run, plain);
      REQUIRE(first.ok());
      for (int seed = 0; seed < 12; ++seed) {
        Options mixed{.credits = 3 + seed % 2};
        for (int rank = 0; rank < ranks; ++rank)
          if ((rank * 5 + seed) % 3 != 0) mixed.in_place.push_back(rank);
        if (seed % 2 != 0) mixed.lends = [](const LinkName& link) { return (7 * link.from + link.to) % 3 > 0; };
        mixed.seed = seed;
        mixed.expressions = true;
        const Verdict again = verify(run, mixed);
        INFO(name(schedule.kind) << " " << name(schedule.algorithm) << " seed " << seed << " " << again.text);
        REQUIRE(again.ok());
        REQUIRE(again.results == first.results);
      }
    }
}

Run send_recv(int ranks, int from, int to, bool lends = false) {
  Run run{{CollectiveKind::send_recv, ranks, 1, from, to}, std::vector<Plan>(ranks)};
  run.plans[from] = send_to(to, lends);
  run.plans[to].strands.push_back(receive_from(from).strands.front());
  return run;
}

TEST_CASE("send and receive are proved, sent and lent, also to oneself") {
  for (const int to : {0, 1})
    for (const bool lends : {false, true})
      for (int slices = 1; slices <= 4; ++slices) {
        const Run run = send_recv(2, 0, to, lends);
        REQUIRE(verify(run, {.credits = 1, .slices = slices}).ok());
        REQUIRE(verify(run, {.credits = 1, .slices = slices, .lends = decline}).ok());
      }
}

TEST_CASE("runs take each end of a link in call order") {
  const int ranks = 4;
  const Topology topology = Topology::one_host(ranks);
  const auto of = [&](CollectiveKind kind, Algorithm algorithm) {
    return build_run(*find(kind, algorithm), topology, 1);
  };
  const std::vector<Run> runs = {of(CollectiveKind::all_reduce, Algorithm::ring),       send_recv(ranks, 0, 1),
                                 of(CollectiveKind::reduce_scatter, Algorithm::direct), send_recv(ranks, 1, 0),
                                 of(CollectiveKind::all_reduce, Algorithm::two_shot),   send_recv(ranks, 2, 2, true),
                                 of(CollectiveKind::broadcast, Algorithm::chain),       send_recv(ranks, 0, 1)};
  for (int seed = -1; seed < 8; ++seed) {
    Options options{.credits = 3};
    if (seed >= 0) options.seed = seed;
    if (seed % 2 == 0) options.lends = decline;
    const Verdict verdict = verify(runs, options);
    INFO(verdict.text);
    REQUIRE(verdict.ok());
  }
  Options apart{.credits = 3};
  apart.order[2] = {5, 0, 2, 4, 6};  // shares no link with the others
  REQUIRE(verify(runs, apart).ok());
  Options disagree{.credits = 3};
  disagree.order[0] = {1, 0, 2, 3, 4, 5, 6, 7};
  REQUIRE_FALSE(verify(runs, disagree).ok());
}

}  // namespace
}  // namespace rondo::plan
