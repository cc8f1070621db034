// The choice of interfaces: see interfaces.h.
#include "control/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <memory>
#include <string_view>

#include "base/env.h"
#include "base/log.h"
#include "base/result.h"

namespace rondo::control {
namespace {

constexpr std::array<std::string_view, 9> container_prefixes = {"docker", "virbr",   "veth",   "br-", "cni",
                                                                "cali",   "flannel", "podman", "lxc"};

bool joins_containers(const Interface& interface) {
  return std::any_of(container_prefixes.begin(), container_prefixes.end(),
                     [&](std::string_view prefix) { return interface.name.starts_with(prefix); });
}

struct Pattern {
  bool exclude = false;
  bool exact = false;
  std::vector<std::string> names;

  explicit Pattern(std::string_view text) {
    if (text.starts_with('^')) exclude = true, text.remove_prefix(1);
    if (text.starts_with('=')) exact = true, text.remove_prefix(1);
    while (!text.empty()) {
      const std::size_t comma = std::min(text.find(','), text.size());
      if (comma > 0) names.emplace_back(text.substr(0, comma));
      text.remove_prefix(std::min(comma + 1, text.size()));
    }
  }
  bool names_it(const Interface& interface) const {
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return exact ? interface.name == name : interface.name.starts_with(name);
    });
  }
};

/// Link-local addresses only of interfaces that have no other.
std::vector<Interface> without_needless_local(const std::vector<Interface>& all) {
  std::vector<Interface> kept;
  for (const Interface& one : all) {
    const bool better = std::any_of(all.begin(), all.end(), [&](const Interface& other) {
      return other.name == one.name && !is_link_local(other.address);
    });
    if (!better || !is_link_local(one.address)) kept.push_back(one);
  }
  return kept;
}

std::vector<Interface> those(const std::vector<Interface>& all, const std::function<bool(const Interface&)>& fit) {
  std::vector<Interface> found;
  std::copy_if(all.begin(), all.end(), std::back_inserter(found), fit);
  return found;
}

/// The order of groups that holds where no names are asked for.
InterfaceChoice choose_by_kind(const std::vector<Interface>& all, const InterfaceRules& rules) {
  auto found = those(all, [](const Interface& i) { return !i.loopback && i.name.starts_with("ib"); });
  if (!found.empty()) return {found, "an InfiniBand interface (ib*) comes first"};
  if (rules.near) {
    found = those(all, [&](const Interface& i) { return share_prefix(i.address, *rules.near, i.prefix_bits); });
    if (!found.empty()) return {found, "in one network with NCCL_COMM_ID's " + in_words(*rules.near)};
  }
  found = those(all, [](const Interface& i) { return !i.loopback && !joins_containers(i); });
  if (!found.empty()) return {found, "neither loopback nor for the containers of one host"};
  found = those(all, [](const Interface& i) { return !i.loopback; });
  if (!found.empty()) return {found, "there is none but those for the containers of one host"};
  return {all, "there is none but loopback"};
}

}  // namespace

std::string in_words(const std::vector<Interface>& interfaces) {
  std::string words;
  for (const Interface& one : interfaces) words += (words.empty() ? "" : ", ") + one.name + " " + in_words(one.address);
  return words.empty() ? "none" : words;
}

InterfaceChoice choose_interfaces(const std::vector<Interface>& all, const InterfaceRules& rules) {
  std::vector<Interface> fitting = without_needless_local(those(
      all, [&](const Interface& i) { return rules.family.empty() || i.address.six == (rules.family == "AF_INET6"); }));
  const std::string family = rules.family.empty() ? "" : " with an address of " + rules.family;
  const std::string there_are = "; those that are up: " + in_words(all);
  if (!rules.names.empty()) {
    const Pattern pattern(rules.names);
    fitting = those(fitting, [&](const Interface& i) { return pattern.names_it(i) != pattern.exclude; });
    if (fitting.empty()) {
      throw Error(Code::invalid_usage,
                  "NCCL_SOCKET_IFNAME=" + rules.names + " leaves no interface" + family + there_are);
    }
    if (!pattern.exclude) return {fitting, "NCCL_SOCKET_IFNAME=" + rules.names};
  }
  if (fitting.empty()) {
    throw Error(Code::invalid_usage,
                "no interface" + family + " is up" + there_are + (family.empty() ? "" : "; see NCCL_SOCKET_FAMILY"));
  }
  InterfaceChoice choice = choose_by_kind(fitting, rules);
  if (!rules.names.empty()) choice.why += ", and NCCL_SOCKET_IFNAME=" + rules.names;
  return choice;
}

