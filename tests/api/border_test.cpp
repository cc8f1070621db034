// The border over a fake communicator: arguments, handles, inits, operators, errors.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#include <cstring>

#include "api_fixture.h"

extern "C" ncclConfig_t config_from_c(void);

namespace {

using rondo::CollectiveKind;
using rondo::Operator;

TEST_CASE("versions and error strings") {
  int version = 0;
  CHECK(ncclGetVersion(&version) == ncclSuccess);
  CHECK(version == 22809);
  {
    const Setting setting("RONDO_NCCL_VERSION", "23203");
    CHECK(ncclGetVersion(&version) == ncclSuccess);
    CHECK(version == 23203);
  }
  CHECK(ncclGetVersion(nullptr) == ncclInvalidArgument);
  CHECK(last() == "ncclGetVersion: version is NULL; give a place for the number");
  for (int code = -1; code <= 10; ++code) CHECK(std::strlen(ncclGetErrorString(static_cast<ncclResult_t>(code))) > 0);
  CHECK(std::string(rondoGetVersion()).starts_with("Rondo "));
}

TEST_CASE("a blocking call hands on what it was given") {
  Ranks ranks(4, 2);
  float in[8] = {};
  float out[8] = {};
  CHECK(ncclAllReduce(in, out, 8, ncclFloat, ncclMax, ranks[0], nullptr) == ncclSuccess);
  CHECK(ncclReduceScatter(in, out, 2, ncclFloat, ncclAvg, ranks[0], nullptr) == ncclSuccess);
  CHECK(ncclAllGather(in, out, 2, ncclFloat, ranks[0], nullptr) == ncclSuccess);
  CHECK(ncclBroadcast(in, out, 8, ncclFloat, 2, ranks[0], nullptr) == ncclSuccess);
  CHECK(ncclBcast(out, 8, ncclFloat, 3, ranks[0], nullptr) == ncclSuccess);
  const auto ran = fake::world().ran;
  REQUIRE(ran.size() == 5);
  const CollectiveKind kinds[] = {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter,
                                  CollectiveKind::all_gather, CollectiveKind::broadcast, CollectiveKind::broadcast};
  for (std::size_t i = 0; i < ran.size(); ++i) {
    REQUIRE(ran[i].calls.size() == 1);
    CHECK(ran[i].calls[0].call.kind == kinds[i]);
    CHECK(ran[i].calls[0].turn == rondo::CallOrder::entered);
    CHECK(ran[i].thread == std::this_thread::get_id());
    CHECK(ran[i].patience == rondo::Patience::caller);
  }
  const rondo::Call& call = ran[0].calls[0].call;
  CHECK((call.in == in && call.out == out && call.count == 8 && call.op == Operator::max));
  CHECK(call.type == rondo::DataType::float32);
  CHECK(ran[3].calls[0].call.root == 2);
  CHECK(ran[4].calls[0].call.in == out);
}

TEST_CASE("wrong arguments are named, and nothing runs") {
  Ranks ranks(4, 1);
  ncclComm_t comm = ranks[0];
  float in[64] = {};
  float out[64] = {};
  CHECK(ncclAllReduce(in, out, 1, ncclFloat, ncclSum, nullptr, nullptr) == ncclInvalidArgument);
  CHECK(last() == "ncclAllReduce: comm is NULL; give the handle of ncclCommInitRank");
  alignas(64) char nothing[256] = {};
  CHECK(ncclAllReduce(in, out, 1, ncclFloat, ncclSum, reinterpret_cast<ncclComm_t>(nothing), nullptr) ==
        ncclInvalidArgument);
  CHECK(last_contains("not a communicator"));
  CHECK(ncclAllReduce(in, out, 1, static_cast<ncclDataType_t>(12), ncclSum, comm, nullptr) == ncclInvalidArgument);
  CHECK(last_contains("datatype 12"));
  CHECK(ncclAllReduce(in, out, 1, static_cast<ncclDataType_t>(-1), ncclSum, comm, nullptr) == ncclInvalidArgument);
  CHECK(ncclAllReduce(in, out, 1, ncclFloat, static_cast<ncclRedOp_t>(5), comm, nullptr) == ncclInvalidArgument);
  CHECK(last_contains("op 5"));
  CHECK(ncclAllReduce(in, out, 1, ncclFloat, static_cast<ncclRedOp_t>(-1), comm, nullptr) == ncclInvalidArgument);
  CHECK(ncclAllReduce(nullptr, out, 1, ncclFloat, ncclSum, comm, nullptr) == ncclInvalidArgument);
  CHECK(last_contains("sendbuff is NULL"));
  CHECK(ncclAllReduce(in, nullptr, 1, ncclFloat, ncclSum, comm, nullptr) == ncclInvalidArgument);
  CHECK(last_contains("recvbuff is NULL"));
  CHECK(ncclAllReduce(in, out, SIZE_MAX / 4, ncclFloat, ncclSum, comm, nullptr) == ncclInvalidArgument);
  CHECK(last_contains("more than memory can hold"));
  CHECK(ncclBroadcast(in, out, 1, ncclFloat, 4, comm, nullptr) == ncclInvalidArgument);
  CHECK(last_contains("root 4 is outside the communicator of 4 ranks"));
  CHECK(ncclBroadcast(in, out, 1, ncclFloat, -1, comm, nullptr) == ncclInvalidArgument);
  CHECK(ncclAllReduce(in, out, 1, ncclFloat, ncclSum, comm, reinterpret_cast<cudaStream_t>(1)) == ncclInvalidArgument);
  CHECK(last_contains("stream is not a queue"));
  CHECK(fake::world().ran.empty());
}

TEST_CASE("buffers overlap only as the collective allows") {
  Ranks ranks(4, 4);
  float b[64] = {};
  for (int r = 0; r < 4; ++r) {
    ncclComm_t comm = ranks[r];
    CHECK(ncclAllReduce(b, b, 8, ncclFloat, ncclSum, comm, nullptr) == ncclSuccess);
    CHECK(ncclAllReduce(b, b + 8, 8, ncclFloat, ncclSum, comm, nullptr) == ncclSuccess);
    CHECK(ncclAllReduce(b, b + 7, 8, ncclFloat, ncclSum, comm, nullptr) == ncclInvalidArgument);
    CHECK(last_contains("overlap"));
    CHECK(ncclAllReduce(b + 7, b, 8, ncclFloat, ncclSum, comm, nullptr) == ncclInvalidArgument);
    CHECK(ncclAllGather(b + r * 8, b, 8, ncclFloat, comm, nullptr) == ncclSuccess);
    CHECK(ncclAllGather(b + (r + 1) % 4 * 8, b, 8, ncclFloat, comm, nullptr) == ncclInvalidArgument);
    CHECK(ncclAllGather(b + 32, b, 8, ncclFloat, comm, nullptr) == ncclSuccess);
    CHECK(ncclReduceScatter(b, b + r * 8, 8, ncclFloat, ncclSum, comm, nullptr) == ncclSuccess);
    CHECK(ncclReduceScatter(b, b + (r + 1) % 4 * 8, 8, ncclFloat, ncclSum, comm, nullptr) == ncclInvalidArgument);
    CHECK(ncclBroadcast(b, b + 1, 8, ncclFloat, r, comm, nullptr) == ncclInvalidArgument);
    CHECK(ncclBroadcast(b, b + 1, 8, ncclFloat, (r + 1) % 4, comm, nullptr) == ncclSuccess);
    CHECK(ncclBroadcast(nullptr, b, 8, ncclFloat, (r + 1) % 4, comm, nullptr) == ncclSuccess);
    CHECK(ncclBroadcast(nullptr, b, 8, ncclFloat, r, comm, nullptr) == ncclInvalidArgument);
  }
}

TEST_CASE("a count of 0 succeeds without communication, and is still checked") {
  Ranks ranks(2, 1);
  CHECK(ncclAllReduce(nullptr, nullptr, 0, ncclFloat, ncclSum, ranks[0], nullptr) == ncclSuccess);
  CHECK(ncclBcast(nullptr, 0, ncclFloat, 1, ranks[0], nullptr) == ncclSuccess);
  CHECK(ncclBcast(nullptr, 0, ncclFloat, 2, ranks[0], nullptr) == ncclInvalidArgument);
  CHECK(ncclAllReduce(nullptr, nullptr, 0, ncclFloat, static_cast<ncclRedOp_t>(9), ranks[0], nullptr) ==
        ncclInvalidArgument);
  CHECK(fake::world().ran.empty());
}

TEST_CASE("operators of PreMulSum") {
  Ranks ranks(2, 2);
  ncclComm_t comm = ranks[0];
  float half = 0.5F;
  float third = 0.33F;
  ncclRedOp_t op{};
  ncclRedOp_t device{};
  REQUIRE(ncclRedOpCreatePreMulSum(&op, &half, ncclFloat, ncclScalarHostImmediate, comm) == ncclSuccess);
  REQUIRE(ncclRedOpCreatePreMulSum(&device, &third, ncclFloat, ncclScalarDevice, comm) == ncclSuccess);
  CHECK(op >= ncclNumOps);
  CHECK(op != device);
  half = 7;
  third = 0.25F;  // read when the call runs
  float b[2] = {};
  CHECK(ncclAllReduce(b, b, 2, ncclFloat, op, comm, nullptr) == ncclSuccess);
  CHECK(ncclAllReduce(b, b, 2, ncclFloat, device, comm, nullptr) == ncclSuccess);
  CHECK(ncclAllReduce(b, b, 1, ncclDouble, op, comm, nullptr) == ncclInvalidArgument);
  CHECK(last_contains("was created for datatype 7"));
  CHECK(ncclAllReduce(b, b, 2, ncclFloat, op, ranks[1], nullptr) == ncclInvalidArgument);
  CHECK(ncclRedOpDestroy(op, comm) == ncclSuccess);
  CHECK(ncclRedOpDestroy(op, comm) == ncclInvalidArgument);
  CHECK(ncclRedOpDestroy(ncclSum, comm) == ncclInvalidArgument);
  CHECK(ncclAllReduce(b, b, 2, ncclFloat, op, comm, nullptr) == ncclInvalidArgument);
  CHECK(ncclRedOpCreatePreMulSum(&op, nullptr, ncclFloat, ncclScalarDevice, comm) == ncclInvalidArgument);
  const auto scalar = [](std::size_t i) {
    float value = 0;
    std::memcpy(&value, &fake::world().ran.at(i).calls[0].call.scalar, sizeof(value));
    return value;
  };
  CHECK(scalar(0) == 0.5F);
  CHECK(scalar(1) == 0.25F);
  CHECK(fake::world().ran[0].calls[0].call.op == Operator::premul_sum);
}

TEST_CASE("queries") {
  Ranks ranks(3, 3);
  int value = -1;
  CHECK((ncclCommCount(ranks[2], &value) == ncclSuccess && value == 3));
  CHECK((ncclCommUserRank(ranks[2], &value) == ncclSuccess && value == 2));
  CHECK((ncclCommCuDevice(ranks[2], &value) == ncclSuccess && value == 0));
  CHECK(ncclCommCount(ranks[0], nullptr) == ncclInvalidArgument);
  CHECK(ncclCommCount(nullptr, &value) == ncclInvalidArgument);
  const ncclTeam_t team = ncclTeamWorld(ranks[1]);
  CHECK((team.nRanks == 3 && team.rank == 1 && team.stride == 1));
  CHECK(ncclTeamRankToWorld(ranks[1], ncclTeamLsa(ranks[1]), 0) == 1);
}

TEST_CASE("worlds that cannot be, and inits that fail, leave NULL") {
  fake::world().reset();
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRank(&comm, 2, id, 2) == ncclInvalidArgument);
  CHECK(last() == "ncclCommInitRank: rank 2 is outside the communicator: 0 to 1");
  CHECK(ncclCommInitRank(&comm, 0, id, 0) == ncclInvalidArgument);
  CHECK(ncclCommInitRank(nullptr, 1, id, 0) == ncclInvalidArgument);
  CHECK(ncclGetUniqueId(nullptr) == ncclInvalidArgument);
  comm = reinterpret_cast<ncclComm_t>(&id);
  const ncclUniqueId zero = {};
  CHECK(ncclCommInitRank(&comm, 1, zero, 0) == ncclInvalidArgument);
  CHECK(last() == "ncclCommInitRank: not an id");
  CHECK(comm == nullptr);
  fake::world().join = [](int, int) { throw rondo::Error(rondo::Code::timeout, "rank 1 is missing"); };
  CHECK(ncclCommInitRank(&comm, 2, id, 0) == ncclTimeout);
  CHECK(last() == "ncclCommInitRank: rank 1 is missing");
  CHECK(comm == nullptr);
  fake::world().reset();
  CHECK(fake::world().alive == 0);
}

