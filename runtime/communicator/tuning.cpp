// Reads the table line by line; see tuning.h for its form.
#include "communicator/tuning.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>
#include <tuple>

#include "base/env.h"
#include "base/limits.h"
#include "base/result.h"
#include "base/small_file.h"
#include "control/bytes.h"
#include "control/crypto.h"

namespace rondo {
namespace {

constexpr std::string_view first_line = "rondo-tune 1";
constexpr std::uint64_t any_bytes = std::numeric_limits<std::uint64_t>::max();

/// A whole word as a number from 1 to `most`; none where it is not one.
template <typename T>
std::optional<T> number(const std::string& word, T most) {
  T value = 0;
  const char* const end = word.data() + word.size();
  const auto read = std::from_chars(word.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end || value < 1 || value > most) return {};
  return value;
}

std::optional<CollectiveKind> kind_of(const std::string& word) {
  for (const plan::Schedule& schedule : plan::schedules()) {
    if (plan::name(schedule.kind) == word) return schedule.kind;
  }
  return {};
}

std::optional<plan::Algorithm> algorithm_of(CollectiveKind kind, const std::string& word) {
  for (const plan::Schedule& schedule : plan::schedules()) {
    if (schedule.kind == kind && plan::name(schedule.algorithm) == word) return schedule.algorithm;
  }
  return {};
}

}  // namespace

Tuning Tuning::from_environment() {
  const std::optional<std::string> path = env::text("RONDO_TUNE_FILE");
  if (!path || path->empty()) return {};
  const SmallFile file = read_small_file(*path, limits::settings_file_bytes_max);
  if (!file.trouble.empty()) {
    throw Error(Code::invalid_usage, "RONDO_TUNE_FILE: cannot read " + *path + ": " + file.trouble +
                                         "; make it with `rondo tune` on every host, or unset the variable");
  }
  return parse(file.text, *path);
}

Tuning Tuning::parse(std::string_view text, const std::string& name) {
  Tuning tuning;
  std::istringstream lines{std::string(text)};
  std::string line;
  int line_number = 0;
  const auto wrong = [&](const std::string& what) {
    return Error(Code::invalid_usage, name + ", line " + std::to_string(line_number) + ": " + what);
  };
  bool begun = false;
  while (std::getline(lines, line)) {
    ++line_number;
    line = line.substr(0, line.find('#'));
    std::istringstream stream(line);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    if (words.empty()) continue;
    if (!begun) {
      if (line.substr(0, line.find_last_not_of(" \r") + 1) != first_line) {
        throw wrong("this is not a table of `rondo tune`, which begins with \"" + std::string(first_line) + "\"");
      }
      begun = true;
      continue;
    }
    if (words.size() != 5) throw wrong("a row is COLLECTIVE RANKS HOSTS BYTES ALGORITHM");
    const auto kind = kind_of(words[0]);
    if (!kind) throw wrong("there is no collective \"" + words[0] + "\" to choose for");
    const auto ranks = number<int>(words[1], limits::ranks_max);
    const auto hosts = number<int>(words[2], limits::ranks_max);
    if (!ranks || !hosts || *hosts > *ranks) throw wrong(words[1] + " ranks on " + words[2] + " hosts can't be");
    const auto bytes = words[3] == "*" ? any_bytes : number<std::uint64_t>(words[3], any_bytes);
    if (!bytes) throw wrong("\"" + words[3] + "\" is no number of bytes, nor *");
    const auto algorithm = algorithm_of(*kind, words[4]);
    if (!algorithm) throw wrong(words[0] + " has no algorithm \"" + words[4] + "\"");
    tuning.rows_.push_back({*kind, *ranks, *hosts, *bytes, *algorithm});
  }
  if (!begun) throw wrong("the file is empty");
  const auto order = [](const Row& row) { return std::tuple(row.kind, row.ranks, row.hosts, row.bytes); };
  std::stable_sort(tuning.rows_.begin(), tuning.rows_.end(),
                   [&](const Row& a, const Row& b) { return order(a) < order(b); });
  return tuning;
}

Tuning Tuning::of(int ranks, int hosts) const {
  Tuning part;
  for (const Row& row : rows_) {
    if (row.ranks == ranks && row.hosts == hosts) part.rows_.push_back(row);
  }
  return part;
}

std::optional<plan::Algorithm> Tuning::find(CollectiveKind kind, std::uint64_t bytes) const noexcept {
  for (const Row& row : rows_) {
    if (row.kind == kind && bytes <= row.bytes) return row.algorithm;
  }
  return {};
}

std::uint64_t Tuning::digest() const {
  control::ByteWriter table;
  for (const Row& row : rows_) {
    table.number(static_cast<std::uint8_t>(row.kind)).number(static_cast<std::uint32_t>(row.ranks));
    table.number(static_cast<std::uint32_t>(row.hosts)).number(row.bytes);
    table.number(static_cast<std::uint8_t>(row.algorithm));
  }
  return control::ByteReader(control::sha256(table.bytes())).number<std::uint64_t>();
}

}  // namespace rondo
