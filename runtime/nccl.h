/* The C interface: NCCL's names, values and layouts (of NCCL 2.32.3), for C11 and C++, without any CUDA header.
 *
 * Buffers are host memory, from malloc or ncclMemAlloc.  Every call may be made from any thread; two threads that call
 * on one communicator at the same time give its calls no order, which is an error unless every rank has the same one.
 *
 * stream NULL: a collective blocks until its result is complete and no other rank touches its buffers any more (inside
 * a group, ncclGroupEnd blocks instead).  Any other stream is a queue from rondoStreamCreate (rondo.h): the call
 * returns at once, and calls on one queue run in order.  A call that fails returns a code; ncclGetLastError gives the
 * sentence that says what was wrong and what to do.  Calls marked "not built yet" return ncclInvalidUsage.
 *
 * Each function ncclX is a weak symbol with a strong twin pncclX, for tools that intercept calls. */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The interface's version.  What ncclGetVersion reports is RONDO_NCCL_VERSION, by default 2.28.9. */
#define NCCL_MAJOR 2
#define NCCL_MINOR 32
#define NCCL_PATCH 3
#define NCCL_SUFFIX ""
#define NCCL_VERSION(X, Y, Z) (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))
#define NCCL_VERSION_CODE NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)

#define NCCL_API_MAGIC 0xcafebeef
#define NCCL_UNIQUE_ID_BYTES 128
#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f
#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01
#define NCCL_REVOKE_DEFAULT 0x00
#define NCCL_SUSPEND_MEM 0x01
#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02
#define NCCL_ENCRYPTION_MODE_NONE 0
#define NCCL_ENCRYPTION_MODE_PSK 1

typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;
typedef struct ncclParamHandle* ncclParamHandle_t;

/* Names a communicator to be; opaque, passed by value. */
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,     /* the kernel refused something */
  ncclInternalError = 3,   /* a defect of Rondo */
  ncclInvalidArgument = 4, /* a value that can never be right */
  ncclInvalidUsage = 5,    /* a right value at the wrong time, or calls of ranks that do not match */
  ncclRemoteError = 6,     /* another rank died, left, or failed */
  ncclInProgress = 7,
  ncclTimeout = 8,
  ncclNumResults = 9
} ncclResult_t;

typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;
typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5, /* from here on: operators of ncclRedOpCreatePreMulSum */
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum {
  ncclScalarDevice = 0,       /* read from the pointer when the call runs (host memory, as all buffers are) */
  ncclScalarHostImmediate = 1 /* copied when the operator is created */
} ncclScalarResidence_t;

typedef enum {
  ncclStatGpuMemSuspend = 0,
  ncclStatGpuMemSuspended = 1,
  ncclStatGpuMemPersist = 2,
  ncclStatGpuMemTotal = 3
} ncclCommMemStat_t;

typedef enum {
  ncclHostCftDefault = NCCL_CONFIG_UNDEF_INT,
  ncclHostCftEnable = 1,
  ncclHostCftDisable = 2,
  ncclHostCftFallback = 3
} ncclHostCftMode_t;

typedef enum {
  ncclNvlsHostModeDefault = NCCL_CONFIG_UNDEF_INT,
  ncclNvlsHostModeEnable = 0,
  ncclNvlsHostModeDisableTransport = 1,
  ncclNvlsHostModeDisableSymmetricMultimem = 2,
  ncclNvlsHostModeDisable = INT_MAX
} ncclNvlsHostMode_t;

typedef enum { NCCL_CFT_TEAM_FLAT = 0, NCCL_CFT_TEAM_HIER_MULTIMEM = 1, NCCL_CFT_TEAM_HIER_LSA = 2 } ncclCftTeamMode_t;

/* What a communicator is asked to be.  Start from NCCL_CONFIG_INITIALIZER; a field left at its value there is unset.
 * Only `blocking` and `commName` have an effect; the others are checked and accepted. */
