// The log over spdlog: one logger, set up from NCCL_DEBUG* at the first line and again by reset().
#include "base/log.h"

#include <fcntl.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "base/closest.h"
#include "base/descriptor.h"
#include "base/env.h"
#include "base/result.h"

namespace rondo::log {
namespace {

/// NCCL's order: each level writes the lower ones as well.
enum Level { none, version_level, warn_level, info_level, abort_level, trace_level };
constexpr std::array<std::string_view, 6> level_names = {"NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"};

/// In the order of Subsystem, then ALL.
constexpr std::array<std::string_view, 18> subsystem_names = {
    "INIT", "COLL",  "P2P",  "SHM",       "NET", "GRAPH",   "TUNING", "ENV",     "ALLOC",
    "CALL", "PROXY", "NVLS", "BOOTSTRAP", "REG", "PROFILE", "RAS",    "DESTROY", "ALL"};

struct Settings {
  Level level = warn_level;
  bool failures = false;               // NCCL_DEBUG asks for WARN or more
  std::uint32_t subsystems = 0;        // bit i: Subsystem i
  std::uint32_t timestamp_levels = 0;  // bit i: Level i
  std::string timestamp_format;
  std::string prefix;                      // host:pid
  std::string rank;                        // " [3]", or empty
  std::shared_ptr<spdlog::logger> logger;  // spdlog shares its sinks
};

/// The names of a list with an optional ^ before it, as bits; wrong ones are complained of and skipped.
std::uint32_t parse_list(std::string_view variable, std::span<const std::string_view> names,
                         std::vector<std::string>& complaints) {
  std::string list = env::text(variable).value_or("");
  if (list.empty()) {
    for (const env::Variable& row : env::table()) {
      if (row.name == variable) list = row.default_value;
    }
  }
  const bool excludes = list.starts_with('^');
  const std::uint32_t all = (1U << names.size()) - 1;
  std::uint32_t bits = 0;
  for (std::size_t at = excludes ? 1 : 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    const std::string_view word = std::string_view(list).substr(at, comma - at);
    at = comma + 1;
    if (word.empty()) continue;
    std::size_t i = 0;
    while (i < names.size() && !equal_ignoring_case(word, names[i])) ++i;
    if (i < names.size())
      bits |= names[i] == "ALL" ? all : 1U << i;
    else
      complaints.push_back(std::string(variable) + ": '" + std::string(word) + "' is not known" +
                           did_you_mean(word, names));
  }
  return excludes ? all & ~bits : bits;
}

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "?";
  return name;
}

std::shared_ptr<spdlog::logger> open_logger(std::vector<std::string>& complaints) {
  std::string path = env::text("NCCL_DEBUG_FILE").value_or("");
  for (std::size_t at = 0; (at = path.find('%', at)) != std::string::npos;) {
    const char what = at + 1 < path.size() ? path[at + 1] : '\0';
    const std::string value = what == 'h' ? host_name() : what == 'p' ? std::to_string(getpid()) : "%";
    path.replace(at, what == 'h' || what == 'p' || what == '%' ? 2 : 1, value);
    at += value.size();
  }
  std::shared_ptr<spdlog::sinks::sink> sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  if (path == "/dev/stdout") {
    sink = std::make_shared<spdlog::sinks::stdout_sink_mt>();
  } else if (!path.empty() && path != "/dev/stderr") {
    try {
      const Descriptor probe(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
      if (!probe && errno == ENXIO) throw std::runtime_error("nobody reads this pipe");  // to wait for one, for ever
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path, true);
    } catch (const std::exception& error) {
      complaints.push_back("NCCL_DEBUG_FILE=" + path + " cannot be written, stderr is used: " + error.what());
    }
  }
  auto logger = std::make_shared<spdlog::logger>("rondo", sink);
  logger->set_level(spdlog::level::trace);
  logger->set_pattern("%v");
  logger->flush_on(spdlog::level::trace);
  return logger;
}

std::string timestamp(const Settings& settings, Level level) {
  if ((settings.timestamp_levels >> level & 1U) == 0) return {};
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  std::string format = settings.timestamp_format;
  for (std::size_t at = 0; (at = format.find('%', at)) != std::string::npos; at += 2) {
    const bool fraction =
        at + 2 < format.size() && format[at + 1] >= '1' && format[at + 1] <= '9' && format[at + 2] == 'f';
    if (fraction) format.replace(at, 3, fmt::format("{:09}", now.tv_nsec).substr(0, format[at + 1] - '0'));
  }
  tm local{};
  localtime_r(&now.tv_sec, &local);
  char text[256];
  const std::size_t bytes = std::strftime(text, sizeof(text), format.c_str(), &local);
  return std::string(text, bytes);
}

void write(const Settings& settings, Level level, std::string_view text) {
  settings.logger->info("{}{}:{}{} Rondo {} {}", timestamp(settings, level), settings.prefix, gettid(), settings.rank,
                        level_names[level], text);
}

std::shared_ptr<const Settings> read_settings() {
  auto settings = std::make_shared<Settings>();
  std::vector<std::string> complaints;
  try {
    const std::string level = env::choice("NCCL_DEBUG", {level_names.begin(), level_names.end()});
    for (int i = none; i <= trace_level; ++i) {
      if (level == level_names[i]) settings->level = static_cast<Level>(i);
    }
    settings->failures = !level.empty() && settings->level >= warn_level;
  } catch (const Error& error) {
    complaints.emplace_back(error.what());
  }
  settings->subsystems = parse_list("NCCL_DEBUG_SUBSYS", subsystem_names, complaints);
  settings->timestamp_levels = parse_list("NCCL_DEBUG_TIMESTAMP_LEVELS", level_names, complaints);
  settings->timestamp_format = env::text("NCCL_DEBUG_TIMESTAMP_FORMAT").value_or("[%F %T] ");
  settings->prefix = host_name() + ":" + std::to_string(getpid());
  for (const char* name : {"SLURM_PROCID", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "RANK"}) {  // the last one counts
    if (const auto rank = env::text(name)) settings->rank = fmt::format(" [{}]", *rank);
  }
  settings->logger = open_logger(complaints);
  if (settings->level >= warn_level) {
    for (const std::string& complaint : complaints) write(*settings, warn_level, complaint);
  }
  return settings;
}

/// The settings are read at the first use and replaced by reset(); shared, as a line in flight keeps the old ones.
/// Never destroyed: the control thread may log while the process exits.
std::shared_ptr<const Settings> settings(bool read_again = false) {
  static std::mutex mutex;
  static auto& current = *new std::shared_ptr<const Settings>;
  const std::lock_guard lock(mutex);
  if (current == nullptr || read_again) current = read_settings();
  return current;
}

template <typename Body>
void guarded(Body&& body) noexcept {
  try {
    body(*settings());
  } catch (...) {
    // A line that cannot be written is lost: the log never fails its caller.
  }
}

}  // namespace

bool enabled(Subsystem subsystem) noexcept {
  bool answer = false;
  guarded([&](const Settings& now) {
    answer = now.level >= info_level && (now.subsystems >> static_cast<int>(subsystem) & 1U) != 0;
  });
  return answer;
}

void info(Subsystem subsystem, std::string_view text) noexcept {
  if (enabled(subsystem)) guarded([&](const Settings& now) { write(now, info_level, text); });
}

void warn(std::string_view text) noexcept {
  guarded([&](const Settings& now) {
    if (now.level >= warn_level) write(now, warn_level, text);
  });
}

void failure(std::string_view text) noexcept {
  guarded([&](const Settings& now) {
    if (now.failures) write(now, warn_level, text);
  });
}

void version(std::string_view text) noexcept {
  guarded([&](const Settings& now) {
    const bool asked = now.level == version_level || now.failures;
    if (asked) write(now, version_level, text);
  });
}

void reset() noexcept {
  try {
    settings(true);
  } catch (...) {
    // No memory: the old settings stay.
  }
}

}  // namespace rondo::log
