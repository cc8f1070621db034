// The log: set-up and failure, never per slice; to stderr (or NCCL_DEBUG_FILE) only.
//
// NCCL_DEBUG=VERSION|WARN|INFO|ABORT|TRACE sets the level, NCCL_DEBUG_SUBSYS the subsystems, NCCL_DEBUG_FILE the file
// (%h host, %p pid).  A line reads like NCCL's: `host:pid:tid [rank] Rondo INFO text`, the rank where one is set.
// Without NCCL_DEBUG only warnings are written, and no failures: their sentences go to the caller.
#pragma once

#include <string>
#include <string_view>

namespace rondo::log {

enum class Subsystem {
  init,
  coll,
  p2p,
  shm,
  net,
  graph,
  tuning,
  env,
  alloc,
  call,
  proxy,
  nvls,
  bootstrap,
  reg,
  profile,
  ras,
  destroy,
};

/// Whether an INFO line of this subsystem would be written: ask before composing a costly one.
bool enabled(Subsystem subsystem) noexcept;
void info(Subsystem subsystem, std::string_view text) noexcept;
void warn(std::string_view text) noexcept;
/// An error that the caller is told of as well: a WARN line, if NCCL_DEBUG asks for any.
void failure(std::string_view text) noexcept;
/// From NCCL_DEBUG=VERSION on.
void version(std::string_view text) noexcept;
/// Reads NCCL_DEBUG* again (ncclResetDebugInit).
void reset() noexcept;

}  // namespace rondo::log
