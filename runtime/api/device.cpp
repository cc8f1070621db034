// NCCL's calls for device code, which Rondo has none of: structures for it cannot be given, teams of ranks can.
#include "api/errors.h"
#include "api/handle.h"
#include "nccl.h"

namespace rondo::api {
namespace {

ncclResult_t for_device_code(const char* call) noexcept {
  return guarded(call, []() -> ncclResult_t {
    throw Error(Code::invalid_usage, "Rondo works on host memory and has nothing to give to device code");
  });
}

/// The team of all ranks (`alone` false) or of this rank; {0, 0, 0} for a `comm` that is none.
ncclTeam_t team(const char* call, ncclComm_t comm, bool alone) noexcept {
  ncclTeam_t team = {0, 0, 0};
  guarded(call, [&] {
    check_handle(comm);
    team = alone ? ncclTeam_t{1, 0, 1} : ncclTeam_t{comm->ranks, comm->rank, 1};
    return ncclSuccess;
  });
  return team;
}

}  // namespace
}  // namespace rondo::api

using rondo::api::for_device_code;
using rondo::api::team;

extern "C" {

ncclResult_t pncclDevCommCreate(ncclComm_t, const ncclDevCommRequirements_t*, ncclDevComm_t*) {
  return for_device_code("ncclDevCommCreate");
}
ncclResult_t pncclDevCommDestroy(ncclComm_t, const ncclDevComm_t*) { return for_device_code("ncclDevCommDestroy"); }
ncclResult_t pncclGetLsaMultimemDevicePointer(ncclWindow_t, size_t, void**) {
  return for_device_code("ncclGetLsaMultimemDevicePointer");
}
ncclResult_t pncclGetMultimemDevicePointer(ncclWindow_t, size_t, ncclMultimemHandle_t, void**) {
  return for_device_code("ncclGetMultimemDevicePointer");
}
ncclResult_t pncclGetLsaDevicePointer(ncclWindow_t, size_t, int, void**) {
  return for_device_code("ncclGetLsaDevicePointer");
}
ncclResult_t pncclGetPeerDevicePointer(ncclWindow_t, size_t, int, void**) {
  return for_device_code("ncclGetPeerDevicePointer");
}
ncclResult_t pncclGetMultimemDeviceLeInfo(ncclWindow_t, size_t, ncclCftLeId*, size_t*) {
  return for_device_code("ncclGetMultimemDeviceLeInfo");
}
ncclResult_t pncclGetCftDeviceLeInfo(ncclWindow_t, size_t, int, ncclTeam_t, ncclCftLeId*, size_t*) {
  return for_device_code("ncclGetCftDeviceLeInfo");
}
ncclResult_t pncclGetPeerDeviceLeInfo(ncclWindow_t, size_t, int, ncclCftLeId*, size_t*) {
  return for_device_code("ncclGetPeerDeviceLeInfo");
}
ncclTeam_t pncclTeamWorld(ncclComm_t comm) { return team("ncclTeamWorld", comm, false); }
ncclTeam_t pncclTeamLsa(ncclComm_t comm) { return team("ncclTeamLsa", comm, true); }
ncclTeam_t pncclTeamRail(ncclComm_t comm) { return team("ncclTeamRail", comm, false); }
ncclTeam_t pncclTeamCft(ncclComm_t comm, ncclCftTeamMode_t) { return team("ncclTeamCft", comm, true); }
ncclTeam_t pncclTeamCftMultimem(ncclComm_t comm) { return team("ncclTeamCftMultimem", comm, true); }
int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank) {
  return pncclTeamWorld(comm).rank + (rank - team.rank) * team.stride;
}
int pncclTeamRankToLsa(ncclComm_t, ncclTeam_t team, int rank) { return (rank - team.rank) * team.stride; }
ncclResult_t pncclLsaBarrierCreateRequirement(ncclTeam_t, int, ncclLsaBarrierHandle_t*,
                                              ncclDevResourceRequirements_t*) {
  return for_device_code("ncclLsaBarrierCreateRequirement");
}
ncclResult_t pncclGinBarrierCreateRequirement(ncclComm_t, ncclTeam_t, int, ncclGinBarrierHandle_t*,
                                              ncclDevResourceRequirements_t*) {
  return for_device_code("ncclGinBarrierCreateRequirement");
}
ncclResult_t pncclGinOutboxCreateRequirement(int, int, ncclGinOutboxHandle_t*, ncclDevResourceRequirements_t*) {
  return for_device_code("ncclGinOutboxCreateRequirement");
}
ncclResult_t pncclGinInboxA2ACreateRequirement(ncclTeam_t, int, int, ncclGinInboxA2AHandle_t*,
                                               ncclDevResourceRequirements_t*) {
  return for_device_code("ncclGinInboxA2ACreateRequirement");
}
int pncclLLA2ACalcSlots(int, int) {
  for_device_code("ncclLLA2ACalcSlots");
  return 0;
}
ncclResult_t pncclLLA2ACreateRequirement(int, int, ncclLLA2AHandle_t*, ncclDevResourceRequirements_t*) {
  return for_device_code("ncclLLA2ACreateRequirement");
}