TEST_CASE("configurations are read by size, magic and version") {
  fake::world().reset();
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  const auto init = [&](ncclConfig_t* config) {
    ncclComm_t comm = nullptr;
    const ncclResult_t result = ncclCommInitRankConfig(&comm, 1, id, 0, config);
    if (comm != nullptr) CHECK(ncclCommDestroy(comm) == ncclSuccess);
    return result;
  };
  ncclConfig_t config = config_from_c();
  CHECK(init(&config) == ncclSuccess);
  CHECK(init(nullptr) == ncclSuccess);
  config.magic = 1;
  CHECK(init(&config) == ncclInvalidArgument);
  CHECK(last_contains("NCCL_CONFIG_INITIALIZER"));
  config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 2;
  CHECK(init(&config) == ncclInvalidArgument);
  CHECK(last_contains("config->blocking is 2, and may be 0 to 1"));
  config = NCCL_CONFIG_INITIALIZER;
  config.minCTAs = 9;
  config.maxCTAs = 8;
  CHECK(init(&config) == ncclInvalidArgument);
  config.size = 24;  // a caller of 2.14 knows nothing beyond blocking
  config.version = NCCL_VERSION(2, 14, 3);
  CHECK(init(&config) == ncclSuccess);
  config.size = 8;
  CHECK(init(&config) == ncclInvalidArgument);
  config = NCCL_CONFIG_INITIALIZER;
  config.CTAPolicy = 77;
  config.version = NCCL_VERSION(2, 26, 2);  // did not know CTAPolicy: whatever is there is not meant
  CHECK(init(&config) == ncclSuccess);
}

