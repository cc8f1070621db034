// The cost model against closed formulas: a latency, b seconds a byte, g seconds a reduced byte, S bytes, n ranks.
#include "plan/cost.h"

#include <catch2/catch.hpp>
#include <set>

#include "base/result.h"

namespace rondo::plan {
namespace {

constexpr double latency = 1e-6, a_byte = 1e-9, reduce = 0.25e-9;

/// One tile and one slice, so that formulas are exact.
Parameters whole() {
  Parameters p;
  p.same_host = {latency, a_byte};
  p.reduce_seconds_per_byte = reduce;
  p.cut.slices_max = 1;
  p.cut.slot_bytes = std::size_t{1} << 30;
  return p;
}

Cost all_reduce(Algorithm algorithm, int ranks, std::uint64_t bytes, const Parameters& parameters = whole()) {
  return cost(CollectiveKind::all_reduce, algorithm, Topology::one_host(ranks), bytes, parameters);
}

TEST_CASE("a ring moves 2(n-1)/n of the buffer over every link, in 2(n-1) hops") {
  for (const int n : {2, 3, 4, 8, 16, 64}) {
    const std::uint64_t block = 64 * 1024, bytes = block * n;
    const Cost c = all_reduce(Algorithm::ring, n, bytes);
    REQUIRE(c.link_bytes_max == 2 * (n - 1) * block);
    REQUIRE(c.messages == 2ull * (n - 1) * n);
    const double formula = 2 * (n - 1) * (latency + a_byte * block) + (n - 1) * reduce * block;
    REQUIRE(c.seconds == Approx(formula));
  }
}

TEST_CASE("at a fixed size a ring's link carries 2(n-1)/n of the bytes, within 3 %") {
  for (const std::uint64_t bytes : {std::uint64_t{16} << 20, (std::uint64_t{64} << 20) + 12'345})
    for (int n = 2; n <= 512; n = n * 3 / 2 + 1) {
      const double carried = static_cast<double>(all_reduce(Algorithm::ring, n, bytes, {}).link_bytes_max);
      REQUIRE(carried == Approx(2.0 * (n - 1) / n * static_cast<double>(bytes)).epsilon(0.03));
    }
}

TEST_CASE("a message costs its ports time besides its bytes") {
  Parameters p = whole();
  p.same_host.seconds_per_message = 2 * latency;
  const int n = 16;
  // The root of a star takes n-1 messages one after another, and sends as many; a tree spreads them.
  REQUIRE(all_reduce(Algorithm::star, n, 8, p).seconds > 2 * (n - 1) * 2 * latency);
  REQUIRE(all_reduce(Algorithm::star, n, 8, p).seconds < 2 * (n + 1) * 2 * latency);
  REQUIRE(all_reduce(Algorithm::recursive_doubling, n, 8, p).seconds == Approx(4 * 3 * latency).epsilon(0.01));
}

TEST_CASE("a star's root takes and gives n-1 buffers") {
  for (const int n : {2, 4, 16}) {
    const std::uint64_t bytes = 1 << 20;
    const Cost c = all_reduce(Algorithm::star, n, bytes);
    REQUIRE(c.link_bytes_max == bytes);
    REQUIRE(c.rank_bytes_max == (n - 1) * bytes);
    REQUIRE(c.seconds == Approx(2 * latency + (n - 1) * (2 * a_byte + reduce) * bytes));
  }
}

TEST_CASE("one shot costs one hop and n-1 buffers; two shots cost two hops and a ring's bytes") {
  for (const int n : {2, 4, 8}) {
    const std::uint64_t block = 64 * 1024, bytes = block * n;
    REQUIRE(all_reduce(Algorithm::one_shot, n, bytes).seconds == Approx(latency + (n - 1) * (a_byte + reduce) * bytes));
    const Cost two = all_reduce(Algorithm::two_shot, n, bytes);
    REQUIRE(two.rank_bytes_max == 2 * (n - 1) * block);
    // Replies go out in the order of the operands, to rank 0 first: they queue up at its port.
    const double queued = (n - 2) * a_byte * block;
    REQUIRE(two.seconds == Approx(2 * latency + (n - 1) * (2 * a_byte + reduce) * block + queued));
    Parameters lent = whole();
    lent.lends = true;  // read, reduce, store in one pass; the last release is seen a latency later
    REQUIRE(all_reduce(Algorithm::two_shot, n, bytes, lent).seconds ==
            Approx(2 * latency + (n - 1) * (2 * a_byte + reduce) * block));
  }
}

TEST_CASE("reduce-scatter and all-gather cost half a ring; a chain fills and then streams") {
  const int n = 8;
  const std::uint64_t block = 64 * 1024, bytes = block * n;
  const Topology topology = Topology::one_host(n);
  const auto of = [&](CollectiveKind kind, Algorithm algorithm, const Parameters& p) {
    return cost(kind, algorithm, topology, bytes, p, 3).seconds;
  };
  const double hop = latency + a_byte * block;
  REQUIRE(of(CollectiveKind::reduce_scatter, Algorithm::ring, whole()) == Approx((n - 1) * (hop + reduce * block)));
  REQUIRE(of(CollectiveKind::all_gather, Algorithm::ring, whole()) == Approx((n - 1) * hop + reduce * block));
  REQUIRE(of(CollectiveKind::broadcast, Algorithm::chain, whole()) ==
          Approx(reduce * bytes + (n - 1) * (latency + a_byte * bytes)));
  Parameters sliced = whole();
  sliced.cut = {.slot_bytes = 4096, .slices_max = 4, .slice_bytes_min = 1024};
  const double streamed = of(CollectiveKind::broadcast, Algorithm::chain, sliced);
  REQUIRE(streamed < 1.2 * a_byte * bytes + n * latency);
  REQUIRE(streamed > a_byte * bytes);
}

TEST_CASE("credits bound what is on its way") {
  Parameters p = whole();
  p.cut = {.slot_bytes = 4096, .slices_max = 4, .slice_bytes_min = 1024};
  p.same_host.latency_s = 100e-6;
  const auto seconds = [&](int credits) {
    p.credits = credits;
    return all_reduce(Algorithm::ring, 4, 1 << 20, p).seconds;
  };
  REQUIRE(seconds(5) > 1.2 * seconds(50));
  REQUIRE(seconds(50) > 0.99 * seconds(500));
  REQUIRE_THROWS_AS(seconds(4), Error);  // four slices a step need five
}

TEST_CASE("a ring that follows the hosts crosses each host's port once") {
  Topology near = Topology::one_host(16);
  for (int rank = 0; rank < 16; ++rank) near.host_of_rank[rank] = rank / 4;
  Topology far = near;
  for (int i = 0; i < 16; ++i) far.ring_order[i] = i % 4 * 4 + i / 4;  // every hop leaves its host
  Parameters p = whole();
  p.other_host = {10 * latency, 4 * a_byte};
  const auto seconds = [&](const Topology& topology) {
    return cost(CollectiveKind::all_reduce, Algorithm::ring, topology, 1 << 24, p).seconds;
  };
  REQUIRE(seconds(far) > 3 * seconds(near));
}

TEST_CASE("one rank or host that stands for all others gives the cost of all") {
  std::set<std::pair<CollectiveKind, Algorithm>> folded;
  for (const int n : {4, 7, 16, 32})
    for (const int of_host : {0, 1, 2, 4, 8}) {
      if (of_host > 0 && n % of_host != 0) continue;
      Topology topology = Topology::one_host(n);
      if (of_host > 0)
        for (int rank = 0; rank < n; ++rank) topology.host_of_rank[rank] = rank / of_host;
      for (const Schedule& schedule : schedules()) {
        if (ranks_run(schedule, topology) == n) continue;
        folded.emplace(schedule.kind, schedule.algorithm);
        for (const bool lends : {false, true})
          for (const std::uint64_t bytes : {std::uint64_t{64} * n, std::uint64_t{3} << 20}) {
            Parameters p;
            p.lends = lends;
            const auto run = [&] { return cost(schedule, topology, bytes, p); };
            const Cost one = run();
            p.whole = true;
            const Cost all = run();
            INFO(name(schedule.kind) << " " << name(schedule.algorithm) << ", " << n << " ranks, " << of_host
                                     << " a host, " << bytes << " bytes, lends " << lends);
            CHECK(one.seconds == Approx(all.seconds).epsilon(0.01));
            CHECK(one.messages == all.messages);
          }
      }
    }
  for (const auto& [kind, algorithm] : {std::pair{CollectiveKind::all_reduce, Algorithm::ring},
                                        std::pair{CollectiveKind::all_reduce, Algorithm::halving_doubling},
                                        std::pair{CollectiveKind::all_reduce, Algorithm::hierarchical},
                                        std::pair{CollectiveKind::all_gather, Algorithm::direct},
                                        std::pair{CollectiveKind::reduce_scatter, Algorithm::pat},
                                        std::pair{CollectiveKind::all_to_all, Algorithm::bruck}})
    REQUIRE(folded.contains({kind, algorithm}));
  REQUIRE_FALSE(folded.contains({CollectiveKind::broadcast, Algorithm::chain}));  // the root is not like the others
}

TEST_CASE("algorithms are ranked, also for thousands of ranks") {
  const auto seconds = [](Algorithm algorithm, std::uint64_t bytes) {
    return all_reduce(algorithm, 8, bytes, {}).seconds;
  };
  REQUIRE(seconds(Algorithm::one_shot, 64) < seconds(Algorithm::ring, 64));
  REQUIRE(seconds(Algorithm::ring, 1 << 24) < seconds(Algorithm::one_shot, 1 << 24));
  REQUIRE(seconds(Algorithm::ring, 1 << 24) < seconds(Algorithm::star, 1 << 24));
  const Cost star = all_reduce(Algorithm::star, 4096, 1 << 20);
  REQUIRE(star.seconds == Approx(2 * latency + 4095 * (2 * a_byte + reduce) * (1 << 20)));
  const Cost ring = all_reduce(Algorithm::ring, 512, 1 << 24);
  REQUIRE(ring.link_bytes_max == 2 * 511 * ((1 << 24) / 512));
  REQUIRE_THROWS_AS(all_reduce(Algorithm::bruck, 4, 64), Error);
}

}  // namespace
}  // namespace rondo::plan
