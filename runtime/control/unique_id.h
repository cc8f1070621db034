// The 128 bytes of a unique id: magic, version, flags, the root's number, secret and listener, checksum.
//
//   0 magic (8)  8 version (2)  10 flags (2)  12 name bytes (4)  16 root (8)  24 secret (32)  56 name (64)  120
//   checksum (8)
#pragma once

#include <string>

#include "control.h"
#include "control/crypto.h"
#include "control/handshake.h"

namespace rondo::control {

struct RootAddress {
  std::string name;  // of the abstract socket
  std::uint64_t root = 0;
  Secret secret = {};
  bool derived = false;  // of an agreed name: the root may not be there yet
  Key key() const noexcept { return {Purpose::join, root, 0}; }
};

UniqueId encode(const RootAddress& address);
/// Throws Error(invalid_argument).
RootAddress decode(const UniqueId& id);
/// Both sides derive the same.  Throws Error(invalid_argument).
RootAddress derive(const std::string& name, const std::string& secret);

}  // namespace rondo::control
