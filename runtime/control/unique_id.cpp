// Unique ids: see unique_id.h.
#include "control/unique_id.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/limits.h"

namespace rondo::control {
namespace {

constexpr std::string_view magic = "rondo-id";
constexpr std::uint8_t version = 2;
constexpr std::uint8_t flag_derived = 1;
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
  ByteWriter room;
  room.raw(view(address.name));
  std::uint8_t count = 0;
  for (const Address& one : address.addresses) {
    if (room.size() + 1 + one.ip_bytes() > limits::id_room_bytes) continue;
    write_ip(room, one);
    ++count;
  }
  if (count == 0 && !address.addresses.empty()) {
    throw Error(Code::invalid_argument, "the rendezvous name '" + address.name + "' leaves no room for an address");
  }
  ByteWriter writer;
  writer.raw(std::as_bytes(std::span(magic))).number(version);
  writer.number(address.derived ? flag_derived : std::uint8_t{0});
  writer.number(static_cast<std::uint8_t>(address.name.size())).number(count).number(address.port);
  writer.number(std::uint16_t{0}).number(address.root).raw(address.secret).raw(room.bytes());
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
  const auto found_version = reader.number<std::uint8_t>();
  if (found_version != version) {
    refuse("is of version " + std::to_string(found_version) + ", but this Rondo reads version " +
           std::to_string(version) + " (use one version of Rondo in all ranks)");
  }
  Secret digest;
  const View checksum = checksum_of(id, digest);
  const bool whole = std::memcmp(checksum.data(), id.bytes + checked_bytes, checksum.size()) == 0;
  RootAddress address;
  address.derived = (reader.number<std::uint8_t>() & flag_derived) != 0;
  const auto name_bytes = reader.number<std::uint8_t>();
  const auto count = reader.number<std::uint8_t>();
  address.port = reader.number<std::uint16_t>();
  (void)reader.number<std::uint16_t>();
  address.root = reader.number<std::uint64_t>();
  address.secret = reader.array<32>();
  ByteReader room(View(reader.rest()).first(limits::id_room_bytes));
  if (!whole || name_bytes == 0 || name_bytes > limits::id_room_bytes) refuse("was damaged on its way");
  const View name = room.raw(name_bytes);
  address.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  for (int i = 0; i < count; ++i) address.addresses.push_back(read_ip(room, address.port));
  return address;
}

RootAddress derive(const Rendezvous& rendezvous) {
  const std::string& name = rendezvous.name;
  if (name.empty() || name.size() > limits::rendezvous_name_bytes_max) {
    throw Error(Code::invalid_argument, "the rendezvous name '" + name + "' must have 1 to " +
                                            std::to_string(limits::rendezvous_name_bytes_max) + " characters");
  }
  const std::string role = "rondo rendezvous";
  RootAddress address;
  address.name = name;
  address.port = rendezvous.port;
  address.derived = true;
  address.secret = authenticate(sha256(view(rendezvous.secret)), {view(role), view(name)});
  address.root = ByteReader(sha256(address.secret)).number<std::uint64_t>();
  return address;
}

}  // namespace rondo::control
