// Sends whose bytes the kernel takes from where they are (MSG_ZEROCOPY), of one socket.
//
// The kernel numbers such sends from 0 and tells on the socket's error queue which of them need their memory no longer:
// usually when the peer's kernel has acknowledged them.  It also tells where it has copied after all, as it does on
// loopback and between network namespaces; that costs more than an ordinary send.  Source: the kernel's
// Documentation/networking/msg_zerocopy.rst.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo::tcp {

enum class ZeroCopyUse : std::uint8_t {
  off,
  trial,   // until the kernel says that it has copied
  always,  // also where it copies
};

class ZeroCopy {
 public:
  /// Off where the kernel has no such sends.
  ZeroCopy(int socket, ZeroCopyUse use) noexcept;

  /// Whether to send `bytes` so: with MSG_ZEROCOPY, then sent() or refuse().
  bool suits(std::size_t bytes) const noexcept;
  /// Counts a send; the number behind its own.
  std::uint64_t sent() noexcept { return ++sent_; }
  /// For want of the kernel's memory (ENOBUFS).  Until some is free, ordinary sends do.
  void refuse() noexcept { refused_at_ = free_; }
  /// Whether the memory of all sends before number `end` is free again, as far as take_news() has heard.
  bool free_before(std::uint64_t end) const noexcept { return free_ >= end; }
  /// Reads the socket's error queue if something is to be heard.
  void take_news() noexcept;

  std::uint64_t count() const noexcept { return sent_; }
  std::uint64_t copied() const noexcept { return copied_; }

 private:
  static constexpr std::uint64_t pending_max = 64;
  void free(std::uint32_t first, std::uint32_t last) noexcept;

  int socket_;
  ZeroCopyUse use_;
  std::uint64_t sent_ = 0;
  std::uint64_t free_ = 0;                        // all before this one
  std::uint64_t free_bits_ = 0;                   // those behind it, from free_ on: news may overtake each other
  std::uint64_t copied_ = 0;                      // by the kernel all the same
  std::uint64_t refused_at_ = ~std::uint64_t{0};  // with so many free
};

}  // namespace rondo::tcp