typedef struct ncclConfig_v23100 {
  size_t size; /* size, magic and version are the initializer's: they say which fields the caller knows */
  unsigned int magic;
  unsigned int version;
  int blocking; /* 0: init returns ncclInProgress at once; ask ncclCommGetAsyncError */
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName; /* for the log */
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
  int graphUsageMode;
  int numRmaCtx;
  int maxP2pPeers;
  int graphStreamOrdering;
  int launchOrderImplicit;
  int numRmaSig;
  int rmaEagerInit;
  int hostCftMode;
  int nvlsHostMode;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                            \
  {                                                                                                        \
    sizeof(ncclConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,        \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,        \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,        \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,        \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,        \
        NCCL_CONFIG_UNDEF_INT                                                                              \
  }

/* A vendor's option of one call. */
typedef struct ncclConfigExt {
  struct ncclConfigExt* next;
  struct {
    int vendorId;
    int optionId;
  } key;
  union {
    int i;
    const char* s;
    const void* raw;
  } val;
} ncclConfigExt_t;

/* What one collective is asked to be.  Start from NCCL_COLLCONFIG_INITIALIZER. */
typedef struct ncclCollConfig {
  size_t size;
  unsigned int magic;
  unsigned int version;
  ncclConfigExt_t* ext;
  int minCTAs;
  int maxCTAs;
  int nvlsCTAs;
  int cgaClusterSize;
  const char* algSelection;
  int forceAlgSelection;
  int CTAPolicy;
  uint64_t userProfilerTag;
  cudaEvent_t launchCompletionEvent;
} ncclCollConfig_t;

#define NCCL_COLLCONFIG_INITIALIZER                                                                            \
  {                                                                                                            \
    sizeof(ncclCollConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, 1,         \
        NCCL_CONFIG_UNDEF_INT, 0, NULL                                                                         \
  }

typedef struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime;
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER \
  { sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT }

typedef struct {
  int opCnt;
  int peer;
  int sigIdx;
  int ctx;
} ncclWaitSignalDesc_t;

typedef struct ncclEncryptionConfig {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int mode;
  const char* psk;
} ncclEncryptionConfig_t;

#define NCCL_ENCRYPTION_CONFIG_INITIALIZER \
  { sizeof(ncclEncryptionConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_ENCRYPTION_MODE_NONE, NULL }

/* A subset of ranks: member i is rank `rank of member 0 + i * stride`. */
typedef struct ncclTeam {
  int nRanks;
  int rank;
  int stride;
} ncclTeam_t;

typedef uint32_t ncclCftLeId;
typedef struct ncclMultimemHandle {
  void* mcBasePtr;
} ncclMultimemHandle_t;
typedef struct ncclLsaBarrierHandle ncclLsaBarrierHandle_t;
typedef struct ncclGinBarrierHandle ncclGinBarrierHandle_t;
typedef struct ncclLLA2AHandle ncclLLA2AHandle_t;
typedef struct ncclGinOutboxHandle ncclGinOutboxHandle_t;
typedef struct ncclGinInboxA2AHandle ncclGinInboxA2AHandle_t;
typedef struct ncclDevResourceRequirements ncclDevResourceRequirements_t;
typedef struct ncclDevCommRequirements ncclDevCommRequirements_t;
typedef struct ncclDevComm ncclDevComm_t;
typedef struct ncclCommProperties ncclCommProperties_t;

/* ---- The library ---- */

/* The version of NCCL that callers may assume: major * 10000 + minor * 100 + patch. */
ncclResult_t ncclGetVersion(int* version);
/* One word or two for a code; never NULL. */
const char* ncclGetErrorString(ncclResult_t result);
/* The sentence of the communicator's failure, or else of the last error in this process, which may be another thread's
 * and an old one.  comm may be NULL.  Valid until this thread's next call of it. */
const char* ncclGetLastError(ncclComm_t comm);
/* Reads NCCL_DEBUG and its sisters again. */
void ncclResetDebugInit(void);

/* ---- Communicators ---- */

/* A name for a communicator to be; give it to all its ranks.  Starts to listen in this process, which must live until
 * all have joined.  With NCCL_COMM_ID: the same in every process, made of its text. */
ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId);
/* Joins as `rank` of `nranks`; blocks until all have joined, at most RONDO_TIMEOUT seconds.  Inside a group: joins in
 * ncclGroupEnd, concurrently with the group's other inits; a group holds inits or collectives, not both. */
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank);
/* The same, as `config` asks (NULL: nothing). */
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config);
/* The same with several ids; only nId 1 is built yet. */
ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds,
                                      ncclConfig_t* config);
