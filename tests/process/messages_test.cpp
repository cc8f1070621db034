// Send and receive between processes: alone, in groups, to oneself, short and long, beside collectives in any order of
// listing, and wrong ones refused.
#include <catch2/catch.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "ranks.h"

namespace rondo::test {
namespace {

using Numbers = std::vector<std::int32_t>;

constexpr std::size_t counts[] = {1, 9, 1000, 2'049, 28'672, 28'673, 500'000};  // sent, lent, and beyond one slot

/// What `from` sends to `to`.
Numbers message(int from, int to, std::size_t count) {
  Numbers numbers(count);
  std::iota(numbers.begin(), numbers.end(), 1000 * from + to);
  return numbers;
}

void must_hold(const Numbers& got, const Numbers& wanted, const std::string& what) {
  if (got != wanted) throw std::runtime_error(what + ": wrong numbers");
}

ncclResult_t send(const Numbers& from, int peer, ncclComm_t comm, cudaStream_t stream = nullptr) {
  return ncclSend(from.data(), from.size(), ncclInt32, peer, comm, stream);
}
ncclResult_t receive(Numbers& to, int peer, ncclComm_t comm, cudaStream_t stream = nullptr) {
  return ncclRecv(to.data(), to.size(), ncclInt32, peer, comm, stream);
}

std::string with_ranks(int ranks, const std::function<void(int rank, ncclComm_t comm)>& body) {
  const Shared<Meeting> meeting;
  return run_ranks(Ranks::processes, ranks, [&](int rank) {
    const ncclComm_t comm = meeting->join(0, rank, ranks);
    body(rank, comm);
    expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
  });
}

TEST_CASE("a message alone arrives, whatever its length, and others meet in order") {
  REQUIRE(with_ranks(3, [](int rank, ncclComm_t comm) {
            for (const std::size_t count : counts) {
              if (rank == 0) expect_success(send(message(0, 2, count), 2, comm), "send");
              if (rank == 1) expect_success(send(message(1, 2, count), 2, comm), "send");
              if (rank != 2) continue;
              for (const int from : {1, 0}) {
                Numbers got(count);
                expect_success(receive(got, from, comm), "receive");
                must_hold(got, message(from, 2, count), "from " + std::to_string(from));
              }
            }
            // Ranks have made different numbers of calls: collectives still match.
            expect_success(all_reduce_floats(comm, 100), "all_reduce");
          }) == "");
}

TEST_CASE("a group of sends and receives is an all-to-all, oneself among them") {
  for (const int ranks : {1, 2, 4}) {
    REQUIRE(with_ranks(ranks, [&](int rank, ncclComm_t comm) {
              for (const std::size_t count : counts) {
                std::vector<Numbers> given, got(ranks, Numbers(count));
                expect_success(ncclGroupStart(), "group");
                for (int peer = 0; peer < ranks; ++peer) given.push_back(message(rank, peer, count));
                for (int peer = 0; peer < ranks; ++peer) {
                  expect_success(send(given[peer], peer, comm), "send");
                  expect_success(receive(got[peer], peer, comm), "receive");
                }
                expect_success(ncclGroupEnd(), "group");
                for (int peer = 0; peer < ranks; ++peer) must_hold(got[peer], message(peer, rank, count), "all-to-all");
              }
            }) == "");
  }
}

TEST_CASE("many messages of one group arrive in order, both ways, beside a collective, and again") {
  // More than a link has headers; lengths that are sent and lent, by turns.
  constexpr std::size_t many = 150;
  const auto length = [](std::size_t i) { return counts[i * i % 5]; };
  REQUIRE(with_ranks(3, [&](int rank, ncclComm_t comm) {
            for (const bool with_collective : {false, true, false}) {
              std::vector<Numbers> given, got;
              Numbers sum(7, rank);
              for (std::size_t i = 0; i < many; ++i) {
                for (int peer = 0; peer < 3; ++peer) {
                  given.push_back(message(rank, peer + 3 * static_cast<int>(i), length(i)));
                  got.emplace_back(length(i));
                }
              }
              expect_success(ncclGroupStart(), "group");
              for (std::size_t i = 0; i < given.size(); ++i) {
                const int peer = static_cast<int>(i % 3);
                expect_success(send(given[i], peer, comm), "send");
                expect_success(receive(got[i], peer, comm), "receive");
              }
              if (with_collective) {
                expect_success(ncclAllReduce(sum.data(), sum.data(), 7, ncclInt32, ncclSum, comm, nullptr), "sum");
              }
              expect_success(ncclGroupEnd(), "group");
              for (std::size_t i = 0; i < got.size(); ++i) {
                const int peer = static_cast<int>(i % 3), number = static_cast<int>(i / 3);
                must_hold(got[i], message(peer, rank + 3 * number, length(i / 3)), "message " + std::to_string(i));
              }
              must_hold(sum, Numbers(7, with_collective ? 3 : rank), "sum");
            }
          }) == "");
}

TEST_CASE("a long message that its lender writes is followed by a short one") {
  REQUIRE(with_ranks(2, [](int rank, ncclComm_t comm) {
            const int other = 1 - rank;
            for (const bool with_collective : {false, true}) {
              std::vector<Numbers> given, got;
              for (const std::size_t count : {500'000, 9, 70'000, 9}) {
                given.push_back(message(rank, other, count));
                got.emplace_back(count);
              }
              Numbers sum(7, 1);
              expect_success(ncclGroupStart(), "group");
              for (const Numbers& each : given) expect_success(send(each, other, comm), "send");
              for (Numbers& each : got) expect_success(receive(each, other, comm), "receive");
              if (with_collective) {
                expect_success(ncclAllReduce(sum.data(), sum.data(), 7, ncclInt32, ncclSum, comm, nullptr), "sum");
              }
              expect_success(ncclGroupEnd(), "group");
              for (const Numbers& each : got) must_hold(each, message(other, rank, each.size()), "message");
            }
          }) == "");
}

TEST_CASE("collectives of a group precede its messages, on one queue and on two") {
  for (const bool two_queues : {false, true}) {
    REQUIRE(with_ranks(2, [&](int rank, ncclComm_t comm) {
              cudaStream_t queues[2] = {nullptr, nullptr};
              for (cudaStream_t& queue : queues) expect_success(rondoStreamCreate(&queue), "rondoStreamCreate");
              for (const std::size_t count : counts) {
                const int other = 1 - rank;
                const Numbers given = message(rank, other, count);
                Numbers got(count), sum(count, 1);
                const cudaStream_t second = queues[two_queues ? 1 : 0];
                expect_success(ncclGroupStart(), "group");
                // The ranks list the same calls in opposite orders.
                for (int step = 0; step < 3; ++step) {
                  const int what = rank == 0 ? step : 2 - step;
                  if (what == 0) expect_success(send(given, other, comm, queues[0]), "send");
                  if (what == 1) expect_success(receive(got, other, comm, queues[0]), "receive");
                  if (what == 2) {
                    expect_success(ncclAllReduce(sum.data(), sum.data(), count, ncclInt32, ncclSum, comm, second),
                                   "all_reduce");
                  }
                }
                expect_success(ncclGroupEnd(), "group");
                for (const cudaStream_t queue : queues) expect_success(rondoStreamSynchronize(queue), "synchronize");
                must_hold(got, message(other, rank, count), "message");
                must_hold(sum, Numbers(count, 2), "sum");
              }
              for (const cudaStream_t queue : queues) expect_success(rondoStreamDestroy(queue), "rondoStreamDestroy");
            }) == "");
  }
}

TEST_CASE("messages of other lengths, and ranks that are not there, are refused") {
  REQUIRE(with_ranks(2, [](int rank, ncclComm_t comm) {
            Numbers numbers(10);
            expect_result(receive(numbers, 2, comm), ncclInvalidArgument, "receive");
            expect_says(ncclGetLastError(comm), {"ncclRecv", "peer 2 is outside"});
            expect_result(send(numbers, -1, comm), ncclInvalidArgument, "send");
            expect_says(ncclGetLastError(comm), {"ncclSend", "peer -1 is outside"});
            if (rank == 0) expect_success(send(numbers, 1, comm), "send");
            if (rank == 1) {
              numbers.resize(11);
              expect_result(receive(numbers, 0, comm), ncclInvalidUsage, "receive");
              expect_says(ncclGetLastError(comm), {"send_recv of 11 int32 elements", "send_recv of 10 int32 elements"});
            }
          }) == "");
}

}  // namespace
}  // namespace rondo::test
