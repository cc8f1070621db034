// Values of environment variables: the environment, then the configuration files, checked against the table.
#include "base/env.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <sstream>

#include "base/closest.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/result.h"
#include "base/small_file.h"

namespace rondo::env {
namespace {

/// What the configuration files set, and the sentences about what is wrong with them.
struct Files {
  std::map<std::string, std::string, std::less<>> values;
  std::vector<std::string> complaints;
};

bool is_ours(std::string_view name) { return name.starts_with("NCCL_") || name.starts_with("RONDO_"); }

/// The row that speaks of `name`: its own, or its family's.
const Variable* find(std::string_view name) {
  const Variable* family = nullptr;
  for (const Variable& row : table()) {
    if (row.name == name) return &row;
    if (row.name.ends_with('*') && name.starts_with(row.name.substr(0, row.name.size() - 1))) family = &row;
  }
  return family;
}

std::string unknown(std::string_view name, const std::string& where) {
  std::vector<std::string_view> names;
  for (const Variable& row : table()) {
    if (!row.name.ends_with('*')) names.push_back(row.name);
  }
  return std::string(name) + where + " is not known" + did_you_mean(name, names);
}

/// The first setter wins: `files` keeps what it has.
void read_file(const std::string& path, bool must_exist, Files& files) {
  const SmallFile file = read_small_file(path, limits::settings_file_bytes_max);
  if (!file.trouble.empty()) {
    if (must_exist)
      files.complaints.push_back("NCCL_CONF_FILE=" + path + " cannot be read: " + file.trouble + "; check the path.");
    return;
  }
  std::istringstream stream(file.text);
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    if (line.empty() || line.front() == '#') continue;
    const std::string where = " (" + path + ", line " + std::to_string(number) + ")";
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) {
      files.complaints.push_back("'" + line + "'" + where + " is not NAME=VALUE.");
      continue;
    }
    const std::string name = line.substr(0, equals);
    if (find(name) == nullptr) files.complaints.push_back(unknown(name, where));
    files.values.emplace(name, line.substr(equals + 1));
  }
}

std::string home() {
  if (const char* const variable = std::getenv("HOME"); variable != nullptr) return variable;
  const passwd* const entry = getpwuid(getuid());
  return entry != nullptr ? entry->pw_dir : "";
}

Files read_files() {
  Files files;
  const char* const named = std::getenv("NCCL_CONF_FILE");
  const bool is_named = named != nullptr && *named != '\0';
  read_file(is_named ? named : home() + "/.nccl.conf", is_named, files);
  read_file("/etc/nccl.conf", false, files);
  return files;
}

/// Never destroyed: the library's threads may read variables while the process exits.
const Files& files() {
  static const Files& read = *new Files(read_files());
  return read;
}

std::string_view default_of(std::string_view name) {
  const Variable* const row = find(name);
  assert(row != nullptr && row->name == name);
  return row->default_value;
}

/// The whole of `text` as strtoll reads it in base 0, or nothing.
std::optional<std::int64_t> parse_integer(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const std::int64_t value = std::strtoll(text.c_str(), &end, 0);
  while (*end == ' ' || *end == '\t') ++end;
  if (end == text.c_str() || *end != '\0' || errno != 0) return std::nullopt;
  return value;
}

/// Whether `value` is of the row's type, as far as the type tells.  Ranges are the business of who reads it.
bool is_right(const Variable& row, const std::string& value) {
  if (row.type == "integer" || row.type == "seconds") return parse_integer(value).has_value();
  if (row.type == "bool") return parse_integer(value).value_or(-1) >> 1 == 0;
  if (row.type == "FIRST-LAST") {
    const std::size_t dash = value.find('-');
    if (dash == std::string::npos) return false;
    const std::optional<std::int64_t> first = parse_integer(value.substr(0, dash));
    const std::optional<std::int64_t> last = parse_integer(value.substr(dash + 1));
    return first && last && 1 <= *first && *first <= *last && *last <= 65535;
  }
  if (!row.type.starts_with("one of ")) return true;
  for (std::string_view rest = row.type.substr(7);;) {
    const std::size_t bar = std::min(rest.find('|'), rest.size());
    if (equal_ignoring_case(value, rest.substr(0, bar))) return true;
    if (bar == rest.size()) return false;
    rest.remove_prefix(bar + 1);
  }
}

/// What is read only on some jobs, or never, would else be wrong without a word.
void check_values(std::vector<std::string>& sentences) {
  for (const Variable& row : table()) {
    // The log complains itself of what it reads.
    if (!is_ours(row.name) || row.name.ends_with('*') || row.name.starts_with("NCCL_DEBUG") ||
        row.meaning.starts_with("Accepted, no effect"))
      continue;
    const std::optional<std::string> value = text(row.name);
    if (value && !is_right(row, *value))
      sentences.push_back(std::string(row.name) + "=" + *value + " is wrong: it takes " +
                          (row.type == "bool" ? "0 or 1" : std::string(row.type)) + ".");
  }
}

}  // namespace

std::optional<std::string> text(std::string_view name) {
  [[maybe_unused]] const std::string_view checked = default_of(name);
  if (const char* const value = std::getenv(std::string(name).c_str()); value != nullptr && *value != '\0') {
    return value;
  }
  if (!is_ours(name)) return std::nullopt;
  const auto found = files().values.find(name);
  if (found == files().values.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

std::int64_t integer(std::string_view name, std::int64_t low, std::int64_t high) {
  const std::string value = text(name).value_or(std::string(default_of(name)));
  const std::optional<std::int64_t> number = parse_integer(value);
  if (!number || *number < low || *number > high) {
    throw Error(Code::invalid_argument, std::string(name) + "=" + value + " is not an integer from " +
                                            std::to_string(low) + " to " + std::to_string(high) + ".");
  }
  return *number;
}

std::string choice(std::string_view name, const std::vector<std::string_view>& choices) {
  const std::optional<std::string> value = text(name);
  if (!value) return std::string(default_of(name));
  std::string known;
  for (const std::string_view each : choices) {
    if (equal_ignoring_case(*value, each)) return std::string(each);
    known += (known.empty() ? "" : ", ") + std::string(each);
  }
  throw Error(Code::invalid_usage,
              std::string(name) + "=" + *value + " is not one of " + known + did_you_mean(*value, choices));
}

std::vector<std::string> complaints() {
  std::vector<std::string> sentences = files().complaints;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view setting = *entry;
    const std::string_view name = setting.substr(0, setting.find('='));
    if (is_ours(name) && find(name) == nullptr) sentences.push_back(unknown(name, ""));
  }
  check_values(sentences);
  return sentences;
}

void warn_unknown() {
  static std::atomic<bool> done{false};
  if (done.exchange(true)) return;
  for (const std::string& sentence : complaints()) log::warn(sentence);
}

}  // namespace rondo::env