std::vector<Address> usable_addresses(const std::string& what, const std::vector<Address>& addresses,
                                      const std::string& family, const std::vector<Interface>& all) {
  const auto name = [](bool six) { return std::string(six ? "AF_INET6" : "AF_INET"); };
  std::vector<Address> usable;
  std::copy_if(addresses.begin(), addresses.end(), std::back_inserter(usable),
               [&](const Address& a) { return family.empty() || name(a.six) == family; });
  if (usable.empty() && !addresses.empty()) {
    const std::string other = name(addresses.front().six);
    throw Error(Code::invalid_usage, what + " is of " + other + ", but NCCL_SOCKET_FAMILY=" + family + " allows only " +
                                         family + ": give an address of " + family +
                                         ", or set NCCL_SOCKET_FAMILY=" + other + " on all ranks");
  }
  const auto outward = [&](bool six) {
    return std::any_of(all.begin(), all.end(), [=](const Interface& i) { return !i.loopback && i.address.six == six; });
  };
  if (!outward(false) && !outward(true)) return usable;  // no network at all: a matter of one host, or of time
  const auto lacks = [&](bool six) {
    return Error(Code::invalid_usage, what + " and " + name(six) + (family.empty() ? "" : " (NCCL_SOCKET_FAMILY)") +
                                          ": this host has no interface to others with an address of " + name(six) +
                                          "; those that are up: " + in_words(all) + "; give it one, or meet by " +
                                          name(!six));
  };
  if (addresses.empty() && !family.empty() && !outward(family == "AF_INET6")) throw lacks(family == "AF_INET6");
  const auto reached = [&](const Address& a) { return is_loopback(a) || outward(a.six); };
  if (!usable.empty() && std::none_of(usable.begin(), usable.end(), reached)) throw lacks(usable.front().six);
  return usable;
}

std::vector<Interface> list_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw_system_error("list the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> guard(list, ::freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Interface interface;
    interface.name = one->ifa_name;
    interface.loopback = (one->ifa_flags & IFF_LOOPBACK) != 0;
    interface.address.six = family == AF_INET6;
    std::array<std::byte, 16> mask = {};
    if (family == AF_INET) {
      std::memcpy(interface.address.ip.data(), &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, 4);
      std::memcpy(mask.data(), &reinterpret_cast<const sockaddr_in*>(one->ifa_netmask)->sin_addr, 4);
    } else {
      const auto* six = reinterpret_cast<const sockaddr_in6*>(one->ifa_addr);
      std::memcpy(interface.address.ip.data(), &six->sin6_addr, 16);
      std::memcpy(mask.data(), &reinterpret_cast<const sockaddr_in6*>(one->ifa_netmask)->sin6_addr, 16);
      if (is_link_local(interface.address)) interface.address.scope = six->sin6_scope_id;
    }
    for (const std::byte part : mask) interface.prefix_bits += std::popcount(std::to_integer<unsigned>(part));
    found.push_back(std::move(interface));
  }
  return found;
}

std::string socket_family() { return env::choice("NCCL_SOCKET_FAMILY", {"AF_INET", "AF_INET6"}); }

InterfaceChoice choose_interfaces() {
  InterfaceRules rules;
  rules.names = env::text("NCCL_SOCKET_IFNAME").value_or("");
  rules.family = socket_family();
  if (const auto id = env::text("NCCL_COMM_ID")) {
    std::string_view host = std::string_view(*id).substr(0, id->rfind(':'));
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    rules.near = parse_address(host, 0);
  }
  const std::vector<Interface> all = list_interfaces();
  if (all.empty() && rules.names.empty() && rules.family.empty()) {
    log::info(log::Subsystem::bootstrap, "no interface is up: other hosts cannot reach this process");
    return {{}, "none is up"};
  }
  InterfaceChoice choice = choose_interfaces(all, rules);
  log::info(log::Subsystem::bootstrap,
            "other hosts reach this process by " + in_words(choice.interfaces) + ": " + choice.why);
  return choice;
}

}  // namespace rondo::control
