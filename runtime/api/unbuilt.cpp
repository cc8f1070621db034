// NCCL's calls that are not built yet: each says so.  A program that links or loads them all runs until it needs one.
#include "api/errors.h"
#include "nccl.h"

namespace rondo::api {
namespace {

ncclResult_t not_built(const char* call) noexcept {
  return guarded(call, []() -> ncclResult_t {
    throw Error(Code::invalid_usage, "this call is not built yet; the README lists those that are");
  });
}

/// A collective with a configuration, which only the forms without one can do so far.
template <typename Plain>
ncclResult_t without_config(const char* call, const ncclCollConfig_t* config, Plain&& plain) noexcept {
  if (config == nullptr) return plain();
  return guarded(call, []() -> ncclResult_t {
    throw Error(Code::invalid_usage, "a configuration of one call is not built yet; give NULL");
  });
}

}  // namespace
}  // namespace rondo::api

using rondo::api::not_built;
using rondo::api::without_config;

extern "C" {

ncclResult_t pncclCommSplit(ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*) { return not_built("ncclCommSplit"); }
ncclResult_t pncclCommShrink(ncclComm_t, int*, int, ncclComm_t*, ncclConfig_t*, int) {
  return not_built("ncclCommShrink");
}
ncclResult_t pncclCommRevoke(ncclComm_t, int) { return not_built("ncclCommRevoke"); }
ncclResult_t pncclCommGetUniqueId(ncclComm_t, ncclUniqueId*) { return not_built("ncclCommGetUniqueId"); }
ncclResult_t pncclCommGrow(ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*, ncclConfig_t*) {
  return not_built("ncclCommGrow");
}
ncclResult_t pncclCommSuspend(ncclComm_t, int) { return not_built("ncclCommSuspend"); }
ncclResult_t pncclCommResume(ncclComm_t) { return not_built("ncclCommResume"); }
ncclResult_t pncclCommMemStats(ncclComm_t, ncclCommMemStat_t, uint64_t*) { return not_built("ncclCommMemStats"); }
ncclResult_t pncclCommQueryProperties(ncclComm_t, ncclCommProperties_t*) {
  return not_built("ncclCommQueryProperties");
}
ncclResult_t pncclSetEncryption(const ncclEncryptionConfig_t*) { return not_built("ncclSetEncryption"); }
ncclResult_t pncclPutSignal(const void*, size_t, ncclDataType_t, int, ncclWindow_t, size_t, int, int, unsigned int,
                            ncclComm_t, cudaStream_t) {
  return not_built("ncclPutSignal");
}
ncclResult_t pncclSignal(int, int, int, unsigned int, ncclComm_t, cudaStream_t) { return not_built("ncclSignal"); }
ncclResult_t pncclWaitSignal(int, ncclWaitSignalDesc_t*, ncclComm_t, cudaStream_t) {
  return not_built("ncclWaitSignal");
}
ncclResult_t pncclParamBind(ncclParamHandle_t*, const char*) { return not_built("ncclParamBind"); }
ncclResult_t pncclParamGetI8(ncclParamHandle_t, int8_t*) { return not_built("ncclParamGetI8"); }
ncclResult_t pncclParamGetI16(ncclParamHandle_t, int16_t*) { return not_built("ncclParamGetI16"); }
ncclResult_t pncclParamGetI32(ncclParamHandle_t, int32_t*) { return not_built("ncclParamGetI32"); }
ncclResult_t pncclParamGetI64(ncclParamHandle_t, int64_t*) { return not_built("ncclParamGetI64"); }
ncclResult_t pncclParamGetU8(ncclParamHandle_t, uint8_t*) { return not_built("ncclParamGetU8"); }
ncclResult_t pncclParamGetU16(ncclParamHandle_t, uint16_t*) { return not_built("ncclParamGetU16"); }
ncclResult_t pncclParamGetU32(ncclParamHandle_t, uint32_t*) { return not_built("ncclParamGetU32"); }
ncclResult_t pncclParamGetU64(ncclParamHandle_t, uint64_t*) { return not_built("ncclParamGetU64"); }
ncclResult_t pncclParamGetStr(ncclParamHandle_t, const char**) { return not_built("ncclParamGetStr"); }
ncclResult_t pncclParamGet(ncclParamHandle_t, void*, int, int*) { return not_built("ncclParamGet"); }
ncclResult_t pncclParamGetParameter(const char*, const char**, int*) { return not_built("ncclParamGetParameter"); }
ncclResult_t pncclParamGetAllParameterKeys(const char***, int*) { return not_built("ncclParamGetAllParameterKeys"); }

ncclResult_t pncclAllReduceConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
                                  const ncclCollConfig_t* config) {
  return without_config("ncclAllReduceConfig", config,
                        [&] { return pncclAllReduce(sendbuff, recvbuff, count, datatype, op, comm, stream); });
}
ncclResult_t pncclReduceScatterConfig(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                                      ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
                                      const ncclCollConfig_t* config) {
  return without_config("ncclReduceScatterConfig", config,
                        [&] { return pncclReduceScatter(sendbuff, recvbuff, recvcount, datatype, op, comm, stream); });
}
ncclResult_t pncclAllGatherConfig(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                                  ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return without_config("ncclAllGatherConfig", config,
                        [&] { return pncclAllGather(sendbuff, recvbuff, sendcount, datatype, comm, stream); });
}
ncclResult_t pncclBroadcastConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                                  ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return without_config("ncclBroadcastConfig", config,
                        [&] { return pncclBroadcast(sendbuff, recvbuff, count, datatype, root, comm, stream); });
}
ncclResult_t pncclReduceConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                               ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream,
                               const ncclCollConfig_t* config) {
  return without_config("ncclReduceConfig", config,
                        [&] { return pncclReduce(sendbuff, recvbuff, count, datatype, op, root, comm, stream); });
}
ncclResult_t pncclAlltoAllConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                 ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return without_config("ncclAlltoAllConfig", config,
                        [&] { return pncclAlltoAll(sendbuff, recvbuff, count, datatype, comm, stream); });
}
ncclResult_t pncclGatherConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                               ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return without_config("ncclGatherConfig", config,
                        [&] { return pncclGather(sendbuff, recvbuff, count, datatype, root, comm, stream); });
}
ncclResult_t pncclScatterConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                                ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return without_config("ncclScatterConfig", config,
                        [&] { return pncclScatter(sendbuff, recvbuff, count, datatype, root, comm, stream); });
}