/* A communicator of `ndev` ranks that are all in this process: comm[i] is rank i.  devlist (or NULL: 0, 1, ...) is what
 * ncclCommCuDevice tells.  Give every rank its own thread, or wrap each collective of all ranks into one group. */
ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist);
/* Waits for the communicator's calls and says goodbye to the other ranks.  NULL is no error, as in Destroy and Abort.
 */
ncclResult_t ncclCommFinalize(ncclComm_t comm);
/* Finalizes and frees; the handle is invalid afterwards. */
ncclResult_t ncclCommDestroy(ncclComm_t comm);
/* Ends the communicator's calls here and on the other ranks with an error, and frees.  Any thread, at any time. */
ncclResult_t ncclCommAbort(ncclComm_t comm);
/* The communicator's first failure, ncclInProgress while it starts, or ncclSuccess.  Never waits. */
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError);
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank);
/* The number given to ncclCommInitAll, or else LOCAL_RANK, or else 0: ranks have no device. */
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device);
/* Not built yet. */
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config);
ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount, ncclComm_t* newcomm,
                            ncclConfig_t* config, int shrinkFlags);
ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags);
ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId);
ncclResult_t ncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank, ncclComm_t* newcomm,
                          ncclConfig_t* config);
ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);
ncclResult_t ncclCommResume(ncclComm_t comm);
ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value);
ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t* props);
ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t* config);

/* ---- Collectives: every rank calls, with the same count, type, operator and root.  A count of 0 succeeds without
 * communication.  Buffers must not overlap but as each call says ("in place"). ---- */

/* recvbuff = reduction of all ranks' sendbuff, `count` elements.  In place: recvbuff == sendbuff. */
ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream);
/* Rank r gets block r of the reduction; sendbuff has nranks blocks of `recvcount` elements.
 * In place: recvbuff == sendbuff + rank * recvcount. */
ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
/* Every rank gets all ranks' `sendcount` elements, by rank.  In place: sendbuff == recvbuff + rank * sendcount. */
ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream);
/* recvbuff = root's sendbuff.  sendbuff is read on root only.  In place: recvbuff == sendbuff. */
ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                           ncclComm_t comm, cudaStream_t stream);
/* The same in place. */
ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream);
/* Root gets the reduction; recvbuff is written on root only.  In place: recvbuff == sendbuff. */
ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream);
/* Block r of recvbuff = this rank's block in rank r's sendbuff; `count` elements a block.  Not in place. */
ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                          cudaStream_t stream);
/* Root gets all ranks' `count` elements, by rank.  In place: sendbuff == recvbuff + rank * count. */
ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                        ncclComm_t comm, cudaStream_t stream);
/* Rank r gets block r of root's sendbuff.  In place: recvbuff == sendbuff + rank * count. */
ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                         ncclComm_t comm, cudaStream_t stream);
/* One message to `peer`, which may be this rank.  Messages of a pair of ranks meet their ncclRecv in order, with the
 * same count and type.  Outside a group it may wait for the receiver; several that depend on each other, or a send to
 * itself, belong in one group, in which collectives precede sends and receives. */
ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream);

/* With config NULL the call without Config; another config is not built yet. */
ncclResult_t ncclAllReduceConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                 ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclReduceScatterConfig(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                                     ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
                                     const ncclCollConfig_t* config);
ncclResult_t ncclAllGatherConfig(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                                 ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclBroadcastConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                                 ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclReduceConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                              ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream,
                              const ncclCollConfig_t* config);
ncclResult_t ncclAlltoAllConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclGatherConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                              ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclScatterConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                               ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);

/* An operator that multiplies this rank's elements by *scalar (of type `datatype`), then sums.  Of this communicator
 * and type only. */
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm);
/* As soon as the calls that use the operator have returned, even inside a group. */
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

