// The serving side of connections: listens, admits strangers at bounded cost, hands authenticated channels on.
//
// Whoever serves a key (a root, a mesh) offers it here with its secret.  A connection of another user is dropped at
// once where the kernel tells (not over TCP), any other has limits::handshake_timeout_ms to prove itself, and the
// oldest unproved one makes room for a new one, those of TCP first.  A connection for a mesh that is not there yet
// waits within that time: the peer was faster.  Loop thread only.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "control/channel.h"
#include "control/handshake.h"

namespace rondo::control {

struct Service {
  Secret secret = {};
  /// A peer that knows the secret, and what it says of itself (already welcomed).  Set the channel's handlers.
  std::function<void(std::shared_ptr<Channel> channel, View greeting)> accept;
  /// The process ends: say goodbye, then call `done`.  May be empty.
  std::function<void(Deadline deadline, std::function<void()> done)> leave;
};

class Reception {
 public:
  explicit Reception(Loop& loop) : loop_(loop) {}
  /// Throws Error.
  void listen(const std::string& name);
  /// On the first free TCP port of the range; says which.  A port that it listens on already is shared.
  std::uint16_t listen(const PortRange& range, const std::string& family);
  void unlisten(const std::string& name) { listeners_.erase(name); }
  void unlisten(std::uint16_t port);
  void offer(const Key& key, Service service);
  void withdraw(const Key& key) { services_.erase(key); }
  /// Asks every service to leave; `done` runs when all have.
  void leave_all(Deadline deadline, std::function<void()> done);

 private:
  struct Listener {
    Socket socket;
    std::unique_ptr<Watch> watch;
    std::unique_ptr<Timer> pause;
    int users = 1;
  };
  struct Arrival {
    std::shared_ptr<Channel> channel;
    std::unique_ptr<Timer> deadline;
    handshake::Hello hello;
    Nonce nonce = {};
    bool local = true;        // of this host, by a Unix socket
    bool greeted = false;     // said hello
    bool challenged = false;  // was answered
  };
  using Place = std::list<Arrival>::iterator;
  void watch(Listener& listener);
  void accept(Listener& listener);
  void admit(Socket socket);
  /// Gives up the arrival that has the least claim.  There is one.
  void make_room(const std::string& why);
  void receive(Place arrival, Plane plane, const Frame& frame);
  void answer(Place arrival);
  void refuse(Place arrival, handshake::Refusal reason);
  void drop(Place arrival, const std::string& why);

  Loop& loop_;
  std::map<std::string, Listener> listeners_;
  std::map<Key, Service> services_;
  std::list<Arrival> arrivals_;       // by age
  Clock::time_point next_warning_{};  // of too few descriptors
};

}  // namespace rondo::control