// The weak names that programs call.
[[gnu::weak, gnu::alias("pncclCommSplit")]] decltype(ncclCommSplit) ncclCommSplit;
[[gnu::weak, gnu::alias("pncclCommShrink")]] decltype(ncclCommShrink) ncclCommShrink;
[[gnu::weak, gnu::alias("pncclCommRevoke")]] decltype(ncclCommRevoke) ncclCommRevoke;
[[gnu::weak, gnu::alias("pncclCommGetUniqueId")]] decltype(ncclCommGetUniqueId) ncclCommGetUniqueId;
[[gnu::weak, gnu::alias("pncclCommGrow")]] decltype(ncclCommGrow) ncclCommGrow;
[[gnu::weak, gnu::alias("pncclCommSuspend")]] decltype(ncclCommSuspend) ncclCommSuspend;
[[gnu::weak, gnu::alias("pncclCommResume")]] decltype(ncclCommResume) ncclCommResume;
[[gnu::weak, gnu::alias("pncclCommMemStats")]] decltype(ncclCommMemStats) ncclCommMemStats;
[[gnu::weak, gnu::alias("pncclCommQueryProperties")]] decltype(ncclCommQueryProperties) ncclCommQueryProperties;
[[gnu::weak, gnu::alias("pncclSetEncryption")]] decltype(ncclSetEncryption) ncclSetEncryption;
[[gnu::weak, gnu::alias("pncclPutSignal")]] decltype(ncclPutSignal) ncclPutSignal;
[[gnu::weak, gnu::alias("pncclSignal")]] decltype(ncclSignal) ncclSignal;
[[gnu::weak, gnu::alias("pncclWaitSignal")]] decltype(ncclWaitSignal) ncclWaitSignal;
[[gnu::weak, gnu::alias("pncclParamBind")]] decltype(ncclParamBind) ncclParamBind;
[[gnu::weak, gnu::alias("pncclParamGetI8")]] decltype(ncclParamGetI8) ncclParamGetI8;
[[gnu::weak, gnu::alias("pncclParamGetI16")]] decltype(ncclParamGetI16) ncclParamGetI16;
[[gnu::weak, gnu::alias("pncclParamGetI32")]] decltype(ncclParamGetI32) ncclParamGetI32;
[[gnu::weak, gnu::alias("pncclParamGetI64")]] decltype(ncclParamGetI64) ncclParamGetI64;
[[gnu::weak, gnu::alias("pncclParamGetU8")]] decltype(ncclParamGetU8) ncclParamGetU8;
[[gnu::weak, gnu::alias("pncclParamGetU16")]] decltype(ncclParamGetU16) ncclParamGetU16;
[[gnu::weak, gnu::alias("pncclParamGetU32")]] decltype(ncclParamGetU32) ncclParamGetU32;
[[gnu::weak, gnu::alias("pncclParamGetU64")]] decltype(ncclParamGetU64) ncclParamGetU64;
[[gnu::weak, gnu::alias("pncclParamGetStr")]] decltype(ncclParamGetStr) ncclParamGetStr;
[[gnu::weak, gnu::alias("pncclParamGet")]] decltype(ncclParamGet) ncclParamGet;
[[gnu::weak, gnu::alias("pncclParamGetParameter")]] decltype(ncclParamGetParameter) ncclParamGetParameter;
[[gnu::weak,
  gnu::alias("pncclParamGetAllParameterKeys")]] decltype(ncclParamGetAllParameterKeys) ncclParamGetAllParameterKeys;
[[gnu::weak, gnu::alias("pncclAllReduceConfig")]] decltype(ncclAllReduceConfig) ncclAllReduceConfig;
[[gnu::weak, gnu::alias("pncclReduceScatterConfig")]] decltype(ncclReduceScatterConfig) ncclReduceScatterConfig;
[[gnu::weak, gnu::alias("pncclAllGatherConfig")]] decltype(ncclAllGatherConfig) ncclAllGatherConfig;
[[gnu::weak, gnu::alias("pncclBroadcastConfig")]] decltype(ncclBroadcastConfig) ncclBroadcastConfig;
[[gnu::weak, gnu::alias("pncclReduceConfig")]] decltype(ncclReduceConfig) ncclReduceConfig;
[[gnu::weak, gnu::alias("pncclAlltoAllConfig")]] decltype(ncclAlltoAllConfig) ncclAlltoAllConfig;
[[gnu::weak, gnu::alias("pncclGatherConfig")]] decltype(ncclGatherConfig) ncclGatherConfig;
[[gnu::weak, gnu::alias("pncclScatterConfig")]] decltype(ncclScatterConfig) ncclScatterConfig;

}  // extern "C"
