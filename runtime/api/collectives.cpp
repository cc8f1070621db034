// The collectives: arguments checked, then run at once, collected by a group, or given to a queue.
//
// A call without a stream, outside a group, of the thread that owns the communicator costs some loads and two plain
// stores here: no lock, no atomic addition, no allocation, no look-up.  Whatever is slow or fails leaves that path
// early.
#include <cstddef>

#include "api/handle.h"
#include "group.h"
#include "nccl.h"
#include "queue.h"

namespace rondo::api {
namespace {

/// A call as the user made it.  The slow paths take a copy: where its address is known elsewhere, compilers keep it in
/// memory and work everything out again that the kind of call says.
struct Request {
  const char* name;
  CollectiveKind kind;
  const void* in;
  void* out;
  std::size_t count;
  int type;      // ncclDataType_t, and perhaps none: only an int may hold any value
  int op;        // ncclRedOp_t; ncclSum where nothing is reduced
  int root;      // 0 where there is none; send_recv: the sender
  int peer = 0;  // send_recv: the receiver
  bool receives = false;
};

/// Blocks of `count` elements that this rank gives and gets (0: it has no such buffer), and where each begins in the
/// one buffer when in place.
struct Extent {
  std::size_t in = 1, out = 1;
  bool in_place = true;
  std::size_t in_at = 0, out_at = 0;
};

inline Extent extent(const Request& request, const ncclComm& comm) noexcept {
  const std::size_t all = static_cast<std::size_t>(comm.ranks), own = static_cast<std::size_t>(comm.rank);
  const std::size_t at_root = request.root == comm.rank ? 1 : 0;
  switch (request.kind) {
    case CollectiveKind::all_reduce: return {};
    case CollectiveKind::reduce: return {1, at_root};
    case CollectiveKind::broadcast: return {at_root, 1};
    case CollectiveKind::reduce_scatter: return {all, 1, true, 0, own};
    case CollectiveKind::all_gather: return {1, all, true, own, 0};
    case CollectiveKind::gather: return {1, all * at_root, true, own, 0};
    case CollectiveKind::scatter: return {all * at_root, 1, true, 0, own};
    case CollectiveKind::all_to_all: return {all, all, false};
    default: return {request.receives ? 0u : 1u, request.receives ? 1u : 0u, false};
  }
}

std::string hex(const void* pointer) {
  char text[32];
  std::snprintf(text, sizeof(text), "%p", pointer);
  return text;
}

[[noreturn]] void wrong(const std::string& sentence) { throw Error(Code::invalid_argument, sentence); }

/// What is wrong with a request that the fast check refused; throws in every case.
[[noreturn]] void explain(Request request, const ncclComm& comm) {
  if (static_cast<unsigned>(request.type) >= data_type_count) {
    wrong("datatype " + std::to_string(request.type) + " is none of ncclInt8 (0) to ncclFloat8e5m2 (11)");
  }
  if (static_cast<unsigned>(request.root) >= static_cast<unsigned>(comm.ranks)) {
    wrong("root " + std::to_string(request.root) + " is outside the communicator of " + std::to_string(comm.ranks) +
          " ranks");
  }
  if (static_cast<unsigned>(request.peer) >= static_cast<unsigned>(comm.ranks)) {
    wrong("peer " + std::to_string(request.peer) + " is outside the communicator of " + std::to_string(comm.ranks) +
          " ranks");
  }
  const Extent blocks = extent(request, comm);
  const std::string count = std::to_string(request.count);
  if (blocks.out > 0 && request.out == nullptr) wrong("recvbuff is NULL, and count is " + count);
  if (blocks.in > 0 && request.in == nullptr) wrong("sendbuff is NULL, and count is " + count);
  std::size_t bytes = 0;
  const std::size_t elements = element_bytes(static_cast<DataType>(request.type)) * comm.ranks;
  if (__builtin_mul_overflow(request.count, elements, &bytes) || bytes > PTRDIFF_MAX) {
    wrong("count " + std::to_string(request.count) + " is more than memory can hold");
  }
  wrong("sendbuff (" + hex(request.in) + ") and recvbuff (" + hex(request.out) +
        ") overlap, and not as this collective allows in place");
}

/// Whether type, root, buffers and count are right.  The operator is looked at elsewhere.
inline bool arguments_are_right(const Request& request, const ncclComm& comm) noexcept {
  if (static_cast<unsigned>(request.type) >= data_type_count) return false;
  if (static_cast<unsigned>(request.root) >= static_cast<unsigned>(comm.ranks)) return false;
  if (static_cast<unsigned>(request.peer) >= static_cast<unsigned>(comm.ranks)) return false;
  if (request.count == 0) return true;
  const Extent blocks = extent(request, comm);
  if ((blocks.in > 0 && request.in == nullptr) || (blocks.out > 0 && request.out == nullptr)) return false;
  const std::size_t block = element_bytes(static_cast<DataType>(request.type)) * request.count;
  std::size_t all = 0;
  const std::size_t elements = element_bytes(static_cast<DataType>(request.type)) * comm.ranks;
  if (__builtin_mul_overflow(request.count, elements, &all) || all > PTRDIFF_MAX) return false;
  if (blocks.in == 0 || blocks.out == 0) return true;
  const auto in = reinterpret_cast<std::uintptr_t>(request.in);
  const auto out = reinterpret_cast<std::uintptr_t>(request.out);
  if (blocks.in_place && in + blocks.out_at * block == out + blocks.in_at * block) return true;
  return in + blocks.in * block <= out || out + blocks.out * block <= in;
}

/// The operator of ncclRedOpCreatePreMulSum that `op` names.  Throws Error.
PreMulSum find_operator(ncclComm& comm, int op, int type) {
  const std::lock_guard lock(comm.mutex);
  const std::size_t index = static_cast<std::size_t>(op - ncclNumOps);
  if (op < ncclNumOps || index >= comm.operators.size() || !comm.operators[index].alive) {
    throw Error(Code::invalid_argument, "op " + std::to_string(op) +
                                            " is none of ncclSum (0) to ncclAvg (4), nor an operator of this "
                                            "communicator that was created and not destroyed");
  }
  const PreMulSum& found = comm.operators[index];
  if (found.type != static_cast<DataType>(type)) {
    throw Error(Code::invalid_argument, "op " + std::to_string(op) + " was created for datatype " +
                                            std::to_string(static_cast<int>(found.type)) + ", and the call has " +
                                            std::to_string(type));
  }
  return found;
}

/// The operator is premul_sum where it is none of the built-in ones.
inline Call call_of(const Request& request) noexcept {
  const bool built_in = static_cast<unsigned>(request.op) < ncclNumOps;
  return {request.kind,
          request.in,
          request.out,
          request.count,
          static_cast<DataType>(request.type),
          built_in ? static_cast<Operator>(request.op) : Operator::premul_sum,
          0,
          request.root,
          request.peer,
          request.receives};
}

/// Everything but a call of a built-in operator without stream and group: errors as well.
[[gnu::noinline]] ncclResult_t run_slowly(Request request, ncclComm_t comm, cudaStream_t stream) {
  return guarded(request.name, [&] {
    check_ready(comm);
    if (!arguments_are_right(request, *comm)) explain(request, *comm);
    Call call = call_of(request);
    const void* device_scalar = nullptr;
    if (call.op == Operator::premul_sum) {
      const PreMulSum op = find_operator(*comm, request.op, request.type);
      call.scalar = op.bits;
      device_scalar = op.device_scalar;
    }
    std::shared_ptr<Queue> queue = stream != nullptr ? find_queue(stream) : nullptr;
    if (request.count == 0) return ncclSuccess;
    if (group::depth > 0) {
      group::add(comm, call, device_scalar, std::move(queue));
      return ncclSuccess;
    }
    if (queue != nullptr) {
      queue->push_call(comm, call, device_scalar);
      return ncclSuccess;
    }
    Batch batch;
    batch.add(comm, call, device_scalar, false);
    batch.take_turns();
    std::string sentence;
    const Status status = batch.run(Patience::caller, sentence);
    return status.ok() ? ncclSuccess : fail(status.code, std::string(request.name) + ": " + sentence);
  });
}

[[gnu::noinline]] ncclResult_t report(Request request, ncclComm* comm, Status status) {
  return guarded(request.name, [&] {
    const std::string sentence = comm->failure_sentence();
    return fail(status.code, std::string(request.name) + ": " + (sentence.empty() ? "the call failed" : sentence));
  });
}

/// A call without a stream, outside a group, of a thread that does not own the communicator; or a wrong one.
[[gnu::noinline]] ncclResult_t run_in_turn(Request request, ncclComm_t comm) {
  const Use use(comm);
  if (!in_state(comm, State::ready) || static_cast<unsigned>(request.op) >= ncclNumOps || request.count == 0 ||
      !arguments_are_right(request, *comm)) [[unlikely]] {
    return run_slowly(request, comm, nullptr);
  }
  const std::uint64_t turn = comm->communicator->order().take_turns(1);
  const Status status = run_call(*comm->communicator, call_of(request), turn);
  return status.ok() ? ncclSuccess : report(request, comm, status);
}

/// A right call without a stream, in a group.
[[gnu::noinline]] ncclResult_t collect(Request request, ncclComm_t comm) {
  return guarded(request.name, [&] {
    group::add(comm, call_of(request), nullptr, nullptr);
    return ncclSuccess;
  });
}

[[gnu::always_inline]] inline ncclResult_t run(const Request& request, ncclComm_t comm, cudaStream_t stream) {
  if (!in_state(comm, State::ready) || stream != nullptr) [[unlikely]] {
    return run_slowly(request, comm, stream);
  }
  if (group::depth > 0) {
    const bool right = static_cast<unsigned>(request.op) < ncclNumOps && request.count > 0;
    if (!right || !arguments_are_right(request, *comm)) [[unlikely]]
      return run_slowly(request, comm, stream);
    return group::add_quickly(comm, call_of(request)) ? ncclSuccess : collect(request, comm);
  }
  const bool built_in = static_cast<unsigned>(request.op) < ncclNumOps && request.count > 0;
  if (const Stay stay(comm->communicator->order()); stay && built_in && arguments_are_right(request, *comm))
      [[likely]] {
    const Status status = run_call(*comm->communicator, call_of(request), CallOrder::entered);
    return status.ok() ? ncclSuccess : report(request, comm, status);
  }
  return run_in_turn(request, comm);
}

/// This rank, or anything where `comm` is no communicator: the call says so then.
int own_rank(ncclComm_t comm) noexcept { return is_handle(comm) ? comm->rank : 0; }

}  // namespace
}  // namespace rondo::api

