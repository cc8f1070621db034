// How Rondo reports failure.  Functions that create things throw Error; functions that move bytes are noexcept and
// return Status.  The codes are NCCL's, so that the C border translates nothing.
#pragma once

#include <stdexcept>
#include <string>

namespace rondo {

/// NCCL's result codes with NCCL's values (ncclResult_t).
enum class Code : int {
  success = 0,
  unhandled_device_error = 1,
  system_error = 2,      // the kernel refused something; the sentence carries its words
  internal_error = 3,    // a defect of Rondo
  invalid_argument = 4,  // a value that can never be right
  invalid_usage = 5,     // a right value at the wrong time, or calls of ranks that do not match
  remote_error = 6,      // a peer died, left, or failed
  in_progress = 7,
  timeout = 8,
};

/// Thrown by whatever creates or configures.  `what()` is a sentence for the user: what is wrong and what to do.
class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
  Code code() const noexcept { return code_; }

 private:
  Code code_;
};

/// Throws Error(system_error) with `doing` and the text of `error_number` (default: errno).
[[noreturn]] void throw_system_error(const std::string& doing, int error_number = 0);

/// The outcome of moving bytes.  `peer` is the rank that the failure concerns, or -1.
struct [[nodiscard]] Status {
  Code code = Code::success;
  int peer = -1;
  constexpr bool ok() const noexcept { return code == Code::success; }
};

}  // namespace rondo
