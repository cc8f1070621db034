// The 128 bytes of a unique id: magic, version, flags, the root's number, secret, listener and addresses, checksum.
//
//   0 magic (8)  8 version (1)  9 flags (1)  10 name bytes (1)  11 address count (1)  12 port (2)  14 zero (2)
//   16 root (8)  24 secret (32)  56 name, then addresses: 4 or 6, and the number (64)  120 checksum (8)
#pragma once

#include <string>
#include <vector>

#include "control.h"
#include "control/address.h"
#include "control/crypto.h"
#include "control/handshake.h"

namespace rondo::control {

struct RootAddress {
  std::string name;                // of the abstract socket
  std::vector<Address> addresses;  // of one port
  std::uint16_t port = 0;          // of those; or, of a derived root without addresses, where it listens
  std::uint64_t root = 0;
  Secret secret = {};
  bool derived = false;  // of an agreed name: the root may not be there yet
  /// Ranks may be on other hosts: each says how it is reached.
  bool networked() const noexcept { return port != 0; }
  Key key() const noexcept { return {Purpose::join, root, 0}; }
};

/// Of the addresses, as many as there is room for.  Throws Error(invalid_argument): not even one.
UniqueId encode(const RootAddress& address);
/// Throws Error(invalid_argument).
RootAddress decode(const UniqueId& id);
/// Both sides derive the same; without addresses.  Throws Error(invalid_argument).
RootAddress derive(const Rendezvous& rendezvous);

}  // namespace rondo::control
