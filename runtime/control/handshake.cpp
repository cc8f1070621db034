// The handshake's messages: see handshake.h.
#include "control/handshake.h"

#include <string>

namespace rondo::control::handshake {

Bytes encode(const Hello& hello) {
  ByteWriter writer;
  writer.number(static_cast<std::uint8_t>(hello.key.purpose)).number(hello.key.number).number(hello.key.rank);
  return writer.raw(hello.nonce).bytes();
}

std::optional<Hello> decode_hello(View body) {
  ByteReader reader(body);
  Hello hello;
  hello.key.purpose = static_cast<Purpose>(reader.number<std::uint8_t>());
  hello.key.number = reader.number<std::uint64_t>();
  hello.key.rank = reader.number<std::uint32_t>();
  hello.nonce = reader.array<32>();
  if (!reader.complete()) return {};
  return hello;
}

Bytes encode(const Challenge& challenge) { return ByteWriter().raw(challenge.nonce).raw(challenge.mac).bytes(); }

std::optional<Challenge> decode_challenge(View body) {
  ByteReader reader(body);
  Challenge challenge;
  challenge.nonce = reader.array<32>();
  challenge.mac = reader.array<32>();
  if (!reader.complete()) return {};
  return challenge;
}

Bytes encode(const Proof& proof) { return ByteWriter().raw(proof.mac).raw(proof.greeting).bytes(); }

std::optional<Proof> decode_proof(View body) {
  ByteReader reader(body);
  Proof proof;
  proof.mac = reader.array<32>();
  const View greeting = reader.rest();
  proof.greeting.assign(greeting.begin(), greeting.end());
  if (!reader.complete()) return {};
  return proof;
}

Mac server_mac(const Secret& secret, const Hello& hello, const Nonce& server_nonce) {
  const std::string role = "rondo server";
  return authenticate(secret, {view(role), encode(hello), server_nonce});
}

Mac client_mac(const Secret& secret, const Hello& hello, const Nonce& server_nonce, View greeting) {
  const std::string role = "rondo client";
  return authenticate(secret, {view(role), encode(hello), server_nonce, greeting});
}

}  // namespace rondo::control::handshake
