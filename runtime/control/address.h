// Addresses: an IP address with a port, where a listener is reached.
//
// A value: nothing here opens a socket.  The scope of an IPv6 link-local address is the number of an interface of this
// host; it never travels, and whoever calls such an address tries the interfaces that it has.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/bytes.h"

namespace rondo::control {

struct Address {
  bool six = false;                   // IPv6
  std::array<std::byte, 16> ip = {};  // of IPv4 the first four; in the order of the network
  std::uint32_t scope = 0;
  std::uint16_t port = 0;
  std::size_t ip_bytes() const noexcept { return six ? 16 : 4; }
  friend bool operator==(const Address&, const Address&) = default;
};

/// "10.0.0.1:4000", "[2001:db8::1]:4000", "[fe80::1%eth0]:4000"; without the port where it is 0.
std::string in_words(const Address& address);
/// Of the numbers alone, "10.0.0.1" or "2001:db8::1": names are for resolve().
std::optional<Address> parse_address(std::string_view text, std::uint16_t port);
bool is_loopback(const Address& address) noexcept;
bool is_link_local(const Address& address) noexcept;  // IPv6
/// An IPv4 address in IPv6's clothes (::ffff:10.0.0.1) as what it is.
Address unmapped(const Address& address) noexcept;
/// Whether the first `bits` of both are the same.
bool share_prefix(const Address& a, const Address& b, int bits) noexcept;

/// The addresses of another host's name, or of numbers; blocks.  Throws Error(invalid_argument).  Never asked for this
/// host's own name.
std::vector<Address> resolve(const std::string& host, std::uint16_t port);

/// Without the port: members of one process share it.
void write_ip(ByteWriter& writer, const Address& address);
Address read_ip(ByteReader& reader, std::uint16_t port) noexcept;

}  // namespace rondo::control
