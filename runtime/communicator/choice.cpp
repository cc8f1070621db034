// The shipped table, and what the environment leaves of it: see choice.h.
#include "communicator/choice.h"

#include <algorithm>
#include <cassert>
#include <cctype>
#include <initializer_list>
#include <optional>
#include <utility>

#include "base/algorithm_list.h"
#include "base/env.h"
#include "base/result.h"
#include "communicator/bundle.h"

namespace rondo {
namespace {

using plan::Algorithm;

// Measured on two cores: up to this many bytes for all peers together, one hop beats fewer bytes; by TCP, and through
// slots.
constexpr std::uint64_t one_shot_bytes_max_of_all = 96 * 1024;
// Measured: from here on two hops within memory that all ranks map beat one through slots: between two ranks; between
// more (4 on 2 cores).
constexpr std::uint64_t lending_bytes_min[] = {2 * 1024, 16 * 1024};
// Measured, 4 ranks on 2 cores: ranks that share a cache push each other's slots out of it.  Smaller messages stay, but
// each costs memory that all ranks map a little.
constexpr std::uint64_t crowded_bytes_min = 2 * 1024 * 1024;
constexpr std::uint64_t crowded_bytes_many = 64 * 1024 * 1024;
constexpr std::size_t crowded_slot_bytes[] = {40 * 1024, 28 * 1024};
constexpr std::size_t crowded_slice_bytes_min = 8 * 1024;
// Direct schedules link every rank with every other, at 1 MiB a pair that shares memory.  Beyond this many ranks: fewer
// links.
constexpr int direct_ranks_max = 16;
// Measured at 1 Gbit/s: between 3 and 4 hosts two_shot, which waits for no forwarding, reaches more of the link than
// the ring; through one host's loopback, where processors are what is short, the ring is faster.
constexpr int few_hosts_max = 4;
// By the cost model, for more ranks than that: few hops up to here, then fewer bytes, then a ring's.
constexpr std::uint64_t doubling_bytes_max[] = {4 * 1024, 32 * 1024};  // shared memory; TCP
constexpr std::uint64_t halving_bytes_max = 512 * 1024;
// Measured on two cores: a root that lends must wait for its readers; up to here one that sends is sooner done.
constexpr std::uint64_t sent_broadcast_bytes_max = 8 * 1024;
// By the cost model: up to one message, a chain's hops cost more than a tree's; longer ones fill the chain.
constexpr std::uint64_t tree_bytes_max = 32 * 1024;
// Measured within a host (decision 79): a root of so many sums the rest itself sooner than all share the summing.
constexpr int tree_reduce_ranks_max = 4;
// By the cost model: up to here it is sooner that all sum and the root takes their parts, where each rank has a core;
// beyond, a chain that all keep busy.  Ranks that share cores gain by less work: measured.
constexpr std::uint64_t shared_reduce_bytes_max = 1024 * 1024;

/// Whether all messages go through links between ranks: trees' strands, which join through links of a rank to itself,
/// have slots of memory there.
bool carried_by_links_alone(Algorithm algorithm) {
  return algorithm == Algorithm::one_shot || algorithm == Algorithm::two_shot || algorithm == Algorithm::ring;
}

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

/// What a choice is made from.
struct Situation {
  int ranks = 0;
  std::uint64_t bytes = 0;
  bool small = false;   // one hop is best
  bool direct = false;  // few enough ranks for links between all
  bool far = false;
  bool crowded = false;       // ranks share cores
  bool shared_hosts = false;  // several hosts, and several ranks on some
  bool few_hosts = false;     // so few, each with one rank, that all send to all
};

using Preferences = std::initializer_list<Algorithm>;

/// Each list ends with one that reduces from rank 0 on, for RONDO_DETERMINISTIC: two_shot where every rank may link to
/// all, else the chain; between many ranks and by the cost model, star for what is small.
Preferences all_reduce_preferences(const Situation& s) noexcept {
  static constexpr Preferences quick = {Algorithm::one_shot, Algorithm::two_shot};
  static constexpr Preferences close = {Algorithm::two_shot};
  static constexpr Preferences few_hops = {Algorithm::recursive_doubling, Algorithm::ring, Algorithm::star};
  static constexpr Preferences still_few = {Algorithm::recursive_doubling, Algorithm::ring, Algorithm::chain};
  static constexpr Preferences fewer_bytes = {Algorithm::halving_doubling, Algorithm::ring, Algorithm::chain};
  static constexpr Preferences by_host = {Algorithm::hierarchical, Algorithm::ring, Algorithm::two_shot};
  static constexpr Preferences by_many = {Algorithm::hierarchical, Algorithm::ring, Algorithm::chain};
  static constexpr Preferences few_links = {Algorithm::ring, Algorithm::two_shot};
  static constexpr Preferences neighbours = {Algorithm::ring, Algorithm::chain};
  if (s.direct && s.small) return quick;
  if ((s.direct && !s.far) || s.few_hosts) return close;
  if (!s.direct && s.bytes <= doubling_bytes_max[0]) return few_hops;
  if (!s.direct && s.bytes <= doubling_bytes_max[s.far]) return still_few;
  if (s.shared_hosts) return s.direct ? by_host : by_many;
  if (!s.direct && s.bytes <= halving_bytes_max) return fewer_bytes;
  return s.direct ? few_links : neighbours;
}

Preferences reduce_preferences(const Situation& s) noexcept {
  static constexpr Preferences tree = {Algorithm::binomial, Algorithm::two_shot};
  static constexpr Preferences shared = {Algorithm::two_shot};
  static constexpr Preferences far_tree = {Algorithm::binomial, Algorithm::chain};
  static constexpr Preferences chain = {Algorithm::chain};
  const bool small = s.bytes <= tree_bytes_max;
  if (s.direct && !s.far) {
    if (small || s.ranks <= tree_reduce_ranks_max) return tree;
    return s.crowded || s.bytes <= shared_reduce_bytes_max ? shared : chain;
  }
  // Between two ranks a tree has one hop; a chain two, where rank 0 is the root.
  return small || s.ranks == 2 ? far_tree : chain;
}

/// Best first; what is not named comes behind, in the order of plan::schedules().
Preferences preferences(CollectiveKind kind, const Situation& s) noexcept {
  static constexpr Preferences close = {Algorithm::direct};
  static constexpr Preferences first = {};
  switch (kind) {
    case CollectiveKind::all_reduce: return all_reduce_preferences(s);
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_gather: return s.direct && !s.far ? close : first;
    case CollectiveKind::broadcast: return s.direct && !s.far && s.bytes > sent_broadcast_bytes_max ? close : first;
    case CollectiveKind::reduce: return reduce_preferences(s);
    default: return first;
  }
}

}  // namespace

Chooser::Chooser(int ranks, int hosts, Reach reach, bool crowded, Tuning tuning)
    : ranks_(ranks),
      hosts_(hosts),
      far_(reach != Reach::near),
      one_socket_(reach == Reach::one_socket),
      crowded_(crowded && hosts == 1 && !far_),
      tuning_(std::move(tuning)) {
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
  bool said = false;
  bool heeded = false;
  for (int i = 0; i < kinds; ++i) {
    const auto kind = static_cast<CollectiveKind>(i);
    said = said || list.restricts(kind);
    allowed_[i] = shipped[i] & asked[i];
    if (allowed_[i] != 0) {
      heeded = heeded || list.restricts(kind);
      continue;
    }
    // A list without a function speaks of every collective; those that have none of its algorithms keep their own.
    const std::string names = names_of(kind);
    if (names.empty() ? !list.names_function(kind)
                      : !list.names_function(kind) && !list.excludes(kind) && asked[i] == 0) {
      allowed_[i] = shipped[i];
      continue;
    }
    throw Error(Code::invalid_usage, "NCCL_ALGO=" + text + " leaves no " + (deterministic ? "deterministic " : "") +
                                         "algorithm for " + std::string(plan::name(kind)) + ", which has " +
                                         (names.empty() ? "one plan" : "these: " + names) +
                                         (deterministic ? " (RONDO_DETERMINISTIC=1)." : "."));
  }
  if (said && !heeded) {
    throw Error(Code::invalid_usage, "NCCL_ALGO=" + text + ": no collective has such an algorithm; all_reduce has " +
                                         names_of(CollectiveKind::all_reduce) +
                                         ", and `rondo plan` lists those of the others.");
  }
}

bool Chooser::allowed(CollectiveKind kind, Algorithm algorithm) const noexcept {
  return (allowed_[static_cast<int>(kind)] >> static_cast<int>(algorithm) & 1u) != 0;
}

/// Bytes of a call.
std::uint64_t Chooser::one_shot_bytes_max() const noexcept {
  // Between two ranks one hop carries no more bytes than two do, and they need not wait for each other in between.
  if (far_ && ranks_ <= 2) return std::uint64_t{1} << 62;
  return one_shot_bytes_max_of_all / static_cast<std::uint64_t>(std::max(ranks_ - 1, 1));
}

std::string Chooser::settings(const Tuning& tuning) {
  std::string text;
  const auto add = [&](const std::string& words) { text.append(text.empty() ? "" : " ").append(words); };
  if (std::optional<std::string> list = env::text("NCCL_ALGO")) {
    std::ranges::transform(*list, list->begin(), [](unsigned char letter) { return std::tolower(letter); });
    add("NCCL_ALGO=" + *list);
  }
  if (env::integer("RONDO_DETERMINISTIC", 0, 1) != 0) add("RONDO_DETERMINISTIC=1");
  const std::string group_bytes = std::to_string(env::integer("RONDO_GROUP_BYTES", 0, bundle::elements_max));
  const auto row = std::ranges::find(env::table(), "RONDO_GROUP_BYTES", &env::Variable::name);
  if (group_bytes != row->default_value) add("RONDO_GROUP_BYTES=" + group_bytes);
  if (!tuning.empty()) add("RONDO_TUNE_FILE=" + std::to_string(tuning.digest()) + " (its digest)");
  return text;
}

bool Chooser::is_one_message(Algorithm algorithm, std::uint64_t bytes) const noexcept {
  return algorithm == Algorithm::one_shot && !far_ && bytes <= one_shot_bytes_max();
}

plan::Cut Chooser::cut_of(Algorithm algorithm, std::uint64_t bytes) const noexcept {
  plan::Cut cut;
  if (is_one_message(algorithm, bytes)) {
    cut.slice_bytes_min = limits::slot_bytes;  // all at once: slots change hands
  } else if (one_socket_ && carried_by_links_alone(algorithm)) {
    // The more one system call gives or takes, the less a byte costs.  Who forwards what came cuts it in two, so that
    // it goes on meanwhile; between two ranks nobody forwards.
    cut.slot_bytes = limits::tcp_slot_bytes;
    if (ranks_ <= 2) cut.slice_bytes_min = limits::tcp_slot_bytes;
  } else if (algorithm == Algorithm::two_shot && crowded_ && ranks_ > 2 && bytes >= crowded_bytes_min) {
    cut.slot_bytes = crowded_slot_bytes[bytes >= crowded_bytes_many];
    cut.slice_bytes_min = crowded_slice_bytes_min;
  }
  return cut;
}

Choice Chooser::use(CollectiveKind kind, Algorithm algorithm, std::uint64_t bytes, const char* reason) const noexcept {
  Choice choice{algorithm, cut_of(algorithm, bytes), reason};
  const bool lends = ranks_ > 1 && bytes >= lending_bytes_min[ranks_ > 2] && allowed(kind, Algorithm::two_shot);
  if (is_one_message(algorithm, bytes) && lends) choice.lending = Algorithm::two_shot;
  // Readers that share cores share what one copy has brought near; each with a core of its own has not been measured.
  choice.shelf = crowded_ && ranks_ > 2 && kind == CollectiveKind::broadcast && algorithm == Algorithm::direct;
  return choice;
}

Choice Chooser::choose(CollectiveKind kind, std::uint64_t bytes) const noexcept {
  if (const auto tuned = tuning_.find(kind, bytes); tuned && allowed(kind, *tuned)) {
    return use(kind, *tuned, bytes, "RONDO_TUNE_FILE");
  }
  Situation situation{ranks_, bytes, bytes <= one_shot_bytes_max(), ranks_ <= direct_ranks_max, far_, crowded_};
  const bool one_rank_each = hosts_ == ranks_;
  situation.shared_hosts = hosts_ > 1 && !one_rank_each;
  situation.few_hosts = hosts_ > 1 && one_rank_each && hosts_ <= few_hosts_max;
  for (const Algorithm algorithm : preferences(kind, situation)) {
    if (allowed(kind, algorithm)) return use(kind, algorithm, bytes, "the shipped table");
  }
  for (const plan::Schedule& schedule : plan::schedules()) {
    if (schedule.kind == kind && allowed(kind, schedule.algorithm)) {
      return use(kind, schedule.algorithm, bytes, "the first that is allowed");
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
    std::string line = std::string(plan::name(kind)) + ": ";
    const auto words = [&](std::uint64_t bytes) {
      const Choice choice = choose(kind, bytes);
      std::string text(plan::name(choice.algorithm));
      if (choice.lending) text += " (" + std::string(plan::name(*choice.lending)) + " where all ranks lend)";
      return text;
    };
    std::string chosen = words(1);
    // Algorithms give way to each other between powers of two: find the first that differs, then where.
    for (std::uint64_t next = 2; next <= most; next *= 2) {
      if (words(next) == chosen) continue;
      std::uint64_t below = next / 2;
      std::uint64_t above = next;
      while (above - below > 1) {
        const std::uint64_t middle = (below + above) / 2;
        (words(middle) == chosen ? below : above) = middle;
      }
      line += chosen + " up to " + std::to_string(below) + " bytes, ";
      chosen = words(above);
    }
    lines.push_back(line + chosen + (line.ends_with(", ") ? " above" : ""));
  }
  return lines;
}

bool gains_by_address(CollectiveKind kind, std::size_t block_bytes, const Copying& here) noexcept {
  constexpr std::size_t crowded_slot_bytes_max = 32 * 1024;  // of a block; measured: decision 74
  constexpr std::size_t taken_slot_bytes_max = 1024 * 1024;  // where readers take slots' lines: decision 76
  const bool takes = here.writers_wait && here.ranks == 2 && !here.crowded;
  if (takes && (block_bytes <= taken_slot_bytes_max || kind == CollectiveKind::reduce_scatter)) return false;
  switch (kind) {
    case CollectiveKind::reduce:
    case CollectiveKind::all_reduce: return here.ranks > 2 && !here.crowded;  // answers lie where the questions lay: 69
    case CollectiveKind::reduce_scatter: return !here.crowded;
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all:
    case CollectiveKind::gather: return !here.crowded || block_bytes > crowded_slot_bytes_max;
    default: return true;
  }
}

}  // namespace rondo
