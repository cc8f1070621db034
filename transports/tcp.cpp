// TCP between two ranks.  The lower rank asks the control plane to connect the sockets; both get them as frames, proved
// to come from the peer, and make a link each way of them (tcp_stream.h).
#include "tcp.h"

#include <fcntl.h>
#include <linux/tcp.h>  // the C library's tcp_info lacks the least round trip
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/doorbell.h"
#include "base/keepalive.h"
#include "base/limits.h"
#include "base/log.h"
#include "tcp_stream.h"

namespace rondo {
namespace {

/// How the socket's kernel decides when to send.  On a way of some microseconds BBR's pacing takes longer than the way,
/// and CUBIC's slow start ends at the first delay, with less on its way than a message (docs/measured.md): there Reno
/// is taken, unless another one is `asked` for.  What counts is the least round trip: a peer that acknowledged late has
/// made the smoothed one long.
void choose_congestion_control(int socket, const std::string& asked) {
  const auto set = [&](std::string_view name) {
    return ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0;
  };
  if (!asked.empty()) {
    if (!set(asked)) {
      throw_system_error("cannot use RONDO_TCP_CONGESTION=" + asked +
                         " (net.ipv4.tcp_allowed_congestion_control lists what may be used)");
    }
    return;
  }
  char name[16] = {};
  socklen_t bytes = sizeof name;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &bytes) != 0) return;
  tcp_info info{};
  bytes = sizeof info;
  const std::string_view used(name, ::strnlen(name, sizeof name));
  const bool minds = used == "bbr" || used == "cubic";
  if (!minds || ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return;
  if (info.tcpi_min_rtt < limits::short_way_us) (void)set("reno");  // if it may not be set, it stays as it is
}

/// Non-blocking, no delay for small messages, and a kernel that notices a host that is gone.  A rank that is late may
/// leave bytes unread for as long as it likes: where some wait, a dead host shows on the channel of the pair, on the
/// same way.
void configure(int socket, const std::string& congestion) {
  const int flags = ::fcntl(socket, F_GETFL);
  if (flags < 0 || ::fcntl(socket, F_SETFL, flags | O_NONBLOCK) != 0) {
    throw_system_error("cannot make a data socket non-blocking");
  }
  const int on = 1;
  if (::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
    throw_system_error("cannot set TCP_NODELAY of a data socket");
  }
  choose_congestion_control(socket, congestion);
  keep_alive(socket, Unread::is_fine);
}

class TcpConnection final : public Connection {
 public:
  TcpConnection(int peer, bool initiator, Wire& wire, Doorbell& doorbell, const limits::TcpSockets& sockets,
                tcp::Helpers* helpers, const std::string& congestion, tcp::ZeroCopyUse zero_copy)
      : doorbell_(doorbell),
        sockets_per_link_(sockets.per_link),
        lanes_(sockets.lanes),
        helpers_(helpers),
        congestion_(congestion),
        zero_copy_(zero_copy),
        sockets_(static_cast<std::size_t>(sockets.lanes * sockets.per_link)),
        peer_number_(peer),
        peer_(peer) {
    if (initiator) wire.connect_sockets(static_cast<int>(sockets_.size()));
  }
  ~TcpConnection() override {
    if (zero_copy_ != tcp::ZeroCopyUse::off && ready() && log::enabled(log::Subsystem::net)) tell_zero_copies();
    senders_.clear();
    receivers_.clear();
  }

  void receive(Frame& frame) override {
    SocketPlace place;
    if (frame.kind != socket_frame || frame.body.size() != sizeof place || frame.descriptors.size() != 1) {
      throw Error(Code::internal_error, "an unknown TCP frame, " + std::to_string(frame.kind));
    }
    std::memcpy(&place, frame.body.data(), sizeof place);
    if (place.count != sockets_.size() || place.index >= place.count) {
      throw Error(Code::invalid_usage, "the peer opens " + std::to_string(place.count) + " data sockets, not " +
                                           std::to_string(sockets_.size()) +
                                           "; NCCL_NSOCKS_PERTHREAD and "
                                           "NCCL_SOCKET_NTHREADS must be the same on all ranks");
    }
    if (sockets_[place.index]) throw Error(Code::internal_error, "a data socket came twice");
    configure(frame.descriptors[0].get(), congestion_);
    sockets_[place.index] = std::move(frame.descriptors[0]);
    if (++arrived_ == sockets_.size()) open();
  }

