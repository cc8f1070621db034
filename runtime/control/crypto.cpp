// Randomness, hashes and message authentication: getrandom, and libcrypto's one-shot functions.
#include "control/crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include <cerrno>

#include "base/result.h"

namespace rondo::control {

void prepare_crypto() { OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr); }

void fill_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_system_error("get random bytes");
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  fill_random(std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

Secret random_secret() {
  Secret secret;
  fill_random(secret);
  return secret;
}

std::string random_name() {
  std::array<std::byte, 8> bytes;
  fill_random(bytes);
  std::string name = "rondo-";
  for (const std::byte byte : bytes) {
    name += "0123456789abcdef"[static_cast<unsigned>(byte) >> 4];
    name += "0123456789abcdef"[static_cast<unsigned>(byte) & 15];
  }
  return name;
}

Mac authenticate(const Secret& secret, std::initializer_list<View> parts) {
  ByteWriter message;
  for (const View part : parts) message.number(static_cast<std::uint32_t>(part.size())).raw(part);
  Mac mac;
  const auto* key = secret.data();
  const auto* data = reinterpret_cast<const unsigned char*>(message.bytes().data());
  auto* out = reinterpret_cast<unsigned char*>(mac.data());
  if (::HMAC(::EVP_sha256(), key, static_cast<int>(secret.size()), data, message.size(), out, nullptr) == nullptr) {
    throw Error(Code::internal_error, "libcrypto cannot compute HMAC-SHA256");
  }
  return mac;
}

bool equal(const Mac& a, const Mac& b) noexcept { return ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

Secret sha256(View bytes) {
  Secret digest;
  ::SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
           reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

}  // namespace rondo::control
