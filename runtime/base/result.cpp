// The sentence of a failed system call.
#include "base/result.h"

#include <cerrno>
#include <cstring>

namespace rondo {

void throw_system_error(const std::string& doing, int error_number) {
  const int number = error_number != 0 ? error_number : errno;
  const char* const name = strerrorname_np(number);
  const char* const text = strerrordesc_np(number);
  throw Error(Code::system_error, doing + ": " + (text != nullptr ? text : "unknown error") + " (" +
                                      (name != nullptr ? name : "error " + std::to_string(number)) + ")");
}

}  // namespace rondo