// The weak names that programs call.
[[gnu::weak, gnu::alias("pncclDevCommCreate")]] decltype(ncclDevCommCreate) ncclDevCommCreate;
[[gnu::weak, gnu::alias("pncclDevCommDestroy")]] decltype(ncclDevCommDestroy) ncclDevCommDestroy;
[[gnu::weak,
  gnu::alias(
      "pncclGetLsaMultimemDevicePointer")]] decltype(ncclGetLsaMultimemDevicePointer) ncclGetLsaMultimemDevicePointer;
[[gnu::weak,
  gnu::alias("pncclGetMultimemDevicePointer")]] decltype(ncclGetMultimemDevicePointer) ncclGetMultimemDevicePointer;
[[gnu::weak, gnu::alias("pncclGetLsaDevicePointer")]] decltype(ncclGetLsaDevicePointer) ncclGetLsaDevicePointer;
[[gnu::weak, gnu::alias("pncclGetPeerDevicePointer")]] decltype(ncclGetPeerDevicePointer) ncclGetPeerDevicePointer;
[[gnu::weak,
  gnu::alias("pncclGetMultimemDeviceLeInfo")]] decltype(ncclGetMultimemDeviceLeInfo) ncclGetMultimemDeviceLeInfo;
[[gnu::weak, gnu::alias("pncclGetCftDeviceLeInfo")]] decltype(ncclGetCftDeviceLeInfo) ncclGetCftDeviceLeInfo;
[[gnu::weak, gnu::alias("pncclGetPeerDeviceLeInfo")]] decltype(ncclGetPeerDeviceLeInfo) ncclGetPeerDeviceLeInfo;
[[gnu::weak, gnu::alias("pncclTeamWorld")]] decltype(ncclTeamWorld) ncclTeamWorld;
[[gnu::weak, gnu::alias("pncclTeamLsa")]] decltype(ncclTeamLsa) ncclTeamLsa;
[[gnu::weak, gnu::alias("pncclTeamRail")]] decltype(ncclTeamRail) ncclTeamRail;
[[gnu::weak, gnu::alias("pncclTeamCft")]] decltype(ncclTeamCft) ncclTeamCft;
[[gnu::weak, gnu::alias("pncclTeamCftMultimem")]] decltype(ncclTeamCftMultimem) ncclTeamCftMultimem;
[[gnu::weak, gnu::alias("pncclTeamRankToWorld")]] decltype(ncclTeamRankToWorld) ncclTeamRankToWorld;
[[gnu::weak, gnu::alias("pncclTeamRankToLsa")]] decltype(ncclTeamRankToLsa) ncclTeamRankToLsa;
[[gnu::weak,
  gnu::alias(
      "pncclLsaBarrierCreateRequirement")]] decltype(ncclLsaBarrierCreateRequirement) ncclLsaBarrierCreateRequirement;
[[gnu::weak,
  gnu::alias(
      "pncclGinBarrierCreateRequirement")]] decltype(ncclGinBarrierCreateRequirement) ncclGinBarrierCreateRequirement;
[[gnu::weak,
  gnu::alias(
      "pncclGinOutboxCreateRequirement")]] decltype(ncclGinOutboxCreateRequirement) ncclGinOutboxCreateRequirement;
[[gnu::weak, gnu::alias("pncclGinInboxA2ACreateRequirement")]] decltype(ncclGinInboxA2ACreateRequirement)
    ncclGinInboxA2ACreateRequirement;
[[gnu::weak, gnu::alias("pncclLLA2ACalcSlots")]] decltype(ncclLLA2ACalcSlots) ncclLLA2ACalcSlots;
[[gnu::weak,
  gnu::alias("pncclLLA2ACreateRequirement")]] decltype(ncclLLA2ACreateRequirement) ncclLLA2ACreateRequirement;

}  // extern "C"
