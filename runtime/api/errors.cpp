// The last error, and NCCL's calls about errors, versions and the log.
//
// NCCL's interface wants one last error a process, which any thread may ask for: the one mutable global of the border.
#include "api/errors.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "api/handle.h"
#include "base/env.h"
#include "base/log.h"
#include "rondo.h"

namespace rondo::api {
namespace {

constexpr std::size_t sentence_bytes_max = 1024;

/// Fixed room, so that a failure for want of memory can be told.
struct LastError {
  std::mutex mutex;
  std::size_t bytes = 0;
  char sentence[sentence_bytes_max];

  /// Copies the sentence; gives its size, at most sentence_bytes_max.
  std::size_t copy(char* to) {
    const std::lock_guard lock(mutex);
    std::memcpy(to, sentence, bytes);
    return bytes;
  }
};
constinit LastError last{};

}  // namespace

ncclResult_t fail(Code code, std::string_view sentence) noexcept {
  {
    const std::lock_guard lock(last.mutex);
    last.bytes = std::min(sentence.size(), sentence_bytes_max);
    std::memcpy(last.sentence, sentence.data(), last.bytes);
  }
  log::failure(sentence);
  return translate(code);
}

std::string last_error() {
  char text[sentence_bytes_max];
  return {text, last.copy(text)};
}

}  // namespace rondo::api

using rondo::Code;
using rondo::api::fail;
using rondo::api::guarded;

extern "C" {

ncclResult_t pncclGetVersion(int* version) {
  return guarded("ncclGetVersion", [&] {
    if (version == nullptr) throw rondo::Error(Code::invalid_argument, "version is NULL; give a place for the number");
    *version = static_cast<int>(rondo::env::integer("RONDO_NCCL_VERSION", 2000, 999'999));
    return ncclSuccess;
  });
}

const char* pncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "device error";
    case ncclSystemError: return "system error: the kernel refused something; ncclGetLastError says what";
    case ncclInternalError: return "internal error: a defect of Rondo; ncclGetLastError says where";
    case ncclInvalidArgument: return "invalid argument; ncclGetLastError says which";
    case ncclInvalidUsage: return "invalid usage; ncclGetLastError says why";
    case ncclRemoteError: return "remote error: another rank died, left or failed; ncclGetLastError says which";
    case ncclInProgress: return "in progress";
    case ncclTimeout: return "timeout; ncclGetLastError says for whom it waited";
    default: return "unknown result code";
  }
}

const char* pncclGetLastError(ncclComm_t comm) {
  thread_local char text[rondo::api::sentence_bytes_max + 1];
  std::size_t bytes = 0;
  try {
    const std::string sentence = comm != nullptr ? comm->failure_sentence() : std::string();
    bytes = std::min(sentence.size(), rondo::api::sentence_bytes_max);
    std::memcpy(text, sentence.data(), bytes);
  } catch (const std::exception&) {
    // No memory: the last error must do.
  }
  if (bytes == 0) bytes = rondo::api::last.copy(text);
  text[bytes] = '\0';
  return text;
}

void pncclResetDebugInit(void) { rondo::log::reset(); }

void pncclParamDumpAll(void) {
  guarded("ncclParamDumpAll", [] {
    for (const rondo::env::Variable& row : rondo::env::table()) {
      if (row.name.ends_with('*') || row.name == "RONDO_JOB_SECRET") continue;
      const auto value = rondo::env::text(row.name);
      if (value) rondo::log::info(rondo::log::Subsystem::env, std::string(row.name) + "=" + *value);
    }
    return ncclSuccess;
  });
}

const char* rondoGetVersion(void) { return "Rondo " RONDO_VERSION; }

// The weak names that programs call.
[[gnu::weak, gnu::alias("pncclGetVersion")]] decltype(ncclGetVersion) ncclGetVersion;
[[gnu::weak, gnu::alias("pncclGetErrorString")]] decltype(ncclGetErrorString) ncclGetErrorString;
[[gnu::weak, gnu::alias("pncclGetLastError")]] decltype(ncclGetLastError) ncclGetLastError;
[[gnu::weak, gnu::alias("pncclResetDebugInit")]] decltype(ncclResetDebugInit) ncclResetDebugInit;
[[gnu::weak, gnu::alias("pncclParamDumpAll")]] decltype(ncclParamDumpAll) ncclParamDumpAll;

}  // extern "C"