using namespace rondo;

extern "C" {

ncclResult_t pncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                            ncclComm_t comm, cudaStream_t stream) {
  return api::run({"ncclAllReduce", CollectiveKind::all_reduce, sendbuff, recvbuff, count, datatype, op, 0}, comm,
                  stream);
}

ncclResult_t pncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                                ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return api::run({"ncclReduceScatter", CollectiveKind::reduce_scatter, sendbuff, recvbuff, recvcount, datatype, op, 0},
                  comm, stream);
}

ncclResult_t pncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                            ncclComm_t comm, cudaStream_t stream) {
  return api::run({"ncclAllGather", CollectiveKind::all_gather, sendbuff, recvbuff, sendcount, datatype, ncclSum, 0},
                  comm, stream);
}

ncclResult_t pncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                            ncclComm_t comm, cudaStream_t stream) {
  return api::run({"ncclBroadcast", CollectiveKind::broadcast, sendbuff, recvbuff, count, datatype, ncclSum, root},
                  comm, stream);
}

ncclResult_t pncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                        cudaStream_t stream) {
  return api::run({"ncclBcast", CollectiveKind::broadcast, buff, buff, count, datatype, ncclSum, root}, comm, stream);
}

ncclResult_t pncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                         int root, ncclComm_t comm, cudaStream_t stream) {
  return api::run({"ncclReduce", CollectiveKind::reduce, sendbuff, recvbuff, count, datatype, op, root}, comm, stream);
}