TEST_CASE("a nonblocking init is in progress until all have joined") {
  fake::world().reset();
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  Gate gate;
  Gate second;
  fake::world().join = [&](int, int) { gate.wait(); };
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  REQUIRE(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclInProgress);
  REQUIRE(comm != nullptr);
  ncclResult_t state = ncclSuccess;
  CHECK(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
  CHECK(state == ncclInProgress);
  float b = 0;
  CHECK(ncclAllReduce(&b, &b, 1, ncclFloat, ncclSum, comm, nullptr) == ncclInvalidUsage);
  CHECK(last_contains("still starting"));
  gate.open();
  while (state == ncclInProgress) ncclCommGetAsyncError(comm, &state);
  CHECK(state == ncclSuccess);
  CHECK(ncclAllReduce(&b, &b, 1, ncclFloat, ncclSum, comm, nullptr) == ncclSuccess);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);

  SECTION("and tells a failure by GetAsyncError") {
    fake::world().join = [](int, int) { throw rondo::Error(rondo::Code::timeout, "rank 1 is missing"); };
    REQUIRE(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInProgress);
    for (state = ncclInProgress; state == ncclInProgress;) ncclCommGetAsyncError(comm, &state);
    CHECK(state == ncclTimeout);
    CHECK(std::string(ncclGetLastError(comm)) == "ncclCommInitRankConfig: rank 1 is missing");
    CHECK(ncclCommAbort(comm) == ncclSuccess);
  }
  SECTION("and can be aborted meanwhile") {
    fake::world().join = [&](int, int) { second.wait(); };
    REQUIRE(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInProgress);
    CHECK(ncclCommAbort(comm) == ncclSuccess);
    second.open();
    const auto created = [] {
      const std::lock_guard lock(fake::world().mutex);
      return fake::world().created.size();
    };
    while (created() < 2) std::this_thread::yield();
  }
  while (fake::world().alive != 0) std::this_thread::yield();
  fake::world().reset();
}

