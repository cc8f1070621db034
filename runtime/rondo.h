/* Rondo's extensions of the C interface in nccl.h: start from a launcher's environment, queues, events.
 *
 * A queue takes the place of a CUDA stream: it runs the calls given to it in order, in a worker thread of its own or
 * in a thread that waits for the queue or for an event in it.  A call that fails on a queue is told by
 * rondoStreamSynchronize, and by ncclCommGetAsyncError of its communicator.  Every call may be made from any thread. */
#ifndef RONDO_H_
#define RONDO_H_

#include "nccl.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* A point in a queue's order. */
typedef struct rondoEvent* rondoEvent_t;

/* "Rondo 0.1.0". */
const char* rondoGetVersion(void);

/* Joins the communicator of all ranks of a job, as the launcher's environment says: of `rondo run`, torchrun, mpirun,
 * srun, or RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (docs/launchers.md).  Without a secret any process of the same
 * user may join.  Blocks as ncclCommInitRank does.  May be called several times: the n-th call of every rank makes the
 * n-th communicator.  Not inside a group. */
ncclResult_t rondoCommInitFromEnv(ncclComm_t* comm);

/* The number of hosts that the communicator's ranks are on, as the choice of algorithms counts them (NCCL_HOSTID).
 * An error until the communicator has started. */
ncclResult_t rondoCommHosts(ncclComm_t comm, int* hosts);

/* Starts a queue, which calls of nccl.h take as their stream. */
ncclResult_t rondoStreamCreate(cudaStream_t* stream);
/* As rondoStreamSynchronize, then ends the queue's worker and frees it, whatever it returns.  NULL is an error. */
ncclResult_t rondoStreamDestroy(cudaStream_t stream);
/* Waits for the calls given to the queue so far; returns the first error since the last synchronize.  NULL: success at
 * once, as calls without a queue block. */
ncclResult_t rondoStreamSynchronize(cudaStream_t stream);
/* ncclInProgress while calls are left, otherwise as rondoStreamSynchronize, whose error it leaves. */
ncclResult_t rondoStreamQuery(cudaStream_t stream);
/* Calls given to the queue from now on run after the event's last record.  stream NULL: the caller waits.  An event
 * that was never recorded is complete. */
ncclResult_t rondoStreamWaitEvent(cudaStream_t stream, rondoEvent_t event);

ncclResult_t rondoEventCreate(rondoEvent_t* event);
/* At any time: waits that were asked for before are kept. */
ncclResult_t rondoEventDestroy(rondoEvent_t event);
/* The event completes when the calls given to the queue so far have.  stream NULL: at once. */
ncclResult_t rondoEventRecord(rondoEvent_t event, cudaStream_t stream);
/* Waits for the last record. */
ncclResult_t rondoEventSynchronize(rondoEvent_t event);
/* ncclInProgress or ncclSuccess. */
ncclResult_t rondoEventQuery(rondoEvent_t event);
/* Milliseconds between the completions of two events; ncclInvalidUsage unless both were recorded and are complete. */
ncclResult_t rondoEventElapsedTime(float* ms, rondoEvent_t start, rondoEvent_t end);

#pragma GCC visibility pop
#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // RONDO_H_
