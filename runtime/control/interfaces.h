// Which network interfaces a process is reached at, by NCCL's rules: a pure choice over a list, and the list itself.
//
// NCCL_SOCKET_IFNAME is `[^][=]name,name`: prefixes, or exact names after `=`, or all but these after `^`.  Unset, the
// first of these groups that has any: ib*; interfaces of the network that NCCL_COMM_ID's address is in; others; what
// joins containers of one host (docker*, virbr*, veth*, br-*, ...); loopback.  NCCL_SOCKET_FAMILY keeps one family of
// addresses.  A link-local IPv6 address counts only where its interface has no other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/address.h"

namespace rondo::control {

/// One address of an interface that is up.
struct Interface {
  std::string name;
  Address address;  // without port
  int prefix_bits = 0;
  bool loopback = false;
};

/// Those of this host, in the kernel's order.  Throws Error.
std::vector<Interface> list_interfaces();

struct InterfaceRules {
  std::string names;            // NCCL_SOCKET_IFNAME
  std::string family;           // NCCL_SOCKET_FAMILY: "", "AF_INET" or "AF_INET6"
  std::optional<Address> near;  // NCCL_COMM_ID's
};

struct InterfaceChoice {
  std::vector<Interface> interfaces;  // never empty; the preferred first
  std::string why;
};

/// Throws Error(invalid_usage): no interface fits; it names those there are.
InterfaceChoice choose_interfaces(const std::vector<Interface>& all, const InterfaceRules& rules);

/// Where ranks of several hosts meet: of the `addresses` of rank 0 (none: not looked up) those of the family that is
/// asked for ("": both).  `what` names them in errors: "MASTER_ADDR=10.0.0.1".  Throws Error(invalid_usage): none is
/// left, or this host, which has interfaces to others, has none of their family.
std::vector<Address> usable_addresses(const std::string& what, const std::vector<Address>& addresses,
                                      const std::string& family, const std::vector<Interface>& all);

/// NCCL_SOCKET_FAMILY: "" for both.  Throws Error.
std::string socket_family();
/// As the environment has it; logged.  Empty where no interface is up, and the environment asks for none.  Throws
/// Error.
InterfaceChoice choose_interfaces();

/// "eth0 10.0.0.1, eth1 10.1.0.1"
std::string in_words(const std::vector<Interface>& interfaces);

}  // namespace rondo::control