/* ---- Groups: of this thread, may be nested; the outermost End runs all calls together.  A call with a wrong argument
 * fails at once and leaves the group as it was; all other failures are End's.  A thread that calls for several ranks of
 * one communicator must do so in a group, in any order: outside, a blocking call waits for the other ranks' calls.
 * ncclInvalidUsage where no other thread of the process could make them.  Small all-reduces that follow each other in a
 * group on one queue travel as one, with the bits that each alone would give: all ranks must make the same groups of
 * them (and, where a group uses one communicator on several queues, list the same sends and receives between them), or
 * RONDO_GROUP_BYTES=0 must be set.  No call of a group may read what another one writes: they run at once. ---- */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
/* Not built yet: ends the group and runs none of its calls. */
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* simInfo);

/* ---- Memory ---- */

/* Host memory that the ranks of one host can map: collectives on it need fewer copies than on memory of malloc. */
ncclResult_t ncclMemAlloc(void** ptr, size_t size);
/* Memory of ncclMemAlloc, or NULL. */
ncclResult_t ncclMemFree(void* ptr);
/* Costs nothing and changes nothing: memory of ncclMemAlloc is mapped by peers without it, and other memory is never
 * mapped anew.  The handle is for ncclCommDeregister, and ends with the communicator. */
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle);
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle);
/* A window for memory of ncclMemAlloc; for other memory the window is NULL, and the result ncclSuccess.  On every rank,
 * as with NCCL; waits for nobody.  As ncclCommRegister it changes nothing: whether buffers are lent, each call finds
 * out. */
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags);
/* A window of this communicator, or NULL; windows end with it. */
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);
/* The `buff` of the window. */
ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void** outUserPtr);

/* ---- One-sided calls: not built yet ---- */
ncclResult_t ncclPutSignal(const void* localbuff, size_t count, ncclDataType_t datatype, int peer, ncclWindow_t peerWin,
                           size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclWaitSignal(int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm, cudaStream_t stream);

/* ---- Parameters: not built yet (`rondo info --env` prints them), but DumpAll, which logs those that are set ---- */
ncclResult_t ncclParamBind(ncclParamHandle_t* out, const char* key);
ncclResult_t ncclParamGetI8(ncclParamHandle_t h, int8_t* out);
ncclResult_t ncclParamGetI16(ncclParamHandle_t h, int16_t* out);
ncclResult_t ncclParamGetI32(ncclParamHandle_t h, int32_t* out);
ncclResult_t ncclParamGetI64(ncclParamHandle_t h, int64_t* out);
ncclResult_t ncclParamGetU8(ncclParamHandle_t h, uint8_t* out);
ncclResult_t ncclParamGetU16(ncclParamHandle_t h, uint16_t* out);
ncclResult_t ncclParamGetU32(ncclParamHandle_t h, uint32_t* out);
ncclResult_t ncclParamGetU64(ncclParamHandle_t h, uint64_t* out);
ncclResult_t ncclParamGetStr(ncclParamHandle_t h, const char** out);
ncclResult_t ncclParamGet(ncclParamHandle_t h, void* out, int maxLen, int* len);
ncclResult_t ncclParamGetParameter(const char* key, const char** value, int* valueLen);
ncclResult_t ncclParamGetAllParameterKeys(const char*** table, int* tableLen);
void ncclParamDumpAll(void);

/* ---- Calls for device code: Rondo has none, all return ncclInvalidUsage.  The teams are those of host memory: the
 * world, and this rank alone. ---- */
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements_t* reqs, ncclDevComm_t* outDevComm);
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm_t* devComm);
ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void** outPtr);
ncclResult_t ncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem,
                                          void** outPtr);
ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsaRank, void** outPtr);
ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void** outPtr);
ncclResult_t ncclGetMultimemDeviceLeInfo(ncclWindow_t window, size_t offset, ncclCftLeId* leId, size_t* leOffset);
ncclResult_t ncclGetCftDeviceLeInfo(ncclWindow_t window, size_t offset, int peerCft, ncclTeam_t cftTeam,
                                    ncclCftLeId* leId, size_t* leOffset);
ncclResult_t ncclGetPeerDeviceLeInfo(ncclWindow_t window, size_t offset, int peerWorld, ncclCftLeId* leId,
                                     size_t* leOffset);
