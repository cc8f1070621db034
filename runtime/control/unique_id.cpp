// Unique ids: see unique_id.h.
#include "control/unique_id.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/limits.h"

namespace rondo::control {
namespace {

constexpr std::string_view magic = "rondo-id";
constexpr std::uint16_t version = 1;
constexpr std::uint16_t flag_derived = 1;
constexpr std::size_t checked_bytes = 120;

View checksum_of(const UniqueId& id, Secret& digest) {
  digest = sha256(View(id.bytes).first(checked_bytes));
  return View(digest).first(sizeof(id.bytes) - checked_bytes);
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(
      Code::invalid_argument,
      "the unique id " + what + ": make it once with ncclGetUniqueId and pass its 128 bytes unchanged to every rank");
}

}  // namespace

UniqueId encode(const RootAddress& address) {
  ByteWriter writer;
  writer.raw(std::as_bytes(std::span(magic))).number(version);
  writer.number(address.derived ? flag_derived : std::uint16_t{0});
  writer.number(static_cast<std::uint32_t>(address.name.size())).number(address.root);
  writer.raw(address.secret).raw(view(address.name));
  UniqueId id;
  std::memcpy(id.bytes, writer.bytes().data(), std::min(writer.size(), checked_bytes));
  Secret digest;
  const View checksum = checksum_of(id, digest);
  std::memcpy(id.bytes + checked_bytes, checksum.data(), checksum.size());
  return id;
}

RootAddress decode(const UniqueId& id) {
  ByteReader reader(id.bytes);
  const auto found_magic = reader.array<8>();
  if (std::memcmp(found_magic.data(), magic.data(), magic.size()) != 0) refuse("is not one of Rondo's");
  const auto found_version = reader.number<std::uint16_t>();
  if (found_version != version) {
    refuse("is of version " + std::to_string(found_version) + ", but this Rondo reads version " +
           std::to_string(version) + " (use one version of Rondo in all ranks)");
  }
  const auto flags = reader.number<std::uint16_t>();
  const auto name_bytes = reader.number<std::uint32_t>();
  RootAddress address;
  address.derived = (flags & flag_derived) != 0;
  address.root = reader.number<std::uint64_t>();
  address.secret = reader.array<32>();
  const auto name = reader.array<limits::rendezvous_name_bytes_max>();
  Secret digest;
  const View checksum = checksum_of(id, digest);
  if (std::memcmp(checksum.data(), id.bytes + checked_bytes, checksum.size()) != 0 || name_bytes == 0 ||
      name_bytes > name.size()) {
    refuse("was damaged on its way");
  }
  address.name.assign(reinterpret_cast<const char*>(name.data()), name_bytes);
  return address;
}

RootAddress derive(const std::string& name, const std::string& secret) {
  if (name.empty() || name.size() > limits::rendezvous_name_bytes_max) {
    throw Error(Code::invalid_argument, "the rendezvous name '" + name + "' must have 1 to " +
                                            std::to_string(limits::rendezvous_name_bytes_max) + " characters");
  }
  const std::string role = "rondo rendezvous";
  RootAddress address;
  address.name = name;
  address.derived = true;
  address.secret = authenticate(sha256(view(secret)), {view(role), view(name)});
  address.root = ByteReader(sha256(address.secret)).number<std::uint64_t>();
  return address;
}

}  // namespace rondo::control
