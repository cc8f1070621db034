// The handshake's messages and proofs, apart from any socket.
//
//   client -> server   hello      the key it wants, a nonce
//   server -> client   challenge  a nonce, the server's proof
//   client -> server   proof      the client's proof, which covers its greeting; the greeting
//   server -> client   welcome    (or, instead of any answer, refusal)
//
// Both prove knowledge of the key's secret over both nonces, so that neither a stranger nor a recording passes.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>

#include "control/bytes.h"
#include "control/crypto.h"

namespace rondo::control {

enum class Purpose : std::uint8_t {
  join = 1,   // number: of the root
  mesh = 2,   // number: of the communicator; rank: the one that is called
  table = 3,  // the same: who has the table of members, or will have it
};

/// What a connection asks for.
struct Key {
  Purpose purpose = Purpose::join;
  std::uint64_t number = 0;
  std::uint32_t rank = 0;
  friend auto operator<=>(const Key&, const Key&) = default;
};

namespace handshake {

enum Kind : std::uint16_t { hello = 1, challenge = 2, proof = 3, welcome = 4, refusal = 5 };
enum class Refusal : std::uint8_t { unknown_key = 1, wrong_proof = 2 };

struct Hello {
  Key key;
  Nonce nonce = {};
};
Bytes encode(const Hello& hello);
std::optional<Hello> decode_hello(View body);

struct Challenge {
  Nonce nonce = {};
  Mac mac = {};
};
Bytes encode(const Challenge& challenge);
std::optional<Challenge> decode_challenge(View body);

struct Proof {
  Mac mac = {};
  Bytes greeting;
};
Bytes encode(const Proof& proof);
std::optional<Proof> decode_proof(View body);

Mac server_mac(const Secret& secret, const Hello& hello, const Nonce& server_nonce);
Mac client_mac(const Secret& secret, const Hello& hello, const Nonce& server_nonce, View greeting);

}  // namespace handshake
}  // namespace rondo::control