TEST_CASE("NCCL_COMM_ID makes the id, and rank 0 serves it") {
  const Setting setting("NCCL_COMM_ID", "127.0.0.1:2345");
  ncclUniqueId one;
  ncclUniqueId other;
  REQUIRE(ncclGetUniqueId(&one) == ncclSuccess);
  REQUIRE(ncclGetUniqueId(&other) == ncclSuccess);
  CHECK(std::memcmp(&one, &other, sizeof(one)) == 0);
  for (const char* wrong : {"127.0.0.1", ":80", "host:", "host:99999", "host:-1", "host:1x"}) {
    const Setting bad("NCCL_COMM_ID", wrong);
    CHECK(ncclGetUniqueId(&one) == ncclInvalidArgument);
    CHECK(last_contains(wrong));
  }
}

TEST_CASE("a failed call gives its code and the communicator's sentence") {
  Ranks ranks(2, 1);
  fake::world().outcome = [](const rondo::PendingCall& call) {
    static_cast<fake::Fake*>(call.communicator)->fail(rondo::Code::remote_error);
    return rondo::Status{rondo::Code::remote_error, 1};
  };
  float b = 0;
  CHECK(ncclAllReduce(&b, &b, 1, ncclFloat, ncclSum, ranks[0], nullptr) == ncclRemoteError);
  CHECK(last() == "ncclAllReduce: the fake failed");
  ncclResult_t state = ncclSuccess;
  CHECK(ncclCommGetAsyncError(ranks[0], &state) == ncclSuccess);
  CHECK(state == ncclRemoteError);
  CHECK(std::string(ncclGetLastError(ranks[0])) == "the fake failed");
}