ncclResult_t pncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                         ncclComm_t comm, cudaStream_t stream) {
  return api::run({"ncclGather", CollectiveKind::gather, sendbuff, recvbuff, count, datatype, ncclSum, root}, comm,
                  stream);
}

ncclResult_t pncclScatter(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                          ncclComm_t comm, cudaStream_t stream) {
  return api::run({"ncclScatter", CollectiveKind::scatter, sendbuff, recvbuff, count, datatype, ncclSum, root}, comm,
                  stream);
}

ncclResult_t pncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                           cudaStream_t stream) {
  return api::run({"ncclAlltoAll", CollectiveKind::all_to_all, sendbuff, recvbuff, count, datatype, ncclSum, 0}, comm,
                  stream);
}

ncclResult_t pncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                       cudaStream_t stream) {
  return api::run({"ncclSend", CollectiveKind::send_recv, sendbuff, nullptr, count, datatype, ncclSum,
                   api::own_rank(comm), peer, false},
                  comm, stream);
}

ncclResult_t pncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                       cudaStream_t stream) {
  // A wrong peer must be called that, not a root.
  const int own = api::own_rank(comm);
  const bool inside = api::is_handle(comm) && peer >= 0 && peer < comm->ranks;
  return api::run({"ncclRecv", CollectiveKind::send_recv, nullptr, recvbuff, count, datatype, ncclSum,
                   inside ? peer : own, inside ? own : peer, true},
                  comm, stream);
}

ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                       ncclScalarResidence_t residence, ncclComm_t comm) {
  return api::guarded("ncclRedOpCreatePreMulSum", [&] {
    api::check_ready(comm);
    if (op == nullptr || scalar == nullptr) {
      throw Error(Code::invalid_argument, std::string(op == nullptr ? "op" : "scalar") + " is NULL");
    }
    if (static_cast<unsigned>(datatype) >= data_type_count) {
      throw Error(Code::invalid_argument, "datatype " + std::to_string(datatype) + " is none of NCCL's");
    }
    if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate) {
      throw Error(Code::invalid_argument, "residence " + std::to_string(residence) +
                                              " is neither ncclScalarDevice nor ncclScalarHostImmediate");
    }
    const auto type = static_cast<DataType>(datatype);
    const bool immediate = residence == ncclScalarHostImmediate;
    const api::PreMulSum made{true, type, immediate ? scalar_bits(scalar, type) : 0, immediate ? nullptr : scalar};
    const std::lock_guard lock(comm->mutex);
    std::size_t index = 0;
    while (index < comm->operators.size() && comm->operators[index].alive) ++index;
    if (index == comm->operators.size()) comm->operators.emplace_back();
    comm->operators[index] = made;
    *op = static_cast<ncclRedOp_t>(ncclNumOps + static_cast<int>(index));
    return ncclSuccess;
  });
}

ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return api::guarded("ncclRedOpDestroy", [&] {
    api::check_handle(comm);
    const std::lock_guard lock(comm->mutex);
    const std::size_t index = static_cast<std::size_t>(op) - ncclNumOps;
    if (op < ncclNumOps || index >= comm->operators.size() || !comm->operators[index].alive) {
      throw Error(
          Code::invalid_argument,
          "op " + std::to_string(op) + " is no operator of this communicator that was created and not destroyed");
    }
    comm->operators[index].alive = false;
    return ncclSuccess;
  });
}

