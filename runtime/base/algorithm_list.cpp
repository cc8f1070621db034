// The parser of NCCL_ALGO: entries by `;`, a function before `:`, algorithms by `,`, and `^` to exclude.
#include "base/algorithm_list.h"

#include <string>

#include "base/closest.h"
#include "base/result.h"

namespace rondo {
namespace {

constexpr std::array<std::string_view, 19> algorithm_names = {
    "ring",   "tree",     "collnetdirect", "collnetchain",  "nvls",          "nvlstree",           "pat",
    "star",   "one_shot", "two_shot",      "one_shot_pull", "two_shot_pull", "recursive_doubling", "halving_doubling",
    "direct", "chain",    "hierarchical",  "binomial",      "bruck"};

/// In the order of CollectiveKind.
constexpr std::array<std::string_view, 9> function_names = {
    "allreduce", "reduce", "reducescatter", "broadcast", "allgather", "gather", "scatter", "alltoall", "sendrecv"};

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Takes the part of `rest` before `separator` off its front.
std::string_view next_part(std::string_view& rest, char separator) {
  const std::size_t at = rest.find(separator);
  const std::string_view part = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  return trim(part);
}

int find(std::string_view token, std::span<const std::string_view> names, const char* what) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (equal_ignoring_case(token, names[i])) return static_cast<int>(i);
  }
  std::string known;
  for (const std::string_view name : names) known += (known.empty() ? "" : ", ") + std::string(name);
  throw Error(Code::invalid_usage, "NCCL_ALGO: '" + std::string(token) + "' is not " + what +
                                       did_you_mean(token, names) + " Known: " + known + ".");
}

struct Entry {
  bool excludes = false;
  std::uint32_t allowed = 0;
};

Entry parse_algorithms(std::string_view text) {
  Entry entry{.excludes = !text.empty() && text.front() == '^'};
  if (entry.excludes) text = trim(text.substr(1));
  if (text.empty()) {
    throw Error(Code::invalid_usage, "NCCL_ALGO: an entry names no algorithm; write for example NCCL_ALGO=ring.");
  }
  std::uint32_t named = 0;
  while (!text.empty()) {
    const std::string_view name = next_part(text, ',');
    if (name.starts_with('^')) {
      throw Error(Code::invalid_usage, "NCCL_ALGO: '" + std::string(name) +
                                           "': ^ stands once, before a whole list, as in NCCL_ALGO=^ring,tree.");
    }
    named |= 1U << find(name, algorithm_names, "an algorithm");
  }
  constexpr std::uint32_t all = (1U << algorithm_names.size()) - 1;
  entry.allowed = entry.excludes ? all & ~named : named;
  return entry;
}

}  // namespace

AlgorithmList AlgorithmList::parse(std::string_view text) {
  static_assert(function_names.size() == kinds);
  AlgorithmList list;
  text = trim(text);
  for (bool first = true; !text.empty(); first = false) {
    std::string_view entry = next_part(text, ';');
    if (entry.find(':') == std::string_view::npos) {
      if (!first) {
        throw Error(Code::invalid_usage, "NCCL_ALGO: only the first entry may omit its function; write '" +
                                             std::string("allreduce:") + std::string(entry) + "'.");
      }
      const Entry parsed = parse_algorithms(entry);
      list.allowed_.fill(parsed.allowed);
      list.excludes_.fill(parsed.excludes);
      list.set_.fill(true);
    } else {
      const int kind = find(next_part(entry, ':'), function_names, "a collective");
      const Entry parsed = parse_algorithms(trim(entry));
      list.allowed_[kind] = parsed.allowed;
      list.excludes_[kind] = parsed.excludes;
      list.set_[kind] = list.named_[kind] = true;
    }
  }
  return list;
}

bool AlgorithmList::allows(CollectiveKind kind, std::string_view algorithm) const noexcept {
  if (!restricts(kind)) return true;
  for (std::size_t i = 0; i < algorithm_names.size(); ++i) {
    if (equal_ignoring_case(algorithm, algorithm_names[i])) return (allowed_[index(kind)] >> i & 1U) != 0;
  }
  return false;
}

std::span<const std::string_view> AlgorithmList::names() noexcept { return algorithm_names; }

}  // namespace rondo