ncclTeam_t ncclTeamWorld(ncclComm_t comm);
ncclTeam_t ncclTeamLsa(ncclComm_t comm);
ncclTeam_t ncclTeamRail(ncclComm_t comm);
ncclTeam_t ncclTeamCft(ncclComm_t comm, ncclCftTeamMode_t mode);
ncclTeam_t ncclTeamCftMultimem(ncclComm_t comm);
int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank);
int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank);
ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t team, int nBarriers, ncclLsaBarrierHandle_t* outHandle,
                                             ncclDevResourceRequirements_t* outReq);
ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int nBarriers,
                                             ncclGinBarrierHandle_t* outHandle, ncclDevResourceRequirements_t* outReq);
ncclResult_t ncclGinOutboxCreateRequirement(int nBlocks, int size_log2, ncclGinOutboxHandle_t* outHandle,
                                            ncclDevResourceRequirements_t* outReq);
ncclResult_t ncclGinInboxA2ACreateRequirement(ncclTeam_t peers, int nBlocks, int size_log2,
                                              ncclGinInboxA2AHandle_t* outHandle,
                                              ncclDevResourceRequirements_t* outReq);
int ncclLLA2ACalcSlots(int maxElts, int maxEltSize);
ncclResult_t ncclLLA2ACreateRequirement(int nBlocks, int nSlots, ncclLLA2AHandle_t* outHandle,
                                        ncclDevResourceRequirements_t* outReq);

