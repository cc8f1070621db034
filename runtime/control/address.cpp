// Addresses: see address.h.
#include "control/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/result.h"

namespace rondo::control {
namespace {

constexpr std::uint8_t kind_four = 4;
constexpr std::uint8_t kind_six = 6;

unsigned byte_of(const Address& address, std::size_t i) noexcept { return std::to_integer<unsigned>(address.ip[i]); }

}  // namespace

Address unmapped(const Address& address) noexcept {
  static constexpr unsigned char prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (!address.six || std::memcmp(address.ip.data(), prefix, sizeof prefix) != 0) return address;
  Address four;
  std::copy(address.ip.begin() + 12, address.ip.end(), four.ip.begin());
  four.port = address.port;
  return four;
}

std::string in_words(const Address& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  ::inet_ntop(address.six ? AF_INET6 : AF_INET, address.ip.data(), text, sizeof text);
  std::string words = text;
  if (address.scope != 0) {
    char name[IF_NAMESIZE] = {};
    const bool named = ::if_indextoname(address.scope, name) != nullptr;
    words.append("%").append(named ? std::string(name) : std::to_string(address.scope));
  }
  if (address.port == 0) return words;
  if (address.six) words = std::string("[").append(words).append("]");
  return words.append(":").append(std::to_string(address.port));
}

std::optional<Address> parse_address(std::string_view text, std::uint16_t port) {
  Address address;
  address.port = port;
  std::string numbers(text);
  const std::size_t percent = numbers.find('%');
  if (percent != std::string::npos) {
    address.scope = ::if_nametoindex(numbers.c_str() + percent + 1);
    if (address.scope == 0) return {};
    numbers.resize(percent);
  }
  if (percent == std::string::npos && ::inet_pton(AF_INET, numbers.c_str(), address.ip.data()) == 1) return address;
  address.six = true;
  if (::inet_pton(AF_INET6, numbers.c_str(), address.ip.data()) != 1) return {};
  return unmapped(address);
}

bool is_loopback(const Address& address) noexcept {
  if (!address.six) return byte_of(address, 0) == 127;
  return std::all_of(address.ip.begin(), address.ip.end() - 1, [](std::byte b) { return b == std::byte{0}; }) &&
         byte_of(address, 15) == 1;
}

bool is_link_local(const Address& address) noexcept {
  return address.six && byte_of(address, 0) == 0xfe && (byte_of(address, 1) & 0xc0) == 0x80;
}

bool share_prefix(const Address& a, const Address& b, int bits) noexcept {
  if (a.six != b.six || bits < 0 || static_cast<std::size_t>(bits) > 8 * a.ip_bytes()) return false;
  const auto whole = static_cast<std::size_t>(bits) / 8;
  if (!std::equal(a.ip.begin(), a.ip.begin() + static_cast<std::ptrdiff_t>(whole), b.ip.begin())) return false;
  const int rest = bits % 8;
  return rest == 0 || (byte_of(a, whole) ^ byte_of(b, whole)) >> (8 - rest) == 0;
}

std::vector<Address> resolve(const std::string& host, std::uint16_t port) {
  if (const auto numbers = parse_address(host, port)) return {*numbers};
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    throw Error(Code::invalid_argument, "cannot find the address of host '" + host + "': " + ::gai_strerror(error) +
                                            "; give its IP address instead of its name");
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> guard(found, ::freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    Address address;
    address.port = port;
    if (one->ai_family == AF_INET) {
      std::memcpy(address.ip.data(), &reinterpret_cast<const sockaddr_in*>(one->ai_addr)->sin_addr, 4);
    } else if (one->ai_family == AF_INET6) {
      const auto* six = reinterpret_cast<const sockaddr_in6*>(one->ai_addr);
      address.six = true;
      address.scope = six->sin6_scope_id;
      std::memcpy(address.ip.data(), &six->sin6_addr, 16);
    } else {
      continue;
    }
    addresses.push_back(unmapped(address));
  }
  return addresses;
}

void write_ip(ByteWriter& writer, const Address& address) {
  writer.number(address.six ? kind_six : kind_four).raw(View(address.ip).first(address.ip_bytes()));
}

Address read_ip(ByteReader& reader, std::uint16_t port) noexcept {
  Address address;
  address.port = port;
  address.six = reader.number<std::uint8_t>() == kind_six;
  if (address.six) {
    address.ip = reader.array<16>();
  } else {
    const auto four = reader.array<4>();
    std::copy(four.begin(), four.end(), address.ip.begin());
  }
  return address;
}

}  // namespace rondo::control
