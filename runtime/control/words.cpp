// How the control plane names ranks and times in sentences.
#include "control/words.h"

#include <unistd.h>

#include <algorithm>

namespace rondo::control {

using std::chrono::milliseconds;

std::string in_words(milliseconds time) {
  const auto tenths = (time.count() + 50) / 100;
  std::string words = std::to_string(tenths / 10);
  if (tenths % 10 != 0) words.append(".").append(std::to_string(tenths % 10));
  return words + " s";
}

std::string in_words(const std::vector<int>& ranks) {
  constexpr std::size_t named_max = 16;
  std::string words = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), named_max); ++i) {
    if (i > 0) words += ", ";
    words += std::to_string(ranks[i]);
  }
  if (ranks.size() > named_max) words += ", ... (" + std::to_string(ranks.size()) + " in all)";
  return words;
}

std::string in_words(const Member& member) {
  return "rank " + std::to_string(member.rank) + " (host " + member.host + ", pid " + std::to_string(member.pid) + ")";
}

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0) return "?";
  return name;
}

Deadline bounded(Deadline deadline) { return std::min(deadline, Clock::now() + std::chrono::hours(24 * 365)); }

milliseconds time_left(Deadline deadline) {
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(deadline - Clock::now()));
}

}  // namespace rondo::control
