// Bodies of frames, written and read: little-endian integers, counted texts, raw bytes.
//
// A reader never throws and never reads outside: after the first shortage every value is zero and `complete()` is
// false.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::control {

using Bytes = std::vector<std::byte>;
using View = std::span<const std::byte>;

class ByteWriter {
 public:
  template <std::unsigned_integral T>
  ByteWriter& number(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
    return *this;
  }
  ByteWriter& raw(View bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  ByteWriter& text(std::string_view text) {
    number(static_cast<std::uint32_t>(text.size()));
    return raw(std::as_bytes(std::span(text)));
  }
  const Bytes& bytes() const noexcept { return bytes_; }
  std::size_t size() const noexcept { return bytes_.size(); }

 private:
  Bytes bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(View bytes) noexcept : rest_(bytes) {}
  template <std::unsigned_integral T>
  T number() noexcept {
    T value = 0;
    const View part = take(sizeof(T));
    for (std::size_t i = 0; i < part.size(); ++i) value |= static_cast<T>(static_cast<T>(part[i]) << (8 * i));
    return value;
  }
  template <std::size_t N>
  std::array<std::byte, N> array() noexcept {
    std::array<std::byte, N> value = {};
    const View part = take(N);
    if (!part.empty()) std::memcpy(value.data(), part.data(), part.size());
    return value;
  }
  std::string text() {
    const View part = take(number<std::uint32_t>());
    return std::string(reinterpret_cast<const char*>(part.data()), part.size());
  }
  View raw(std::size_t bytes) noexcept { return take(bytes); }
  View rest() noexcept { return take(rest_.size()); }
  bool empty() const noexcept { return rest_.empty(); }
  /// Everything asked for was there, and nothing is left.
  bool complete() const noexcept { return !short_ && rest_.empty(); }

 private:
  View take(std::size_t bytes) noexcept {
    if (bytes > rest_.size()) {
      short_ = true;
      rest_ = {};
      return {};
    }
    const View part = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return part;
  }
  View rest_;
  bool short_ = false;
};

}  // namespace rondo::control
