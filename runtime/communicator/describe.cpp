// Calls in words: see describe.h.
#include "communicator/describe.h"

#include <cstdio>
#include <string_view>

#include "base/types.h"
#include "communicator/bundle.h"
#include "plan/plan.h"

namespace rondo {
namespace {

std::string_view type_name(std::uint8_t type) {
  static constexpr std::string_view names[data_type_count] = {"int8",    "uint8",    "int32",      "uint32",
                                                              "int64",   "uint64",   "float16",    "float32",
                                                              "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  return type < data_type_count ? names[type] : "unknown";
}

std::string_view operator_name(std::uint8_t op) {
  static constexpr std::string_view names[operator_count] = {"sum", "prod", "max", "min", "avg", "premul_sum"};
  return op < operator_count ? names[op] : "unknown";
}

}  // namespace

std::string plural(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string describe_call(const Signature& s) {
  if ((s.collective & bundle::mark) != 0) {
    char digest[16];
    std::snprintf(digest, sizeof digest, "%08x", bundle::digest(s.count));
    return "calls from " + std::to_string(s.call) + " on: " + std::to_string(bundle::calls(s.count)) +
           " all_reduces in a group, of " +
           plural(bundle::elements(s.count), std::string(type_name(s.type)) + " element") + " in all (" +
           std::string(operator_name(s.op)) + ", digest of counts " + digest + ")";
  }
  const plan::Collective collective{static_cast<CollectiveKind>(s.collective)};
  std::string text = "call " + std::to_string(s.call) + ": " + std::string(plan::name(collective.kind)) + " of " +
                     plural(s.count, std::string(type_name(s.type)) + " element");
  if (collective.reduces()) text += " (" + std::string(operator_name(s.op)) + ")";
  switch (collective.kind) {
    case CollectiveKind::broadcast:
    case CollectiveKind::scatter: return text + " from root " + std::to_string(s.root_low);
    case CollectiveKind::reduce:
    case CollectiveKind::gather: return text + " to root " + std::to_string(s.root_low);
    case CollectiveKind::send_recv: return text + " from rank " + std::to_string(s.root_low);
    default: return text;
  }
}

}  // namespace rondo
