// Data sockets between a pair: who wants them asks over the pair channel, the other listens, both hand them on as
// frames.  How they are connected and proved is in data_sockets.h.
#include <algorithm>

#include "base/limits.h"
#include "control/mesh_core.h"
#include "control/thread.h"
#include "control/words.h"

namespace rondo::control {
namespace {

constexpr int sockets_max = limits::lanes_max * limits::sockets_per_link_max;

}  // namespace

void MeshCore::PairWire::connect_sockets(int count) {
  if (!ControlThread::usable()) return;
  if (core_.thread_.loop().on_thread()) return core_.ask_for_sockets(peer_, count);
  core_.thread_.loop().post([core = core_.shared_from_this(), to = peer_, count] { core->ask_for_sockets(to, count); });
}

void MeshCore::ask_for_sockets(int with, int count) {
  Peer& other = peer(with);
  if (closing_ || !other.pair.channel || other.sockets_wanted != 0) return;
  other.sockets_wanted = count;
  other.pair.channel->send(Plane::control, sockets_wanted,
                           ByteWriter().number(static_cast<std::uint32_t>(count)).bytes());
}

void MeshCore::offer_sockets(int with, const Frame& frame) {
  Peer& other = peer(with);
  ByteReader reader(frame.body);
  const auto count = reader.number<std::uint32_t>();
  const bool fits = reader.complete() && count >= 1 && count <= sockets_max;
  if (!fits || !other.pair.channel || other.data_listener) return note_failed(with, "sent a malformed control frame");
  try {
    other.data_listener = std::make_unique<DataListener>(thread_.loop(), static_cast<int>(count),
                                                         bounded(Clock::now() + patience_),
                                                         data_events(with, static_cast<int>(count)));
  } catch (const Error& error) {
    return fail_links(with, error.what());
  }
  other.pair.channel->send(Plane::control, sockets_offered, encode(other.data_listener->offer()));
}

void MeshCore::call_sockets(int with, const Frame& frame) {
  Peer& other = peer(with);
  const auto offer = decode_data_offer(frame.body);
  if (!offer || other.sockets_wanted == 0 || other.data_caller) {
    return note_failed(with, "sent a malformed control frame");
  }
  other.data_caller =
      std::make_unique<DataCaller>(thread_.loop(), *offer, other.sockets_wanted, bounded(Clock::now() + patience_),
                                   data_events(with, other.sockets_wanted));
}

DataEvents MeshCore::data_events(int with, int count) {
  DataEvents events;
  events.connected = [this, with, count](int index, Descriptor socket) {
    Frame frame = make_socket_frame({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(count)},
                                    std::move(socket));
    if (hooks_.frame) hooks_.frame(with, frame);
    ring(thread_.doorbell().page());
  };
  events.failed = [this, with](const std::string& why) { fail_links(with, why); };
  return events;
}

/// The links to a peer can't be opened: this rank's failure, as the peer is not known to be at fault.
void MeshCore::fail_links(int with, const std::string& why) {
  const std::string sentence = "links to " + in_words(membership_.members[static_cast<std::size_t>(with)]) + ": " + why;
  if (hooks_.failed) hooks_.failed({Code::system_error, with, sentence});
  tell_failure(sentence);
  ring(thread_.doorbell().page());
}

}  // namespace rondo::control