TEST_CASE("the end of a communicator") {
  ncclComm_t comm = Ranks::one();
  float b = 0;
  CHECK(ncclCommFinalize(comm) == ncclSuccess);
  CHECK(ncclAllReduce(&b, &b, 1, ncclFloat, ncclSum, comm, nullptr) == ncclInvalidUsage);
  CHECK(last_contains("finalized"));
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
  for (auto* end : {ncclCommDestroy, ncclCommAbort, ncclCommFinalize}) CHECK(end(nullptr) == ncclSuccess);
  CHECK(fake::world().alive == 0);
}

TEST_CASE("abort from another thread ends a call, and frees") {
  ncclComm_t comm = Ranks::one();
  Gate inside;
  fake::world().outcome = [&](const rondo::PendingCall& call) {
    inside.open();
    while (call.communicator->status().ok()) std::this_thread::yield();
    return call.communicator->status();
  };
  ncclResult_t result = ncclSuccess;  // Catch's assertions are not for several threads
  std::thread caller([&] {
    float b = 0;
    result = ncclAllReduce(&b, &b, 1, ncclFloat, ncclSum, comm, nullptr);
  });
  inside.wait();
  const ncclResult_t aborted = ncclCommAbort(comm);
  caller.join();
  CHECK(aborted == ncclSuccess);
  CHECK(result == ncclInvalidUsage);
  CHECK(last() == "ncclAllReduce: the fake failed");
  CHECK(fake::world().alive == 0);
  fake::world().reset();
}

TEST_CASE("a forked child may not end its parent's communicators") {
  Ranks ranks(2, 1);
  fake::world().forked = true;
  for (auto* end : {ncclCommDestroy, ncclCommAbort, ncclCommFinalize}) CHECK(end(ranks[0]) == ncclInvalidUsage);
  CHECK(last() == "ncclCommFinalize: forked");
  fake::world().forked = false;
  float b = 0;
  CHECK(ncclAllReduce(&b, &b, 1, ncclFloat, ncclSum, ranks[0], nullptr) == ncclSuccess);
}

