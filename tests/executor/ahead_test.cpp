// Calls of a queue that run at once, on a communicator of one rank: they begin when they have their turn.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#include <span>
#include <vector>

#include "api/handle.h"
#include "communicator.h"
#include "nccl.h"

using namespace rondo;

namespace {

struct Told final : Progress {
  void done(std::size_t calls) noexcept override { told = calls; }
  std::size_t told = 0;
};

/// A float that is copied: of one rank, a sum is that.
Call call_of(const float& from, float& to) {
  Call call;
  call.in = &from;
  call.out = &to;
  call.count = 1;
  return call;
}

}  // namespace

TEST_CASE("What is to run ahead does not overtake a call whose turn it is") {
  ncclUniqueId id = {};
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comm = nullptr;
  REQUIRE(ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess);
  Communicator& communicator = *comm->communicator;
  const std::vector<float> in{1, 2, 3};
  std::vector<float> out(3);
  // A call like them has run before.
  REQUIRE(ncclAllReduce(&in[0], &out[0], 1, ncclFloat32, ncclSum, comm, nullptr) == ncclSuccess);
  out.assign(3, 0);

  std::vector<PendingCall> calls;
  for (std::size_t i = 0; i < 3; ++i) {
    calls.push_back({&communicator, call_of(in[i], out[i]), communicator.order().take_turns(1)});
  }
  const auto two = std::span(calls).last(2);
  Told told;
  Status status;
  CHECK_FALSE(run_ahead(two, Patience::caller, told, status));
  CHECK(out == std::vector<float>{0, 0, 0});
  CHECK(run_calls(std::span(calls).first(1), Patience::caller).ok());
  CHECK(run_ahead(two, Patience::caller, told, status));
  CHECK(status.ok());
  CHECK(told.told == 2);
  CHECK(out == in);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
}
