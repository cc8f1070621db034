// SO_KEEPALIVE and TCP_USER_TIMEOUT: see keepalive.h.
//
// TCP_USER_TIMEOUT also ends a connection whose peer, alive, answers for so long that it has no room (tcp(7) speaks of
// unacknowledged data alone): it is for sockets whose peer always reads.
#include "base/keepalive.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

#include "base/env.h"
#include "base/limits.h"

namespace rondo {

int host_timeout_s() {
  static const int seconds =
      static_cast<int>(env::integer("RONDO_HOST_TIMEOUT", limits::host_timeout_s_min, limits::host_timeout_s_max));
  return seconds;
}

void keep_alive(int socket, Unread unread) noexcept {
  const int seconds = host_timeout_s();
  const int pause_s = std::max(1, seconds / (limits::tcp_keepalive_probes + 1));
  const auto set = [&](int level, int option, int value) {
    (void)::setsockopt(socket, level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, pause_s);
  set(IPPROTO_TCP, TCP_KEEPINTVL, pause_s);
  set(IPPROTO_TCP, TCP_KEEPCNT, limits::tcp_keepalive_probes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, unread == Unread::is_death ? 1000 * seconds : 0);
}

}  // namespace rondo
