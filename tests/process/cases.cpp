// What a call of any collective is, drawn at random, what goes into its buffers and what must come out: see cases.h.
#include "cases.h"

#include <algorithm>
#include <stdexcept>

namespace rondo::test {
namespace {

bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
         collective == Collective::reduce;
}

Placement placement(const Case& c, int rank, int ranks) {
  const std::size_t all = static_cast<std::size_t>(ranks) * c.count;
  const std::size_t place = static_cast<std::size_t>(rank) * c.count;
  const bool root = rank == c.root;
  switch (c.collective) {
    case Collective::reduce_scatter: return {all, c.count, place};
    case Collective::all_gather: return {c.count, all, place};
    case Collective::reduce: return {c.count, root ? c.count : 0};
    case Collective::gather: return {c.count, root ? all : 0, root ? place : 0};
    case Collective::scatter: return {root ? all : 0, c.count, root ? place : 0};
    case Collective::all_to_all: return {all, all};
    default: return {c.count, c.count};
  }
}

ncclResult_t call(const Case& c, const void* in, void* out, ncclRedOp_t op, ncclComm_t comm, cudaStream_t queue) {
  switch (c.collective) {
    case Collective::all_reduce: return ncclAllReduce(in, out, c.count, c.type, op, comm, queue);
    case Collective::reduce_scatter: return ncclReduceScatter(in, out, c.count, c.type, op, comm, queue);
    case Collective::all_gather: return ncclAllGather(in, out, c.count, c.type, comm, queue);
    case Collective::reduce: return ncclReduce(in, out, c.count, c.type, op, c.root, comm, queue);
    case Collective::gather: return ncclGather(in, out, c.count, c.type, c.root, comm, queue);
    case Collective::scatter: return ncclScatter(in, out, c.count, c.type, c.root, comm, queue);
    case Collective::all_to_all: return ncclAlltoAll(in, out, c.count, c.type, comm, queue);
    default: return ncclBroadcast(in, out, c.count, c.type, c.root, comm, queue);
  }
}

std::string check_result(const Case& c, const Pattern& pattern, const std::byte* out, int rank, int ranks) {
  const std::size_t own = static_cast<std::size_t>(rank) * c.count;
  switch (c.collective) {
    case Collective::reduce:
    case Collective::all_reduce: return pattern.check_reduced(out, 0, c.count);
    case Collective::reduce_scatter: return pattern.check_reduced(out, own, c.count);
    case Collective::broadcast: return pattern.check_filled(out, c.root, 0, c.count);
    case Collective::scatter: return pattern.check_filled(out, c.root, own, c.count);
    default:
      const std::size_t first = c.collective == Collective::all_to_all ? own : 0;
      for (int from = 0; from < ranks; ++from) {
        const auto* const block = out + static_cast<std::size_t>(from) * c.count * bytes_of(c.type);
        if (std::string wrong = pattern.check_filled(block, from, first, c.count); !wrong.empty()) {
          return "block of rank " + std::to_string(from) + ": " + wrong;
        }
      }
      return {};
  }
}

}  // namespace

std::string Case::text() const {
  static constexpr const char* names[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                          "reduce",     "gather",         "scatter",    "all_to_all"};
  static constexpr const char* kinds[] = {"sum", "prod", "max", "min", "avg", "premul_sum", "move"};
  return std::string(names[static_cast<int>(collective)]) + " " + kinds[static_cast<int>(kind)] + " type " +
         std::to_string(type) + " count " + std::to_string(count) + " root " + std::to_string(root) +
         (in_place ? " in place" : "") + " memory " + std::to_string(memory);
}

