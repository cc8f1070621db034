// ncclConfig_t by size, magic and version: programs built for an older NCCL pass a shorter one.
#include "api/config.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

#include "base/env.h"
#include "base/result.h"

namespace rondo::api {
namespace {

constexpr int any = std::numeric_limits<int>::max();

/// A field: from which version on the caller knows it, and which values it may have when set.
struct Field {
  const char* name;
  std::size_t offset;
  unsigned since;
  int low;
  int high;
};

constexpr Field fields[] = {
    {"blocking", offsetof(ncclConfig_t, blocking), NCCL_VERSION(2, 14, 0), 0, 1},
    {"cgaClusterSize", offsetof(ncclConfig_t, cgaClusterSize), NCCL_VERSION(2, 17, 0), 0, 8},
    {"minCTAs", offsetof(ncclConfig_t, minCTAs), NCCL_VERSION(2, 17, 0), 1, any},
    {"maxCTAs", offsetof(ncclConfig_t, maxCTAs), NCCL_VERSION(2, 17, 0), 1, any},
    {"splitShare", offsetof(ncclConfig_t, splitShare), NCCL_VERSION(2, 18, 0), 0, 1},
    {"trafficClass", offsetof(ncclConfig_t, trafficClass), NCCL_VERSION(2, 26, 0), 0, any},
    {"collnetEnable", offsetof(ncclConfig_t, collnetEnable), NCCL_VERSION(2, 27, 0), 0, 1},
    {"CTAPolicy", offsetof(ncclConfig_t, CTAPolicy), NCCL_VERSION(2, 27, 0), 0, 3},
    {"shrinkShare", offsetof(ncclConfig_t, shrinkShare), NCCL_VERSION(2, 27, 0), 0, 1},
    {"nvlsCTAs", offsetof(ncclConfig_t, nvlsCTAs), NCCL_VERSION(2, 27, 0), 1, any},
    {"nChannelsPerNetPeer", offsetof(ncclConfig_t, nChannelsPerNetPeer), NCCL_VERSION(2, 28, 0), 1, any},
    {"nvlinkCentricSched", offsetof(ncclConfig_t, nvlinkCentricSched), NCCL_VERSION(2, 28, 0), 0, 1},
};

static_assert(sizeof(ncclConfig_t) == 120 && offsetof(ncclConfig_t, netName) == 32 &&
              offsetof(ncclConfig_t, commName) == 48 && offsetof(ncclConfig_t, nvlinkCentricSched) == 76);

int value_of(const ncclConfig_t& config, const Field& field) {
  int value = 0;
  std::memcpy(&value, reinterpret_cast<const char*>(&config) + field.offset, sizeof(value));
  return value;
}

void check(const ncclConfig_t& config) {
  for (const Field& field : fields) {
    const int value = value_of(config, field);
    if (config.version < field.since || value == NCCL_CONFIG_UNDEF_INT) continue;
    if (value >= field.low && value <= field.high) continue;
    const std::string range = field.high == any ? "at least " + std::to_string(field.low)
                                                : std::to_string(field.low) + " to " + std::to_string(field.high);
    throw Error(Code::invalid_argument, "config->" + std::string(field.name) + " is " + std::to_string(value) +
                                            ", and may be " + range + ", or stay NCCL_CONFIG_UNDEF_INT");
  }
  const bool both = config.minCTAs != NCCL_CONFIG_UNDEF_INT && config.maxCTAs != NCCL_CONFIG_UNDEF_INT;
  if (both && config.minCTAs > config.maxCTAs) {
    throw Error(Code::invalid_argument, "config->minCTAs is more than config->maxCTAs");
  }
}

}  // namespace

Config parse_config(const ncclConfig_t* config) {
  Config parsed;
  if (config != nullptr) {
    constexpr std::size_t header_bytes = offsetof(ncclConfig_t, blocking);
    if (config->size < header_bytes || config->magic != NCCL_API_MAGIC) {
      throw Error(Code::invalid_argument, "config was not initialized; start it as NCCL_CONFIG_INITIALIZER");
    }
    ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
    std::memcpy(&known, config, std::min(config->size, sizeof(known)));
    check(known);
    const bool says = known.version >= NCCL_VERSION(2, 14, 0) && known.blocking != NCCL_CONFIG_UNDEF_INT;
    if (says) parsed.blocking = known.blocking != 0;
    if (known.version >= NCCL_VERSION(2, 27, 0) && known.commName != nullptr) parsed.name = known.commName;
  }
  if (env::text("NCCL_COMM_BLOCKING")) parsed.blocking = env::integer("NCCL_COMM_BLOCKING", 0, 1) != 0;
  return parsed;
}

}  // namespace rondo::api