// The weak names that programs call.
[[gnu::weak, gnu::alias("pncclAllReduce")]] decltype(ncclAllReduce) ncclAllReduce;
[[gnu::weak, gnu::alias("pncclReduceScatter")]] decltype(ncclReduceScatter) ncclReduceScatter;
[[gnu::weak, gnu::alias("pncclAllGather")]] decltype(ncclAllGather) ncclAllGather;
[[gnu::weak, gnu::alias("pncclBroadcast")]] decltype(ncclBroadcast) ncclBroadcast;
[[gnu::weak, gnu::alias("pncclBcast")]] decltype(ncclBcast) ncclBcast;
[[gnu::weak, gnu::alias("pncclReduce")]] decltype(ncclReduce) ncclReduce;
[[gnu::weak, gnu::alias("pncclGather")]] decltype(ncclGather) ncclGather;
[[gnu::weak, gnu::alias("pncclScatter")]] decltype(ncclScatter) ncclScatter;
[[gnu::weak, gnu::alias("pncclAlltoAll")]] decltype(ncclAlltoAll) ncclAlltoAll;
[[gnu::weak, gnu::alias("pncclSend")]] decltype(ncclSend) ncclSend;
[[gnu::weak, gnu::alias("pncclRecv")]] decltype(ncclRecv) ncclRecv;
[[gnu::weak, gnu::alias("pncclRedOpCreatePreMulSum")]] decltype(ncclRedOpCreatePreMulSum) ncclRedOpCreatePreMulSum;
[[gnu::weak, gnu::alias("pncclRedOpDestroy")]] decltype(ncclRedOpDestroy) ncclRedOpDestroy;

}  // extern "C"
