// What a ncclConfig_t asks for: the fields that have an effect, read from a structure of any version.
#pragma once

#include <string>

#include "nccl.h"

namespace rondo::api {

struct Config {
  bool blocking = true;
  std::string name;
};

/// Reads the fields that the caller's version knows, by size and version; checks all; the environment comes first.
/// `config` may be NULL.  Throws Error.
Config parse_config(const ncclConfig_t* config);

}  // namespace rondo::api