/* ---- The twins ---- */
__typeof__(ncclGetVersion) pncclGetVersion;
__typeof__(ncclGetErrorString) pncclGetErrorString;
__typeof__(ncclGetLastError) pncclGetLastError;
__typeof__(ncclResetDebugInit) pncclResetDebugInit;
__typeof__(ncclGetUniqueId) pncclGetUniqueId;
__typeof__(ncclCommInitRank) pncclCommInitRank;
__typeof__(ncclCommInitRankConfig) pncclCommInitRankConfig;
__typeof__(ncclCommInitRankScalable) pncclCommInitRankScalable;
__typeof__(ncclCommInitAll) pncclCommInitAll;
__typeof__(ncclCommFinalize) pncclCommFinalize;
__typeof__(ncclCommDestroy) pncclCommDestroy;
__typeof__(ncclCommAbort) pncclCommAbort;
__typeof__(ncclCommGetAsyncError) pncclCommGetAsyncError;
__typeof__(ncclCommCount) pncclCommCount;
__typeof__(ncclCommUserRank) pncclCommUserRank;
__typeof__(ncclCommCuDevice) pncclCommCuDevice;
__typeof__(ncclCommSplit) pncclCommSplit;
__typeof__(ncclCommShrink) pncclCommShrink;
__typeof__(ncclCommRevoke) pncclCommRevoke;
__typeof__(ncclCommGetUniqueId) pncclCommGetUniqueId;
__typeof__(ncclCommGrow) pncclCommGrow;
__typeof__(ncclCommSuspend) pncclCommSuspend;
__typeof__(ncclCommResume) pncclCommResume;
__typeof__(ncclCommMemStats) pncclCommMemStats;
__typeof__(ncclCommQueryProperties) pncclCommQueryProperties;
__typeof__(ncclSetEncryption) pncclSetEncryption;
__typeof__(ncclAllReduce) pncclAllReduce;
__typeof__(ncclReduceScatter) pncclReduceScatter;
__typeof__(ncclAllGather) pncclAllGather;
__typeof__(ncclBroadcast) pncclBroadcast;
__typeof__(ncclBcast) pncclBcast;
__typeof__(ncclReduce) pncclReduce;
__typeof__(ncclAlltoAll) pncclAlltoAll;
__typeof__(ncclGather) pncclGather;
__typeof__(ncclScatter) pncclScatter;
__typeof__(ncclSend) pncclSend;
__typeof__(ncclRecv) pncclRecv;
__typeof__(ncclAllReduceConfig) pncclAllReduceConfig;
__typeof__(ncclReduceScatterConfig) pncclReduceScatterConfig;
__typeof__(ncclAllGatherConfig) pncclAllGatherConfig;
__typeof__(ncclBroadcastConfig) pncclBroadcastConfig;
__typeof__(ncclReduceConfig) pncclReduceConfig;
__typeof__(ncclAlltoAllConfig) pncclAlltoAllConfig;
__typeof__(ncclGatherConfig) pncclGatherConfig;
__typeof__(ncclScatterConfig) pncclScatterConfig;
__typeof__(ncclRedOpCreatePreMulSum) pncclRedOpCreatePreMulSum;
__typeof__(ncclRedOpDestroy) pncclRedOpDestroy;
__typeof__(ncclGroupStart) pncclGroupStart;
__typeof__(ncclGroupEnd) pncclGroupEnd;
__typeof__(ncclGroupSimulateEnd) pncclGroupSimulateEnd;
__typeof__(ncclMemAlloc) pncclMemAlloc;
__typeof__(ncclMemFree) pncclMemFree;
__typeof__(ncclCommRegister) pncclCommRegister;
__typeof__(ncclCommDeregister) pncclCommDeregister;
__typeof__(ncclCommWindowRegister) pncclCommWindowRegister;
__typeof__(ncclCommWindowDeregister) pncclCommWindowDeregister;
__typeof__(ncclWinGetUserPtr) pncclWinGetUserPtr;
__typeof__(ncclPutSignal) pncclPutSignal;
__typeof__(ncclSignal) pncclSignal;
__typeof__(ncclWaitSignal) pncclWaitSignal;
__typeof__(ncclParamBind) pncclParamBind;
__typeof__(ncclParamGetI8) pncclParamGetI8;
__typeof__(ncclParamGetI16) pncclParamGetI16;
__typeof__(ncclParamGetI32) pncclParamGetI32;
__typeof__(ncclParamGetI64) pncclParamGetI64;
__typeof__(ncclParamGetU8) pncclParamGetU8;
__typeof__(ncclParamGetU16) pncclParamGetU16;
__typeof__(ncclParamGetU32) pncclParamGetU32;
__typeof__(ncclParamGetU64) pncclParamGetU64;
__typeof__(ncclParamGetStr) pncclParamGetStr;
__typeof__(ncclParamGet) pncclParamGet;
__typeof__(ncclParamGetParameter) pncclParamGetParameter;
__typeof__(ncclParamGetAllParameterKeys) pncclParamGetAllParameterKeys;
__typeof__(ncclParamDumpAll) pncclParamDumpAll;
__typeof__(ncclDevCommCreate) pncclDevCommCreate;
__typeof__(ncclDevCommDestroy) pncclDevCommDestroy;
__typeof__(ncclGetLsaMultimemDevicePointer) pncclGetLsaMultimemDevicePointer;
__typeof__(ncclGetMultimemDevicePointer) pncclGetMultimemDevicePointer;
__typeof__(ncclGetLsaDevicePointer) pncclGetLsaDevicePointer;
__typeof__(ncclGetPeerDevicePointer) pncclGetPeerDevicePointer;
__typeof__(ncclGetMultimemDeviceLeInfo) pncclGetMultimemDeviceLeInfo;
__typeof__(ncclGetCftDeviceLeInfo) pncclGetCftDeviceLeInfo;
__typeof__(ncclGetPeerDeviceLeInfo) pncclGetPeerDeviceLeInfo;
__typeof__(ncclTeamWorld) pncclTeamWorld;
__typeof__(ncclTeamLsa) pncclTeamLsa;
__typeof__(ncclTeamRail) pncclTeamRail;
__typeof__(ncclTeamCft) pncclTeamCft;
__typeof__(ncclTeamCftMultimem) pncclTeamCftMultimem;
__typeof__(ncclTeamRankToWorld) pncclTeamRankToWorld;
__typeof__(ncclTeamRankToLsa) pncclTeamRankToLsa;
__typeof__(ncclLsaBarrierCreateRequirement) pncclLsaBarrierCreateRequirement;
__typeof__(ncclGinBarrierCreateRequirement) pncclGinBarrierCreateRequirement;
__typeof__(ncclGinOutboxCreateRequirement) pncclGinOutboxCreateRequirement;
__typeof__(ncclGinInboxA2ACreateRequirement) pncclGinInboxA2ACreateRequirement;
__typeof__(ncclLLA2ACalcSlots) pncclLLA2ACalcSlots;
__typeof__(ncclLLA2ACreateRequirement) pncclLLA2ACreateRequirement;

#pragma GCC visibility pop
#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // NCCL_H_
