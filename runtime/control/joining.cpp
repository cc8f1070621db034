// The messages between joining ranks and roots: see root.h.
#include <algorithm>

#include "base/limits.h"
#include "control/root.h"

namespace rondo::control::joining {
namespace {

constexpr std::size_t text_bytes_max = 256;

void write(ByteWriter& writer, const Member& member) {
  writer.number(static_cast<std::uint32_t>(member.rank)).number(static_cast<std::uint64_t>(member.pid));
  writer.text(member.host.substr(0, text_bytes_max)).number(member.host_key).text(member.listener);
  writer.number(member.addresses.empty() ? std::uint16_t{0} : member.addresses.front().port);
  writer.number(static_cast<std::uint8_t>(member.addresses.size()));
  for (const Address& address : member.addresses) write_ip(writer, address);
  writer.number(member.cpus_key).number(member.cpus);
}

Member read_member(ByteReader& reader) {
  Member member;
  member.rank = static_cast<int>(reader.number<std::uint32_t>());
  member.pid = static_cast<std::int64_t>(reader.number<std::uint64_t>());
  member.host = reader.text();
  member.host_key = reader.number<std::uint64_t>();
  member.listener = reader.text();
  const auto port = reader.number<std::uint16_t>();
  const std::size_t count = std::min<std::size_t>(reader.number<std::uint8_t>(), limits::addresses_max);
  for (std::size_t i = 0; i < count; ++i) member.addresses.push_back(read_ip(reader, port));
  member.cpus_key = reader.number<std::uint64_t>();
  member.cpus = reader.number<std::uint16_t>();
  return member;
}

}  // namespace

Bytes encode(const Greeting& greeting) {
  ByteWriter writer;
  write(writer, greeting.member);
  writer.number(greeting.ranks).text(greeting.settings.substr(0, text_bytes_max)).number(greeting.settings_digest);
  return writer.number(greeting.patience_ms).number(greeting.left_ms).bytes();
}

std::optional<Greeting> decode_greeting(View body) {
  ByteReader reader(body);
  Greeting greeting;
  greeting.member = read_member(reader);
  greeting.ranks = reader.number<std::uint32_t>();
  greeting.settings = reader.text();
  greeting.settings_digest = reader.number<std::uint64_t>();
  greeting.patience_ms = reader.number<std::uint64_t>();
  greeting.left_ms = reader.number<std::uint64_t>();
  if (!reader.complete()) return {};
  return greeting;
}

Bytes encode(const Place& place) {
  ByteWriter writer;
  write(writer.number(place.communicator).raw(place.secret), place.parent);
  return writer.bytes();
}

std::optional<Place> decode_place(View body) {
  ByteReader reader(body);
  Place place;
  place.communicator = reader.number<std::uint64_t>();
  place.secret = reader.array<sizeof(Secret)>();
  place.parent = read_member(reader);
  if (!reader.complete()) return {};
  return place;
}

std::vector<Bytes> encode(const Membership& membership) {
  constexpr std::size_t room = limits::frame_bytes_max - 3 * text_bytes_max;
  std::vector<Bytes> frames;
  std::size_t next = 0;
  while (next < membership.members.size()) {
    ByteWriter writer;
    writer.number(membership.communicator).raw(membership.secret);
    for (; next < membership.members.size() && writer.size() < room; ++next) write(writer, membership.members[next]);
    frames.push_back(writer.bytes());
  }
  return frames;
}

bool decode_members(View body, Membership& membership) {
  ByteReader reader(body);
  membership.communicator = reader.number<std::uint64_t>();
  const auto secret = reader.array<sizeof(membership.secret)>();
  std::copy(secret.begin(), secret.end(), membership.secret);
  while (!reader.empty()) {
    Member member = read_member(reader);
    if (member.rank != static_cast<int>(membership.members.size())) return false;
    membership.members.push_back(std::move(member));
  }
  return reader.complete();
}

Bytes encode(const Error& error) {
  return ByteWriter().number(static_cast<std::uint32_t>(error.code())).text(error.what()).bytes();
}

Error decode_error(View body) {
  ByteReader reader(body);
  const auto code = static_cast<Code>(reader.number<std::uint32_t>());
  return Error(code, reader.text());
}

}  // namespace rondo::control::joining