  bool ready() const noexcept override { return ready_.load(std::memory_order_acquire); }
  void finish() noexcept override {
    if (!ready()) return;
    for (const Descriptor& socket : sockets_) ::shutdown(socket.get(), SHUT_WR);
  }
  void fail(Code code) noexcept override {
    peer_.tell(code);
    wake_sleepers(doorbell_.ringer());
  }
  SendEnd& send_end(int lane) noexcept override { return *senders_[lane]; }
  ReceiveEnd& receive_end(int lane) noexcept override { return *receivers_[lane]; }
  std::string describe() const override {
    return "TCP, " + std::to_string(sockets_per_link_) + (sockets_per_link_ == 1 ? " socket, " : " sockets, ") +
           std::to_string(limits::credits) + " slots of " + std::to_string(limits::tcp_slot_bytes / 1024) +
           " KiB each way" +
           (helpers_ == nullptr ? "" : ", served by " + std::to_string(helpers_->count() + 1) + " threads");
  }

 private:
  void open() {
    for (int lane = 0; lane < lanes_; ++lane) {
      std::vector<int> sockets;
      for (int i = 0; i < sockets_per_link_; ++i) sockets.push_back(sockets_[lane * sockets_per_link_ + i].get());
      senders_.push_back(std::make_unique<tcp::Sender>(sockets, peer_, helpers_, zero_copy_));
      receivers_.push_back(std::make_unique<tcp::Receiver>(sockets, peer_, helpers_));
    }
    ready_.store(true, std::memory_order_release);
  }

  void tell_zero_copies() const {
    std::uint64_t sent = 0;
    std::uint64_t copied = 0;
    for (const auto& sender : senders_) {
      for (const tcp::ZeroCopy& socket : sender->zero_copies()) {
        sent += socket.count();
        copied += socket.copied();
      }
    }
    log::info(log::Subsystem::net, "TCP to rank " + std::to_string(peer_number_) + ": " + std::to_string(sent) +
                                       " sends without a copy, of which the kernel copied " + std::to_string(copied));
  }

  Doorbell& doorbell_;
  const int sockets_per_link_;
  const int lanes_;
  tcp::Helpers* const helpers_;  // null: none
  const std::string& congestion_;
  const tcp::ZeroCopyUse zero_copy_;
  std::vector<Descriptor> sockets_;
  std::size_t arrived_ = 0;
  const int peer_number_;
  tcp::Peer peer_;
  std::vector<std::unique_ptr<tcp::Sender>> senders_;  // by lane
  std::vector<std::unique_ptr<tcp::Receiver>> receivers_;
  std::atomic<bool> ready_{false};
};

class TcpTransport final : public Transport {
 public:
  TcpTransport(Doorbell& doorbell, limits::TcpSockets sockets, std::string congestion, tcp::ZeroCopyUse zero_copy)
      : doorbell_(doorbell), sockets_(sockets), congestion_(std::move(congestion)), zero_copy_(zero_copy) {}
  ~TcpTransport() override {
    if (helpers_ != nullptr && log::enabled(log::Subsystem::net)) tell_counts();
  }
  std::string_view name() const noexcept override { return "tcp"; }
  bool reaches(const Wire&) const noexcept override { return true; }
  bool local() const noexcept override { return false; }
  std::unique_ptr<Connection> open(int peer, bool initiator, Wire& wire) override {
    if (sockets_.threads > 1 && helpers_ == nullptr)
      helpers_ = std::make_unique<tcp::Helpers>(sockets_.threads - 1, doorbell_.ringer());
    return std::make_unique<TcpConnection>(peer, initiator, wire, doorbell_, sockets_, helpers_.get(), congestion_,
                                           zero_copy_);
  }
  std::unique_ptr<Connection> open_self() override { return nullptr; }

 private:
  void tell_counts() const {
    int number = 0;
    for (const tcp::HelperCounts& counts : helpers_->counts()) {
      log::info(log::Subsystem::net, "TCP helper " + std::to_string(++number) + " moved " +
                                         std::to_string(counts.bytes) + " bytes and ended " +
                                         std::to_string(counts.pieces) + " pieces, " + std::to_string(counts.stolen) +
                                         " taken from other helpers");
    }
    log::info(log::Subsystem::net,
              "calling threads took back " + std::to_string(helpers_->taken_back()) + " pieces from TCP helpers");
  }

  Doorbell& doorbell_;
  const limits::TcpSockets sockets_;
  const std::string congestion_;
  const tcp::ZeroCopyUse zero_copy_;
  std::unique_ptr<tcp::Helpers> helpers_;  // from the first link on; all connections end before it
};

}  // namespace

std::unique_ptr<Transport> make_tcp_transport(Doorbell& doorbell, limits::TcpSockets sockets, std::string congestion,
                                              tcp::ZeroCopyUse zero_copy) {
  return std::make_unique<TcpTransport>(doorbell, sockets, std::move(congestion), zero_copy);
}

}  // namespace rondo
