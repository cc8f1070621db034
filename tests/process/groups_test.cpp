// All-reduces in groups, whose small ones travel as one: the bits that each call gives alone, nothing written outside
// the buffers, inputs kept; and ranks whose groups differ are told so.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "buffer.h"
#include "pattern.h"
#include "ranks.h"

namespace rondo::test {
namespace {

constexpr ncclDataType_t rounding[] = {ncclFloat16, ncclFloat32, ncclFloat64, ncclBfloat16, ncclFloat8e4m3, ncclInt32};
constexpr std::size_t counts[] = {1, 2, 7, 40, 333, 1024, 20'000};

/// One all-reduce of a group; the same on every rank, but for the memory.
struct Member {
  ncclDataType_t type = ncclFloat32;
  int op = 0;  // of three built-in ones, or the communicator's own
  std::size_t count = 0;
  int comm = 0;
  bool in_place = false;
  unsigned seed = 0;
};

std::vector<Member> draw_group(std::mt19937& random) {
  const auto pick = [&](std::size_t below) { return random() % below; };
  std::vector<Member> group(1 + pick(24));
  Member member;
  for (Member& next : group) {
    if (pick(4) == 0) member.type = rounding[pick(std::size(rounding))];  // mostly as the one before
    if (pick(4) == 0) member.op = static_cast<int>(pick(4));
    if (pick(3) == 0) member.comm = static_cast<int>(pick(2));
    member.count = counts[pick(pick(8) == 0 ? 7 : 5)];
    member.in_place = pick(2) != 0;
    member.seed = static_cast<unsigned>(random());
    next = member;
  }
  return group;
}

/// Random numbers near 1, of which every sum rounds.
void fill(const Member& member, int rank, std::byte* data) {
  std::mt19937_64 random(member.seed + static_cast<unsigned>(rank));
  const std::size_t element = bytes_of(member.type);
  const std::uint64_t one = encode(member.type, 1.0);
  const std::uint64_t mantissa = encode(member.type, 2.0) - one;
  for (std::size_t i = 0; i < member.count; ++i) {
    const std::uint64_t bits = one + random() % mantissa;
    std::memcpy(data + i * element, &bits, element);
  }
}

/// Two communicators of one rank, and operators of their own for each type.
struct Party {
  int rank;
  ncclComm_t comms[2];
  ncclRedOp_t own[2][std::size(rounding)];

  Party(Meeting& meeting, int rank, int ranks) : rank(rank) {
    for (int c = 0; c < 2; ++c) {
      comms[c] = meeting.join(c, rank, ranks);
      for (std::size_t t = 0; t < std::size(rounding); ++t) {
        std::uint64_t scalar = encode(rounding[t], 1 + rank % 2);
        expect_success(ncclRedOpCreatePreMulSum(&own[c][t], &scalar, rounding[t], ncclScalarHostImmediate, comms[c]),
                       "ncclRedOpCreatePreMulSum");
      }
    }
  }
  ~Party() {
    for (const ncclComm_t comm : comms) ncclCommDestroy(comm);
  }
  Party(const Party&) = delete;
  Party& operator=(const Party&) = delete;

  void reduce(const Member& member, const void* in, void* out, cudaStream_t queue) const {
    static constexpr ncclRedOp_t built_in[] = {ncclSum, ncclAvg, ncclProd};
    const auto type = std::find(std::begin(rounding), std::end(rounding), member.type) - std::begin(rounding);
    const ncclRedOp_t op = member.op < 3 ? built_in[member.op] : own[member.comm][type];
    expect_success(ncclAllReduce(in, out, member.count, member.type, op, comms[member.comm], queue), "ncclAllReduce");
  }
};

/// Runs a group, and each of its calls alone, and compares.
void compare(const Party& party, const std::vector<Member>& group, cudaStream_t queue, unsigned memory) {
  struct Place {
    std::unique_ptr<Buffer> in, out;
    std::vector<std::byte> given, wanted;
  };
  std::vector<Place> places;
  for (const Member& member : group) {
    const std::size_t bytes = member.count * bytes_of(member.type);
    Place place{std::make_unique<Buffer>(bytes, memory % 3 == 1), nullptr, {}, {}};
    if (!member.in_place) place.out = std::make_unique<Buffer>(bytes, memory % 2 == 1);
    fill(member, party.rank, place.in->data());
    place.given.assign(place.in->data(), place.in->data() + bytes);
    place.wanted.resize(bytes);
    party.reduce(member, place.given.data(), place.wanted.data(), nullptr);
    places.push_back(std::move(place));
  }
  expect_success(ncclGroupStart(), "ncclGroupStart");
  for (std::size_t i = 0; i < group.size(); ++i) {
    const Place& place = places[i];
    party.reduce(group[i], place.in->data(), group[i].in_place ? place.in->data() : place.out->data(), queue);
  }
  expect_success(ncclGroupEnd(), "ncclGroupEnd");
  if (queue != nullptr) expect_success(rondoStreamSynchronize(queue), "rondoStreamSynchronize");
  for (std::size_t i = 0; i < group.size(); ++i) {
    const Place& place = places[i];
    const Buffer& out = group[i].in_place ? *place.in : *place.out;
    const std::string which = "call " + std::to_string(i) + " of " + std::to_string(group.size());
    if (std::memcmp(out.data(), place.wanted.data(), place.wanted.size()) != 0) {
      throw std::runtime_error(which + " of a group gave other bits than alone");
    }
    if (!place.in->untouched_outside() || !out.untouched_outside()) throw std::runtime_error(which + " wrote outside");
    if (!group[i].in_place && std::memcmp(place.in->data(), place.given.data(), place.given.size()) != 0) {
      throw std::runtime_error(which + " changed its input");
    }
  }
}

TEST_CASE("all-reduces of a group give the bits that each gives alone") {
  for (const Ranks how : {Ranks::processes, Ranks::threads}) {
    for (int ranks = 1; ranks <= 5; ++ranks) {
      const Shared<Meeting> meeting;
      const std::string trouble = run_ranks(how, ranks, [&](int rank) {
        const Party party(*meeting, rank, ranks);
        cudaStream_t queue = nullptr;
        expect_success(rondoStreamCreate(&queue), "rondoStreamCreate");
        std::mt19937 random(static_cast<unsigned>(ranks));
        for (int round = 0; round < environment_number("GROUPS_ROUNDS", 12); ++round) {
          const std::vector<Member> group = draw_group(random);
          compare(party, group, round % 3 == 2 ? queue : nullptr, static_cast<unsigned>(rank + round));
        }
        expect_success(rondoStreamDestroy(queue), "rondoStreamDestroy");
      });
      INFO(ranks << " ranks");
      REQUIRE(trouble == "");
    }
  }
}

/// Makes all-reduces of so many floats, all in one group or each alone; what the first failure said.
Said make(ncclComm_t comm, const std::vector<std::size_t>& group, bool alone) {
  std::vector<std::vector<float>> data;
  for (const std::size_t count : group) data.emplace_back(count, 1.0f);
  return timed(comm, [&] {
    if (!alone) expect_success(ncclGroupStart(), "ncclGroupStart");
    ncclResult_t result = ncclSuccess;
    for (std::vector<float>& one : data) {
      const ncclResult_t next = ncclAllReduce(one.data(), one.data(), one.size(), ncclFloat32, ncclSum, comm, nullptr);
      if (result == ncclSuccess) result = next;
    }
    return alone ? result : ncclGroupEnd();
  });
}

/// Ranks 0 and 1 of three make these calls; every rank must hear what both made.
void expect_mismatch(const std::vector<std::size_t>& first, const std::vector<std::size_t>& others, bool alone,
                     std::initializer_list<std::string> parts) {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 3, [&](int rank) {
    const ncclComm_t comm = meeting->join(0, rank, 3);
    expect_success(make(comm, {3, 4}, false).result, "a sound group");
    const Said said = make(comm, rank == 0 ? first : others, rank == 0 && alone);
    if (said.result != ncclInvalidUsage && said.result != ncclRemoteError) {
      throw std::runtime_error("code " + std::to_string(said.result) + ": " + said.sentence);
    }
    expect_says(said.sentence, {"rank 0", "calls do not match", "all ranks must make the same groups"});
    for (const std::string& part : parts) expect_says(said.sentence, {part});
    ncclCommDestroy(comm);
  });
  REQUIRE(trouble == "");
}

TEST_CASE("groups of small all-reduces that differ are an error on every rank, which names both") {
  const std::string three = "calls from 2 on: 3 all_reduces in a group, of 12 float32 elements in all (sum";
  expect_mismatch({5, 4, 3}, {5, 4}, false, {three, "2 all_reduces in a group, of 9 float32"});
  expect_mismatch({5, 4, 3}, {3, 4, 5}, false, {three, "digest of counts"});  // as many elements, cut otherwise
  expect_mismatch({5, 4, 3}, {5, 4, 3}, true, {three, "call 2: all_reduce of 5 float32 elements (sum)"});
}

TEST_CASE("calls of a group wait for calls of their own communicator alone") {
  const Shared<Meeting> meeting;
  REQUIRE(run_ranks(Ranks::processes, 2, [&](int rank) {
            const Party party(*meeting, rank, 2);
            std::vector<std::vector<float>> data(8, std::vector<float>(5000, 1.0f));  // too large to travel as one
            const auto reduce = [&](std::size_t i) {
              const ncclComm_t comm = party.comms[i % 4 == 3 ? 1 : 0];
              expect_success(ncclAllReduce(data[i].data(), data[i].data(), 5000, ncclFloat32, ncclSum, comm, nullptr),
                             "ncclAllReduce");
            };
            for (int round = 0; round < 3; ++round) {
              if (rank == 0) {
                expect_success(ncclGroupStart(), "ncclGroupStart");
                for (std::size_t i = 0; i < 8; ++i) reduce(i);
                expect_success(ncclGroupEnd(), "ncclGroupEnd");
              } else {
                for (const std::size_t i : {3, 7, 0, 1, 2, 4, 5, 6}) reduce(i);  // the other one's first, each awaited
              }
            }
            for (const std::vector<float>& one : data) {
              if (one != std::vector<float>(5000, 8.0f)) throw std::runtime_error("a call of the group was left out");
            }
          }) == "");
}

TEST_CASE("a few calls on two communicators run at once, and the failure of one is its own") {
  const Shared<Meeting> meeting;
  REQUIRE(run_ranks(Ranks::processes, 2, [&](int rank) {
            const Party party(*meeting, rank, 2);
            float sum[2] = {1, 1}, sent = 7, got = 0;
            const auto call_both = [&](std::size_t second_count, bool exchange) {
              expect_success(ncclGroupStart(), "ncclGroupStart");
              for (const int c : {0, 1}) {
                const std::size_t count = c == 0 ? 1 : second_count;
                expect_success(ncclAllReduce(&sum[c], &sum[c], count, ncclFloat32, ncclSum, party.comms[c], nullptr),
                               "ncclAllReduce");
              }
              if (exchange) {  // behind the first communicator's all-reduce, on the same links
                expect_success(ncclSend(&sent, 1, ncclFloat32, 1 - rank, party.comms[0], nullptr), "ncclSend");
                expect_success(ncclRecv(&got, 1, ncclFloat32, 1 - rank, party.comms[0], nullptr), "ncclRecv");
              }
              return ncclGroupEnd();
            };
            for (int round = 0; round < 10; ++round) {
              expect_success(call_both(1, round % 2 == 1), "a group");
              if (sum[0] != 2 || sum[1] != 2) throw std::runtime_error("a group gave another sum");
              sum[0] = sum[1] = 1;
            }
            if (got != 7) throw std::runtime_error("nothing came");
            float two[2] = {1, 1};
            const ncclResult_t other_type = [&] {
              expect_success(ncclGroupStart(), "ncclGroupStart");
              expect_success(ncclAllReduce(&sum[0], &sum[0], 1, ncclFloat32, ncclSum, party.comms[0], nullptr), "one");
              expect_success(
                  ncclAllReduce(two, two, 1, rank == 0 ? ncclFloat32 : ncclInt32, ncclSum, party.comms[1], nullptr),
                  "other");
              return ncclGroupEnd();
            }();
            if (other_type == ncclSuccess) throw std::runtime_error("calls that do not match went well");
            expect_success(ncclAllReduce(&sum[0], &sum[0], 1, ncclFloat32, ncclSum, party.comms[0], nullptr), "again");
            if (sum[0] != 4) throw std::runtime_error("the sound call of the group gave " + std::to_string(sum[0]));
          }) == "");
}

TEST_CASE("queued calls that run at once wait for those of another thread, and those for them") {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, 2, [&](int rank) {
    const ncclComm_t comm = meeting->join(0, rank, 2);
    cudaStream_t queue = nullptr;
    expect_success(rondoStreamCreate(&queue), "rondoStreamCreate");
    constexpr std::size_t calls = 300;
    const float one = 1;
    std::vector<float> queued(calls), called(calls);
    const auto call = [&](float& sum, cudaStream_t stream) {
      expect_success(ncclAllReduce(&one, &sum, 1, ncclFloat32, ncclSum, comm, stream), "ncclAllReduce");
    };
    std::string said;
    std::atomic<std::size_t> made{0};
    std::thread other([&] {
      try {
        for (float& sum : called) call(sum, nullptr), made = &sum - called.data() + 1;
      } catch (const std::exception& error) {
        said = error.what();
        made = calls;
      }
    });
    for (std::size_t i = 0; i < calls; ++i) {
      while (i % 6 == 0 && made < i) std::this_thread::yield();  // so that the others are between and under way
      call(queued[i], queue);
    }
    other.join();
    expect_success(rondoStreamDestroy(queue), "rondoStreamDestroy");
    if (!said.empty()) throw std::runtime_error(said);
    if (queued != std::vector<float>(calls, 2) || called != queued) throw std::runtime_error("another sum");
    ncclCommDestroy(comm);
  });
  REQUIRE(trouble == "");
}

TEST_CASE("queued all-reduces keep their order on each part of memory, however ranks wait for them") {
  for (int ranks = 2; ranks <= 3; ++ranks) {
    const Shared<Meeting> meeting;
    const std::string trouble = run_ranks(Ranks::processes, ranks, [&](int rank) {
      const ncclComm_t comm = meeting->join(0, rank, ranks);
      cudaStream_t queue = nullptr;
      expect_success(rondoStreamCreate(&queue), "rondoStreamCreate");
      std::mt19937 random(7), pauses(static_cast<unsigned>(rank));
      std::vector<std::uint64_t> data(64 * 8, 1), wanted(64 * 8, 1);
      std::size_t count = 1;
      for (int call = 0; call < 3000; ++call) {
        if (random() % 16 == 0) count = random() % 3 == 0 ? 8 : 1 + random() % 4;
        const std::size_t at = random() % 64 * 8;
        for (std::size_t i = at; i < at + count; ++i) wanted[i] *= static_cast<std::uint64_t>(ranks);
        expect_success(ncclAllReduce(&data[at], &data[at], count, ncclUint64, ncclSum, comm, queue), "ncclAllReduce");
        if (pauses() % 64 == 0) expect_success(rondoStreamSynchronize(queue), "rondoStreamSynchronize");
      }
      expect_success(rondoStreamDestroy(queue), "rondoStreamDestroy");
      if (data != wanted) throw std::runtime_error("a queued all-reduce gave another sum");
      ncclCommDestroy(comm);
    });
    REQUIRE(trouble == "");
  }
}

TEST_CASE("with RONDO_GROUP_BYTES=0 ranks may group differently") {
  const Setting setting("RONDO_GROUP_BYTES", "0");
  const Shared<Meeting> meeting;
  REQUIRE(run_ranks(Ranks::processes, 3, [&](int rank) {
            const ncclComm_t comm = meeting->join(0, rank, 3);
            for (int round = 0; round < 3; ++round) {
              expect_success(make(comm, {5, 4, 3}, rank == round).result, "calls in a group beside calls alone");
            }
            ncclCommDestroy(comm);
          }) == "");
}

TEST_CASE("an abort ends a group of small all-reduces, and what it would have written stays") {
  const Shared<Meeting> meeting;
  REQUIRE(run_ranks(Ranks::processes, 2, [&](int rank) {
            const ncclComm_t comm = meeting->join(0, rank, 2);
            expect_success(make(comm, {3, 4}, false).result, "a sound group");
            if (rank == 1) {
              std::this_thread::sleep_for(std::chrono::milliseconds(20));
              expect_success(ncclCommAbort(comm), "ncclCommAbort");
              return;
            }
            float in[2] = {1, 2}, out[2] = {7, 7};
            expect_success(ncclGroupStart(), "ncclGroupStart");
            for (int i = 0; i < 2; ++i) {
              expect_success(ncclAllReduce(&in[i], &out[i], 1, ncclFloat32, ncclSum, comm, nullptr), "ncclAllReduce");
            }
            expect_result(ncclGroupEnd(), ncclRemoteError, "ncclGroupEnd");
            if (out[0] != 7 || out[1] != 7) throw std::runtime_error("a failed group wrote to its buffers");
            ncclCommAbort(comm);
          }) == "");
}

}  // namespace
}  // namespace rondo::test