Case draw(std::mt19937& random, int ranks, bool large) {
  const auto pick = [&](unsigned below) { return random() % below; };
  Case c;
  const unsigned which = pick(10);  // most algorithms are all_reduce's
  c.collective = which < 8 ? static_cast<Collective>(which) : Collective::all_reduce;
  c.type = types[pick(12)];
  c.kind = reduces(c.collective) ? static_cast<Kind>(pick(6)) : Kind::move;
  const bool power_of_two = (ranks & (ranks - 1)) == 0;
  if (c.kind == Kind::avg && is_float(c.type) && !power_of_two) c.kind = Kind::sum;
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t counts[] = {0, 1, n - 1, n, n + 1, 7919};
  c.count = large ? 1'000'003 / (c.collective == Collective::all_reduce ? 1 : n) : counts[pick(6)];
  c.root = static_cast<int>(pick(static_cast<unsigned>(ranks)));
  c.in_place = pick(2) != 0 && c.collective != Collective::all_to_all;
  // All plain, all mapped, or mixed between ranks, and between in and out of a rank.
  const unsigned mode = pick(3);
  c.memory = mode == 0 ? 0 : mode == 1 ? ~0u : static_cast<unsigned>(random());
  return c;
}

Op::Op(const Case& c, int rank, ncclComm_t comm) : comm_(c.kind == Kind::premul_sum ? comm : nullptr) {
  static constexpr ncclRedOp_t builtin[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg, ncclSum, ncclSum};
  op_ = builtin[static_cast<int>(c.kind)];
  if (comm_ == nullptr) return;
  const bool at_once = c.count % 2 == 0;
  scalar_ = at_once ? encode(c.type, 1 + rank % 2) : 0;
  const auto residence = at_once ? ncclScalarHostImmediate : ncclScalarDevice;
  expect_success(ncclRedOpCreatePreMulSum(&op_, &scalar_, c.type, residence, comm), "premul_sum");
  scalar_ = at_once ? 0 : encode(c.type, 1 + rank % 2);
}

Op::~Op() {
  if (comm_ != nullptr) ncclRedOpDestroy(op_, comm_);
}

CaseOnRank::CaseOnRank(const Case& c, int rank, int ranks, ncclComm_t comm)
    : case_(c),
      rank_(rank),
      ranks_(ranks),
      comm_(comm),
      placement_(placement(c, rank, ranks)),
      pattern_(c.kind, c.type, ranks),
      op_(c, rank, comm) {
  const std::size_t element = bytes_of(c.type);
  const bool in_mapped = (c.memory >> (2 * rank) & 1) != 0;
  const bool out_mapped = (c.memory >> (2 * rank + 1) & 1) != 0;
  if (c.in_place) {
    out_ = std::make_unique<Buffer>(std::max(placement_.in_count, placement_.out_count) * element, out_mapped);
    in_at_ = out_at_ = out_->data();
    (placement_.in_count > placement_.out_count ? out_at_ : in_at_) += placement_.place * element;
  } else {
    in_ = std::make_unique<Buffer>(placement_.in_count * element, in_mapped);
    out_ = std::make_unique<Buffer>(placement_.out_count * element, out_mapped);
    in_at_ = in_->data();
    out_at_ = out_->data();
  }
}

void CaseOnRank::prepare() {
  out_->scribble();
  pattern_.fill(in_at_, rank_, 0, placement_.in_count);
}

ncclResult_t CaseOnRank::run(cudaStream_t queue) { return call(case_, in_at_, out_at_, op_.get(), comm_, queue); }

void CaseOnRank::check() {
  if (placement_.out_count > 0) fail_if(check_result(case_, pattern_, out_at_, rank_, ranks_));
  if (in_ != nullptr) {
    fail_if(pattern_.check_filled(in_at_, rank_, 0, placement_.in_count));
    in_->scribble();  // a blocking call that has returned leaves its buffers to the caller
  } else if (placement_.in_count > placement_.out_count) {  // what the output does not cover is as it was, too
    const std::size_t after = placement_.place + placement_.out_count;
    fail_if(pattern_.check_filled(in_at_, rank_, 0, placement_.place));
    fail_if(pattern_.check_filled(in_at_ + after * bytes_of(case_.type), rank_, after, placement_.in_count - after));
  }
  out_->scribble();
  if (!out_->untouched_outside() || (in_ != nullptr && !in_->untouched_outside())) fail_if("bytes outside");
}

}  // namespace rondo::test
