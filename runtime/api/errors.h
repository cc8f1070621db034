// From exceptions and statuses to NCCL's codes, and the sentence of the last error.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "base/result.h"
#include "nccl.h"

namespace rondo::api {

inline ncclResult_t translate(Code code) noexcept { return static_cast<ncclResult_t>(code); }

/// Keeps `sentence` as the process's last error, logs it where NCCL_DEBUG asks for it, and gives the code to return.
/// Needs no memory, but for the log.
ncclResult_t fail(Code code, std::string_view sentence) noexcept;

/// The last error's sentence, or empty.
std::string last_error();

/// Runs `body` and turns what it throws into a code and a sentence that begins with the call's name.
template <typename Body>
ncclResult_t guarded(const char* call, Body&& body) noexcept {
  try {
    try {
      return body();
    } catch (const Error& error) {
      return fail(error.code(), std::string(call) + ": " + error.what());
    } catch (const std::bad_alloc&) {
      return fail(Code::system_error, std::string(call) + ": no memory");
    } catch (const std::exception& error) {
      return fail(Code::internal_error, std::string(call) + ": " + error.what());
    }
  } catch (...) {
    return fail(Code::system_error, "no memory, not even to say for what");
  }
}

}  // namespace rondo::api
