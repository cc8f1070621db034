// See collectives.h.  Sizes and bus factors are nccl-tests' (its doc/PERFORMANCE.md derives the factors).
#include "collectives.h"

#include <cstring>

namespace rondo::perf {

namespace {

Counts whole(std::size_t elements, std::size_t, int) { return {elements, elements, elements}; }

// A rank's share of the elements, rounded down to 16 bytes.
std::size_t share(std::size_t elements, std::size_t element_bytes, int ranks) {
  const std::size_t unit = 16 / element_bytes;
  return elements / static_cast<std::size_t>(ranks) / unit * unit;
}

Counts parts_of_all(std::size_t elements, std::size_t element_bytes, int ranks) {
  const std::size_t count = share(elements, element_bytes, ranks);
  const std::size_t all = count * static_cast<std::size_t>(ranks);
  return {count, all, all};
}

/// A communicator's rank and size, and the bytes of a call's block.
struct Blocks {
  Blocks(const Call& call, ncclComm_t communicator) : bytes(call.count * call.element_bytes) {
    (void)ncclCommUserRank(communicator, &rank);
    (void)ncclCommCount(communicator, &ranks);
  }
  std::size_t bytes;
  int rank = 0;
  int ranks = 1;
};
const std::byte* at(const void* data, std::size_t bytes) { return static_cast<const std::byte*>(data) + bytes; }
std::byte* at(void* data, std::size_t bytes) { return static_cast<std::byte*>(data) + bytes; }

/// Calls in a group; the first failure counts.
ncclResult_t grouped(auto&& calls) {
  if (const ncclResult_t result = ncclGroupStart(); result != ncclSuccess) return result;
  const ncclResult_t called = calls();
  const ncclResult_t ended = ncclGroupEnd();
  return called != ncclSuccess ? called : ended;
}
ncclResult_t exchange(const void* send, std::size_t send_count, int to, void* receive, std::size_t receive_count,
                      int from, ncclDataType_t type, ncclComm_t communicator) {
  const ncclResult_t sent = ncclSend(send, send_count, type, to, communicator, nullptr);
  return sent != ncclSuccess ? sent : ncclRecv(receive, receive_count, type, from, communicator, nullptr);
}

/// Parts of 1, 2 .. n units, in another order from each rank; a rank sends as much as it receives.
Part uneven_part(std::size_t count, int from, int to, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t unit = count * n / (n * (n + 1) / 2);
  std::size_t first = 0;
  const auto units = [&](int target) { return static_cast<std::size_t>((from + target) % ranks) + 1; };
  for (int target = 0; target < to; ++target) first += units(target) * unit;
  return {first, units(to) * unit};
}
Part even_part(std::size_t count, int, int to, int) { return {static_cast<std::size_t>(to) * count, count}; }

double once(int) { return 1; }
double all_but_one(int ranks) { return static_cast<double>(ranks - 1) / ranks; }

}  // namespace

const Collective all_reduce{"all_reduce_perf",
                            "ncclAllReduce",
                            Result::reduced,
                            whole,
                            [](int ranks) { return 2 * all_but_one(ranks); },
                            [](const void* send, void* receive, const Call& call, ncclComm_t communicator) {
                              return ncclAllReduce(send, receive, call.count, call.type, call.op, communicator,
                                                   nullptr);
                            }};

const Collective all_gather{"all_gather_perf",
                            "ncclAllGather",
                            Result::gathered,
                            [](std::size_t elements, std::size_t element_bytes, int ranks) {
                              const std::size_t count = share(elements, element_bytes, ranks);
                              return Counts{count, count, count * static_cast<std::size_t>(ranks)};
                            },
                            all_but_one,
                            [](const void* send, void* receive, const Call& call, ncclComm_t communicator) {
                              return ncclAllGather(send, receive, call.count, call.type, communicator, nullptr);
                            }};

const Collective reduce_scatter{"reduce_scatter_perf",
                                "ncclReduceScatter",
                                Result::reduced_part,
                                [](std::size_t elements, std::size_t element_bytes, int ranks) {
                                  const std::size_t count = share(elements, element_bytes, ranks);
                                  return Counts{count, count * static_cast<std::size_t>(ranks), count};
                                },
                                all_but_one,
                                [](const void* send, void* receive, const Call& call, ncclComm_t communicator) {
                                  return ncclReduceScatter(send, receive, call.count, call.type, call.op, communicator,
                                                           nullptr);
                                }};

const Collective broadcast{"broadcast_perf",
                           "ncclBroadcast",
                           Result::root_data,
                           whole,
                           once,
                           [](const void* send, void* receive, const Call& call, ncclComm_t communicator) {
                             return ncclBroadcast(send, receive, call.count, call.type, call.root, communicator,
                                                  nullptr);
                           }};

const Collective reduce{"reduce_perf",
                        "ncclReduce",
                        Result::reduced_at_root,
                        whole,
                        once,
                        [](const void* send, void* receive, const Call& call, ncclComm_t communicator) {
                          return ncclReduce(send, receive, call.count, call.type, call.op, call.root, communicator,
                                            nullptr);
                        }};

const Collective gather{"gather_perf",
                        "ncclGather",
                        Result::gathered_at_root,
                        all_gather.counts,
                        all_but_one,
                        [](const void* send, void* receive, const Call& call, ncclComm_t communicator) {
                          return ncclGather(send, receive, call.count, call.type, call.root, communicator, nullptr);
                        }};

const Collective scatter{"scatter_perf",
                         "ncclScatter",
                         Result::root_part,
                         reduce_scatter.counts,
                         all_but_one,
                         [](const void* send, void* receive, const Call& call, ncclComm_t communicator) {
                           return ncclScatter(send, receive, call.count, call.type, call.root, communicator, nullptr);
                         }};

const Collective all_to_all{"alltoall_perf",
                            "ncclAlltoAll",
                            Result::from_all,
                            parts_of_all,
                            all_but_one,
                            [](const void* send, void* receive, const Call& call, ncclComm_t communicator) {
                              return ncclAlltoAll(send, receive, call.count, call.type, communicator, nullptr);
                            },
                            false,
                            even_part};

const Collective all_to_all_v{"alltoallv_perf",
                              "ncclSend and ncclRecv",
                              Result::from_all,
                              parts_of_all,
                              all_but_one,
                              [](const void* send, void* receive, const Call& call, ncclComm_t communicator) {
                                const Blocks blocks(call, communicator);
                                const std::size_t size = call.element_bytes;
                                return grouped([&] {
                                  ncclResult_t result = ncclSuccess;
                                  std::size_t filled = 0;
                                  for (int peer = 0; peer < blocks.ranks && result == ncclSuccess; ++peer) {
                                    const Part out = uneven_part(call.count, blocks.rank, peer, blocks.ranks);
                                    const Part in = uneven_part(call.count, peer, blocks.rank, blocks.ranks);
                                    result =
                                        exchange(at(send, out.first * size), out.count, peer,
                                                 at(receive, filled * size), in.count, peer, call.type, communicator);
                                    filled += in.count;
                                  }
                                  return result;
                                });
                              },
                              false,
                              uneven_part};

const Collective send_receive{
    "sendrecv_perf",
    "ncclSend and ncclRecv",
    Result::from_previous,
    whole,
    once,
    [](const void* send, void* receive, const Call& call, ncclComm_t communicator) {
      const Blocks blocks(call, communicator);
      const int next = (blocks.rank + 1) % blocks.ranks;
      const int previous = (blocks.rank + blocks.ranks - 1) % blocks.ranks;
      return grouped(
          [&] { return exchange(send, call.count, next, receive, call.count, previous, call.type, communicator); });
    },
    false};

// An all-gather: in round d, ranks whose numbers differ in bit d exchange the 2^d blocks that each has.
const Collective hypercube{"hypercube_perf",
                           "ncclSend and ncclRecv",
                           Result::gathered,
                           all_gather.counts,
                           once,
                           [](const void* send, void* receive, const Call& call, ncclComm_t communicator) {
                             const Blocks blocks(call, communicator);
                             std::byte* const own = at(receive, static_cast<std::size_t>(blocks.rank) * blocks.bytes);
                             if (own != send && blocks.bytes > 0) std::memcpy(own, send, blocks.bytes);
                             ncclResult_t result = ncclSuccess;
                             for (int have = 1; have < blocks.ranks && result == ncclSuccess; have *= 2) {
                               const int peer = blocks.rank ^ have;
                               const auto mine = static_cast<std::size_t>(blocks.rank / have * have);
                               const auto theirs = static_cast<std::size_t>(peer / have * have);
                               const std::size_t count = call.count * static_cast<std::size_t>(have);
                               result = grouped([&] {
                                 return exchange(at(receive, mine * blocks.bytes), count, peer,
                                                 at(receive, theirs * blocks.bytes), count, peer, call.type,
                                                 communicator);
                               });
                             }
                             return result;
                           },
                           true,
                           nullptr,
                           all_but_one,
                           true};

}  // namespace rondo::perf
