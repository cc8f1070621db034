// See collectives.h.  Sizes and bus factors are nccl-tests' (its doc/PERFORMANCE.md derives the factors).
#include "collectives.h"

namespace rondo::perf {

namespace {

Counts whole(std::size_t elements, std::size_t, int) { return {elements, elements, elements}; }

// A rank's share of the elements, rounded down to 16 bytes.
std::size_t share(std::size_t elements, std::size_t element_bytes, int ranks) {
  const std::size_t unit = 16 / element_bytes;
  return elements / static_cast<std::size_t>(ranks) / unit * unit;
}

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

}  // namespace rondo::perf
