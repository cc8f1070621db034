// The calling side of connections: finds the one of a peer's ways that works, proves itself, and tries again where that
// can help.
//
// The ways are the name of a Unix socket and IP addresses, in the order given.  The next one is tried as well when the
// last has failed or has not answered for limits::call_stagger_ms.  Whoever first proves that it knows the secret is
// the peer: another machine that happens to have the address cannot, and is passed over.  Only then does this side
// prove itself, so that the peer never meets it twice.  It tries until its owner destroys it (the owner holds the
// deadline) or until it reports an outcome.  Loop thread only.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "control/address.h"
#include "control/channel.h"
#include "control/handshake.h"

namespace rondo::control {

enum class Outcome {
  connected,
  nobody,        // nobody listens, at any of the addresses
  unknown_key,   // who listens does not serve the key
  wrong_secret,  // one of both does not know the secret
  broken,        // no descriptor, no permission, no way, not Rondo: see the text
};

struct Call {
  std::string name;                // of the listener; may be empty
  std::vector<Address> addresses;  // of the same
  Key key;
  Secret secret = {};
  Bytes greeting;
};

class Connector {
 public:
  /// `channel` is set when connected; set its handlers.  `text`: what each way met.  True: stop (the connector may be
  /// destroyed inside); false, where not connected: try again.
  using Report = std::function<bool(Outcome outcome, std::shared_ptr<Channel> channel, const std::string& text)>;
  Connector(Loop& loop, Call call, Report report);
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;
  /// What the last failed attempt met; empty before.
  const std::string& last_trouble() const noexcept { return last_trouble_; }

 private:
  /// A way, being tried.
  struct Attempt {
    std::string way;  // in words
    Socket socket;    // until connected
    std::unique_ptr<Watch> watch;
    std::shared_ptr<Channel> channel;
    std::unique_ptr<Timer> deadline;
    handshake::Hello hello;
    bool proved = false;  // it is the peer, and this side has proved itself
    bool over = false;
    Outcome outcome = Outcome::broken;
    std::string trouble;
  };
  using Place = std::list<Attempt>::iterator;

  void start_round();
  void begin_next();
  void begin_local(Place attempt);
  void begin_remote(Place attempt, const Address& address);
  void connected(Place attempt);
  void greet(Place attempt, Socket socket);
  void receive(Place attempt, Plane plane, const Frame& frame);
  void answer(Place attempt, const Frame& frame);
  void fail(Place attempt, Outcome outcome, const std::string& text);
  void end(Attempt& attempt) noexcept;
  void again();
  void conclude();

  Loop& loop_;
  const Call call_;
  Report report_;
  Timer timer_;  // until the next round, or the next way
  int pause_ms_ = 1;
  std::size_t begun_ = 0;  // ways of this round
  std::list<Attempt> attempts_;
  std::string last_trouble_;
};

/// Link-local addresses once for each interface that can reach such; those that share a network with one of this host
/// first, loopback last.
std::vector<Address> in_order_of_promise(const std::vector<Address>& addresses);

}  // namespace rondo::control
