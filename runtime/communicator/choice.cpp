// The shipped table, and what the environment leaves of it: see choice.h.
#include "communicator/choice.h"

#include <algorithm>
#include <cassert>
#include <initializer_list>
#include <utility>

#include "base/algorithm_list.h"
#include "base/env.h"
#include "base/result.h"

namespace rondo {
namespace {

using plan::Algorithm;

// Measured on two cores: up to this many bytes for all peers together, one hop beats fewer bytes.
constexpr std::uint64_t near_one_shot_bytes_max = 8 * 1024;  // shared memory
constexpr std::uint64_t far_one_shot_bytes_max = 96 * 1024;  // TCP
// Direct schedules link every rank with every other; beyond this many ranks a ring's two links a rank are enough.
constexpr int direct_ranks_max = 8;
// By the cost model: up to one message, a chain's hops cost more than a tree's; longer ones fill the chain.
constexpr std::uint64_t tree_bytes_max = 32 * 1024;

/// NCCL's name for a chain broadcast or reduce is ring.
bool named(const AlgorithmList& list, CollectiveKind kind, Algorithm algorithm) {
  const bool is_ring = algorithm == Algorithm::chain && kind != CollectiveKind::all_reduce;
  return list.allows(kind, plan::name(algorithm)) || (is_ring && list.allows(kind, "ring"));
}

std::string names_of(CollectiveKind kind) {
  std::string names;
  for (const plan::Schedule& schedule : plan::schedules()) {
    if (schedule.kind == kind) names += (names.empty() ? "" : ", ") + std::string(plan::name(schedule.algorithm));
  }
  return names;
}

/// Best first; what is not named comes behind, in the order of plan::schedules().
std::initializer_list<Algorithm> preferences(CollectiveKind kind, std::uint64_t bytes, bool small,
                                             bool direct) noexcept {
  static constexpr auto quick = {Algorithm::one_shot, Algorithm::two_shot};
  static constexpr auto close = {Algorithm::two_shot};
  static constexpr auto far = {Algorithm::ring, Algorithm::two_shot};
  static constexpr auto scatter_close = {Algorithm::direct};
  static constexpr auto tree = {Algorithm::binomial};
  static constexpr std::initializer_list<Algorithm> first = {};
  switch (kind) {
    case CollectiveKind::all_reduce: return small ? quick : direct ? close : far;
    case CollectiveKind::reduce_scatter: return direct ? scatter_close : first;
    case CollectiveKind::reduce: return bytes <= tree_bytes_max ? tree : first;
    default: return first;
  }
}

}  // namespace

Chooser::Chooser(int ranks, bool far, Tuning tuning) : ranks_(ranks), far_(far), tuning_(std::move(tuning)) {
  const std::string text = env::text("NCCL_ALGO").value_or("");
  const AlgorithmList list = AlgorithmList::parse(text);
  const bool deterministic = env::integer("RONDO_DETERMINISTIC", 0, 1) != 0;
  std::uint32_t shipped[kinds] = {};
  std::uint32_t asked[kinds] = {};
  for (const plan::Schedule& schedule : plan::schedules()) {
    const int kind = static_cast<int>(schedule.kind);
    const std::uint32_t bit = 1u << static_cast<int>(schedule.algorithm);
    const bool suits = !deterministic || !plan::Collective{schedule.kind}.reduces() || schedule.left_fold;
    if (named(list, schedule.kind, schedule.algorithm)) asked[kind] |= bit;
    if (suits) shipped[kind] |= bit;
  }
  bool heeded = false;
  std::string refused;
  for (int i = 0; i < kinds; ++i) {
    const auto kind = static_cast<CollectiveKind>(i);
    allowed_[i] = shipped[i] & asked[i];
    if (!list.restricts(kind) || names_of(kind).empty()) continue;
    if (allowed_[i] != 0) {
      heeded = true;
      continue;
    }
    refused = "NCCL_ALGO=" + text + " leaves no " + (deterministic ? "deterministic " : "") + "algorithm for " +
              std::string(plan::name(kind)) + ", which has: " + names_of(kind);
    // A list without a function speaks of every collective; those that have none of its algorithms keep their own.
    allowed_[i] = shipped[i];
    if (asked[i] != 0) throw Error(Code::invalid_usage, refused + " (RONDO_DETERMINISTIC=1).");
  }
  if (!refused.empty() && !heeded) throw Error(Code::invalid_usage, refused + ".");
}

bool Chooser::allowed(CollectiveKind kind, Algorithm algorithm) const noexcept {
  return (allowed_[static_cast<int>(kind)] >> static_cast<int>(algorithm) & 1u) != 0;
}

/// Bytes of a call.
std::uint64_t Chooser::one_shot_bytes_max() const noexcept {
  // Between two ranks one hop carries no more bytes than two do, and they need not wait for each other in between.
  if (far_ && ranks_ <= 2) return std::uint64_t{1} << 62;
  const std::uint64_t bytes = far_ ? far_one_shot_bytes_max : near_one_shot_bytes_max;
  return bytes / static_cast<std::uint64_t>(std::max(ranks_ - 1, 1));
}

std::string Chooser::settings(const Tuning& tuning) {
  std::string text;
  for (const char* name : {"NCCL_ALGO", "RONDO_DETERMINISTIC"}) {
    if (const auto value = env::text(name)) text.append(name).append("=").append(*value).append(" ");
  }
  if (!tuning.empty()) text.append("RONDO_TUNE_FILE=").append(std::to_string(tuning.digest())).append(" (its digest) ");
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

Choice Chooser::choose(CollectiveKind kind, std::uint64_t bytes) const noexcept {
  if (const auto tuned = tuning_.find(kind, bytes); tuned && allowed(kind, *tuned)) {
    return {*tuned, {}, "RONDO_TUNE_FILE"};
  }
  const bool small = bytes <= one_shot_bytes_max();
  for (const Algorithm algorithm : preferences(kind, bytes, small, !far_ && ranks_ <= direct_ranks_max)) {
    if (allowed(kind, algorithm)) return {algorithm, {}, "the shipped table"};
  }
  for (const plan::Schedule& schedule : plan::schedules()) {
    if (schedule.kind == kind && allowed(kind, schedule.algorithm)) {
      return {schedule.algorithm, {}, "the first that is allowed"};
    }
  }
  assert(false && "the constructor leaves at least one algorithm");
  return {};
}

std::vector<std::string> Chooser::describe() const {
  std::vector<std::string> lines;
  constexpr std::uint64_t most = 1u << 30;
  for (int i = 0; i < kinds; ++i) {
    const auto kind = static_cast<CollectiveKind>(i);
    if (names_of(kind).empty()) continue;
    const Algorithm quick = choose(kind, 1).algorithm, large = choose(kind, most).algorithm;
    std::string line = std::string(plan::name(kind)) + ": " + std::string(plan::name(quick));
    if (quick != large) {
      std::uint64_t below = 1, above = most;  // where one gives way to the other
      while (above - below > 1) {
        const std::uint64_t middle = (below + above) / 2;
        (choose(kind, middle).algorithm == quick ? below : above) = middle;
      }
      line += " up to " + std::to_string(below) + " bytes, " + std::string(plan::name(large)) + " above";
    }
    lines.push_back(line);
  }
  return lines;
}

}  // namespace rondo
