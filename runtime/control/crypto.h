// Randomness, hashes and message authentication, from the kernel and libcrypto.  Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "control/bytes.h"

namespace rondo::control {

using Secret = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 32>;
using Mac = std::array<std::byte, 32>;

/// Makes libcrypto ready without its exit handler, which would pull it away under the control thread.
void prepare_crypto();

void fill_random(std::span<std::byte> bytes);  // throws Error
std::uint64_t random_number();
Secret random_secret();
/// A fresh abstract socket name: "rondo-" and 8 random bytes in hexadecimal.  It finds, the secret proves.
std::string random_name();

/// HMAC-SHA256 over the parts, each preceded by its length.
Mac authenticate(const Secret& secret, std::initializer_list<View> parts);
/// In constant time.
bool equal(const Mac& a, const Mac& b) noexcept;
Secret sha256(View bytes);

inline View view(const std::string& text) noexcept { return std::as_bytes(std::span(text)); }

}  // namespace rondo::control
