/* The headers in C11: sizes, offsets and values of NCCL's binary interface, checked by the compiler. */
#include "rondo.h"

_Static_assert(sizeof(ncclUniqueId) == 128, "ncclUniqueId");
_Static_assert(sizeof(ncclConfig_t) == 120, "ncclConfig_t");
_Static_assert(offsetof(ncclConfig_t, blocking) == 16, "blocking");
_Static_assert(offsetof(ncclConfig_t, netName) == 32, "netName");
_Static_assert(offsetof(ncclConfig_t, splitShare) == 40, "splitShare");
_Static_assert(offsetof(ncclConfig_t, commName) == 48, "commName");
_Static_assert(offsetof(ncclConfig_t, collnetEnable) == 56, "collnetEnable");
_Static_assert(offsetof(ncclConfig_t, nvlinkCentricSched) == 76, "nvlinkCentricSched");
_Static_assert(offsetof(ncclConfig_t, graphStreamOrdering) == 92, "graphStreamOrdering");
_Static_assert(sizeof(ncclSimInfo_t) == 24, "ncclSimInfo_t");
_Static_assert(sizeof(ncclResult_t) == 4 && sizeof(ncclDataType_t) == 4 && sizeof(ncclRedOp_t) == 4, "enumerations");
_Static_assert(ncclTimeout == 8 && ncclFloat8e5m2 == 11 && ncclAvg == 4 && ncclMaxRedOp == 0x7fffffff, "values");
_Static_assert(NCCL_VERSION_CODE == 23203 && NCCL_VERSION(2, 28, 9) == 22809, "versions");

ncclConfig_t config_from_c(void);
ncclConfig_t config_from_c(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  return config;
}
