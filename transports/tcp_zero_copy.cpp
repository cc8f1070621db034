// The kernel's news of sends without a copy: see tcp_zero_copy.h.
#include "tcp_zero_copy.h"

// errqueue.h takes timespec for known.
// clang-format off
#include <ctime>
#include <linux/errqueue.h>
// clang-format on

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "base/limits.h"

namespace rondo::tcp {

ZeroCopy::ZeroCopy(int socket, ZeroCopyUse use) noexcept : socket_(socket), use_(use) {
  const int on = 1;
  if (use_ != ZeroCopyUse::off && ::setsockopt(socket, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on) != 0)
    use_ = ZeroCopyUse::off;
}

bool ZeroCopy::suits(std::size_t bytes) const noexcept {
  return use_ != ZeroCopyUse::off && bytes >= limits::zero_copy_bytes_min && sent_ - free_ < pending_max &&
         refused_at_ != free_;
}

void ZeroCopy::take_news() noexcept {
  while (free_ != sent_) {
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(sock_extended_err)) + CMSG_SPACE(sizeof(sockaddr_in6))];
    msghdr message{};
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    if (::recvmsg(socket_, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return;
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
      const bool error = (part->cmsg_level == SOL_IP && part->cmsg_type == IP_RECVERR) ||
                         (part->cmsg_level == SOL_IPV6 && part->cmsg_type == IPV6_RECVERR);
      sock_extended_err news;
      if (!error) continue;
      std::memcpy(&news, CMSG_DATA(part), sizeof news);
      if (news.ee_origin != SO_EE_ORIGIN_ZEROCOPY || news.ee_errno != 0) continue;
      if ((news.ee_code & SO_EE_CODE_ZEROCOPY_COPIED) != 0) {
        copied_ += news.ee_data - news.ee_info + std::uint64_t{1};
        if (use_ == ZeroCopyUse::trial) use_ = ZeroCopyUse::off;
      }
      free(news.ee_info, news.ee_data);
    }
  }
}

/// The kernel's numbers have 32 bits.
void ZeroCopy::free(std::uint32_t first, std::uint32_t last) noexcept {
  for (std::uint32_t number = first; number != last + 1; ++number) {
    const std::uint32_t place = number - static_cast<std::uint32_t>(free_);
    if (place < pending_max) free_bits_ |= std::uint64_t{1} << place;
  }
  while ((free_bits_ & 1) != 0) {
    free_bits_ >>= 1;
    ++free_;
  }
}

}  // namespace rondo::tcp
