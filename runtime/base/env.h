// The one registry of environment variables: NCCL_* with NCCL's grammar, RONDO_* for ours.
//
// Every variable has a row (name, type, default, meaning) and is read only through here.  A value comes from the
// environment, else from $NCCL_CONF_FILE or ~/.nccl.conf, else from /etc/nccl.conf; the files are read once.  A wrong
// value is an Error or a warning that names the variable and the closest right value.  `rondo info --env` prints the
// table, and docs/environment.md is generated from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::env {

struct Variable {
  std::string_view name;  // "NCCL_NVLS_*": a family, accepted as a whole
  std::string_view type;  // "integer", "seconds", "bool", "list", "one of a|b|c", ...
  std::string_view default_value;
  std::string_view meaning;  // one sentence; variables without effect say so
};
const std::vector<Variable>& table();

/// The raw value, if it is set anywhere.  `name` must be in the table (asserted).  Empty counts as unset.
std::optional<std::string> text(std::string_view name);
/// The value as an integer within [low, high]: strtoll base 0, like NCCL.  Unset: the table's default.
/// Wrong: Error(invalid_argument).
std::int64_t integer(std::string_view name, std::int64_t low, std::int64_t high);
/// The value as one of `choices`, case-insensitive, spelled as in `choices`.  Unset: the table's default.
/// Wrong: Error(invalid_usage).
std::string choice(std::string_view name, const std::vector<std::string_view>& choices);

/// One sentence for each NCCL_* and RONDO_* name, in the environment or a configuration file, that is not in the table
/// (with the closest name), for each line or file that could not be read, and for each value that is not of its type.
std::vector<std::string> complaints();
/// Logs the complaints as warnings, the first time it is called.
void warn_unknown();

}  // namespace rondo::env
