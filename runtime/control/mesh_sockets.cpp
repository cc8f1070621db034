// Data sockets between a pair: who wants them asks over the pair channel, the other names its TCP port, the first calls
// it once for each, and proves itself as for any channel; both hand the sockets on as frames.
//
// They take the way that the pair channel took: the address that was proved there, and loopback only where the channel
// itself is one of this host.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/limits.h"
#include "control/mesh_core.h"
#include "control/thread.h"
#include "control/words.h"

namespace rondo::control {
namespace {

constexpr std::size_t sockets_max = std::size_t{limits::lanes_max} * limits::sockets_per_link_max;

/// Where the other end of a pair channel takes calls at the port.
std::vector<Address> way_of(const Channel& channel, std::uint16_t port) {
  if (!channel.passes_descriptors()) {
    Address address = channel.peer_address();
    address.port = port;
    return {address};
  }
  return {*parse_address("127.0.0.1", port), *parse_address("::1", port)};
}

}  // namespace

void MeshCore::PairWire::connect_sockets(int count) {
  if (!ControlThread::usable()) return;
  if (core_.thread_.loop().on_thread()) return core_.ask_for_sockets(peer_, count);
  core_.thread_.loop().post([core = core_.shared_from_this(), to = peer_, count] { core->ask_for_sockets(to, count); });
}

void MeshCore::ask_for_sockets(int with, int count) {
  Peer& other = peer(with);
  if (closing_ || !other.pair.channel || !other.data.connected.empty()) return;
  other.data.calling = true;
  other.data.connected.resize(static_cast<std::size_t>(count));
  other.pair.channel->send(Plane::control, sockets_wanted,
                           ByteWriter().number(static_cast<std::uint32_t>(count)).bytes());
}

void MeshCore::offer_sockets(int with, const Frame& frame) {
  Peer& other = peer(with);
  ByteReader reader(frame.body);
  const auto count = reader.number<std::uint32_t>();
  const bool fits = reader.complete() && count >= 1 && count <= sockets_max;
  if (!fits || !other.pair.channel || !other.data.connected.empty()) {
    return note_failed(with, "sent a malformed control frame");
  }
  std::uint16_t port = 0;
  try {
    port = thread_.port();
  } catch (const Error& error) {
    return fail_links(with, error.what());
  }
  other.data.connected.resize(count);
  other.data.deadline = std::make_unique<Timer>(thread_.loop());
  other.data.deadline->start(bounded(Clock::now() + patience_), [this, with] {
    const auto& connected = peer(with).data.connected;
    fail_links(with, std::to_string(std::count(connected.begin(), connected.end(), false)) + " of " +
                         std::to_string(connected.size()) + " data sockets did not come");
  });
  other.pair.channel->send(Plane::control, sockets_offered, ByteWriter().number(port).bytes());
}

void MeshCore::call_sockets(int with, const Frame& frame) {
  DataSockets& data = peer(with).data;
  ByteReader reader(frame.body);
  const auto port = reader.number<std::uint16_t>();
  if (!reader.complete() || port == 0 || !data.calling || !data.calls.empty()) {
    return note_failed(with, "sent a malformed control frame");
  }
  data.deadline = std::make_unique<Timer>(thread_.loop());
  data.deadline->start(bounded(Clock::now() + patience_), [this, with] {
    const auto& calls = peer(with).data.calls;
    const auto open = std::find_if(calls.begin(), calls.end(), [](const auto& call) { return call != nullptr; });
    fail_links(with, "the data sockets could not be connected: " +
                         (open == calls.end() ? std::string("no answer") : (*open)->last_trouble()));
  });
  data.calls.resize(data.connected.size());
  for (std::size_t index = 0; index < data.calls.size(); ++index) {
    Call call = call_to(with, Use::data);
    call.name.clear();
    call.addresses = way_of(*peer(with).pair.channel, port);
    call.greeting = ByteWriter().raw(call.greeting).number(static_cast<std::uint32_t>(index)).bytes();
    data.calls[index] = std::make_unique<Connector>(
        thread_.loop(), std::move(call),
        [this, with, index](Outcome outcome, std::shared_ptr<Channel> channel, const std::string&) {
          if (outcome != Outcome::connected) return false;
          socket_connected(with, index, *channel);
          return true;
        });
  }
}

void MeshCore::accept_socket(int from, std::uint32_t index, Channel& channel) {
  const DataSockets& data = peer(from).data;
  if (data.calling || index >= data.connected.size() || data.connected[index]) return channel.stop();
  socket_connected(from, index, channel);
}

void MeshCore::socket_connected(int with, std::size_t index, Channel& channel) {
  DataSockets& data = peer(with).data;
  const Socket socket = channel.release();
  // A plain descriptor: a forked child may keep it, as it keeps all that is not the control plane's.
  Descriptor own(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  if (!own) {
    return fail_links(with,
                      "cannot keep a data socket: " + std::generic_category().message(errno) + " (see ulimit -n)");
  }
  data.connected[index] = true;
  if (data.calling) data.calls[index].reset();
  if (std::find(data.connected.begin(), data.connected.end(), false) == data.connected.end()) data.deadline.reset();
  const auto count = static_cast<std::uint32_t>(data.connected.size());
  Frame frame = make_socket_frame({static_cast<std::uint32_t>(index), count}, std::move(own));
  if (hooks_.frame) hooks_.frame(with, frame);
  ring(thread_.doorbell().ringer());
}

/// The links to a peer can't be opened: this rank's failure, as the peer is not known to be at fault.
void MeshCore::fail_links(int with, const std::string& why) {
  const std::string sentence = "links to " + in_words(membership_.members[static_cast<std::size_t>(with)]) + ": " + why;
  peer(with).data = {};
  if (hooks_.failed) hooks_.failed({Code::system_error, with, sentence});
  tell_failure(sentence);
  ring(thread_.doorbell().ringer());
}

}  // namespace rondo::control
