// A variable of the environment for the time of a test, for this process and the children it starts meanwhile.
#pragma once

#include <cstdlib>

namespace rondo::test {

class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Setting() { ::unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

}  // namespace rondo::test