TEST_CASE("a job's environment must be whole") {
  ncclComm_t comm = nullptr;
  CHECK(rondoCommInitFromEnv(&comm) == ncclInvalidUsage);
  CHECK(last_contains("no launcher has started this process"));
  const Setting rank("RANK", "1");
  CHECK(rondoCommInitFromEnv(&comm) == ncclInvalidUsage);
  CHECK(last_contains("WORLD_SIZE is not set, but RANK is"));
  const Setting one("WORLD_SIZE", "1");
  CHECK(rondoCommInitFromEnv(&comm) == ncclInvalidArgument);
  CHECK(last_contains("RANK=1 is outside WORLD_SIZE=1"));
  const Setting world("WORLD_SIZE", "2");
  CHECK(rondoCommInitFromEnv(&comm) == ncclInvalidUsage);
  CHECK(last_contains("MASTER_ADDR is not set"));
  const Setting name("RONDO_JOB_NAME", "n");
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(rondoCommInitFromEnv(&comm) == ncclInvalidUsage);
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(rondoCommInitFromEnv(nullptr) == ncclInvalidArgument);
  REQUIRE(rondoCommInitFromEnv(&comm) == ncclSuccess);
  int value = 0;
  CHECK((ncclCommUserRank(comm, &value) == ncclSuccess && value == 1));
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("calls that are not built say so") {
  CHECK(ncclCommRevoke(nullptr, 0) == ncclInvalidUsage);
  CHECK(last_contains("ncclCommRevoke: this call is not built yet"));
  CHECK(ncclDevCommCreate(nullptr, nullptr, nullptr) == ncclInvalidUsage);
  Ranks ranks(1, 1);
  float b = 0;
  CHECK(ncclAllReduceConfig(&b, &b, 1, ncclFloat, ncclSum, ranks[0], nullptr, nullptr) == ncclSuccess);
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  CHECK(ncclAllReduceConfig(&b, &b, 1, ncclFloat, ncclSum, ranks[0], nullptr, &config) == ncclInvalidUsage);
}

TEST_CASE("a registered buffer is given back once, to its communicator") {
  Ranks ranks(2, 2);
  float plain[4] = {};
  void* mapped = nullptr;
  REQUIRE(ncclMemAlloc(&mapped, 64) == ncclSuccess);
  void* handles[3] = {};
  CHECK(ncclCommRegister(ranks[0], plain, sizeof plain, &handles[0]) == ncclSuccess);
  CHECK(ncclCommRegister(ranks[0], plain, sizeof plain, &handles[1]) == ncclSuccess);
  CHECK(ncclCommRegister(ranks[0], mapped, 64, &handles[2]) == ncclSuccess);
  for (void* handle : handles) CHECK(handle != nullptr);
  CHECK(handles[0] != handles[1]);
  CHECK(ncclCommDeregister(ranks[1], handles[0]) == ncclInvalidArgument);
  for (void* handle : {handles[0], handles[2]}) CHECK(ncclCommDeregister(ranks[0], handle) == ncclSuccess);
  CHECK(ncclCommDeregister(ranks[0], handles[0]) == ncclInvalidArgument);
  CHECK(last_contains("given back before"));
  CHECK(ncclMemFree(mapped) == ncclSuccess);
  void* none = plain;
  CHECK(ncclCommRegister(ranks[0], nullptr, 4, &none) == ncclInvalidArgument);
  CHECK(none == nullptr);
  CHECK(ncclCommRegister(ranks[0], plain, 0, &none) == ncclInvalidArgument);
  CHECK(ncclCommRegister(ranks[0], plain, SIZE_MAX, &none) == ncclInvalidArgument);
  CHECK(ncclCommRegister(ranks[0], plain, 4, nullptr) == ncclInvalidArgument);
  CHECK(ncclCommRegister(nullptr, plain, 4, &none) == ncclInvalidArgument);
  CHECK(ncclCommDeregister(ranks[0], nullptr) == ncclInvalidArgument);
}

TEST_CASE("a window is of memory that peers can map, of other memory there is none") {
  Ranks ranks(2, 2);
  float plain[4] = {};
  void* mapped = nullptr;
  REQUIRE(ncclMemAlloc(&mapped, 64) == ncclSuccess);
  ncclWindow_t windows[2] = {};
  for (ncclWindow_t& window : windows) {
    CHECK(ncclCommWindowRegister(ranks[0], mapped, 64, &window, NCCL_WIN_COLL_SYMMETRIC) == ncclSuccess);
    REQUIRE(window != nullptr);
  }
  CHECK(windows[0] != windows[1]);
  void* memory = nullptr;
  CHECK(ncclWinGetUserPtr(ranks[0], windows[1], &memory) == ncclSuccess);
  CHECK(memory == mapped);
  CHECK(ncclWinGetUserPtr(ranks[1], windows[1], &memory) == ncclInvalidArgument);
  CHECK(memory == nullptr);
  CHECK(ncclCommWindowDeregister(ranks[1], windows[0]) == ncclInvalidArgument);
  CHECK(ncclCommWindowDeregister(ranks[0], windows[0]) == ncclSuccess);
  CHECK(ncclCommWindowDeregister(ranks[0], windows[0]) == ncclInvalidArgument);
  CHECK(last_contains("given back before"));
  CHECK(ncclCommWindowDeregister(ranks[0], nullptr) == ncclSuccess);
  for (const std::size_t bytes : {std::size_t{16}, std::size_t{65}}) {
    ncclWindow_t none = windows[1];
    CHECK(ncclCommWindowRegister(ranks[0], bytes > 64 ? mapped : plain, bytes, &none, NCCL_WIN_DEFAULT) == ncclSuccess);
    CHECK(none == nullptr);
  }
  ncclWindow_t none = windows[1];
  CHECK(ncclCommWindowRegister(ranks[0], nullptr, 4, &none, 0) == ncclInvalidArgument);
  CHECK(none == nullptr);
  CHECK(ncclCommWindowRegister(ranks[0], mapped, 0, &none, 0) == ncclInvalidArgument);
  CHECK(ncclCommWindowRegister(ranks[0], mapped, SIZE_MAX, &none, 0) == ncclInvalidArgument);
  CHECK(ncclCommWindowRegister(ranks[0], mapped, 64, nullptr, 0) == ncclInvalidArgument);
  CHECK(ncclCommWindowRegister(nullptr, mapped, 64, &none, 0) == ncclInvalidArgument);
  CHECK(ncclCommWindowRegister(ranks[0], mapped, 64, &none, 4) == ncclInvalidArgument);
  CHECK(ncclMemFree(mapped) == ncclSuccess);
}

}  // namespace
