// The calling side of connections: connects, proves itself, and tries again where that can help.
//
// It tries until its owner destroys it (the owner holds the deadline) or until it reports an outcome.  Loop thread
// only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "control/channel.h"
#include "control/handshake.h"

namespace rondo::control {

enum class Outcome {
  connected,
  nobody,        // nobody listens on the name
  unknown_key,   // who listens does not serve the key
  wrong_secret,  // one of both does not know the secret
  broken,        // no descriptor, no permission, not Rondo: see the text
};

struct Call {
  std::string name;  // of the listener
  Key key;
  Secret secret = {};
  Bytes greeting;
};

class Connector {
 public:
  /// `channel` is set when connected; set its handlers.  `text`: the system's words, if any.  True: stop (the connector
  /// may be destroyed inside); false, where not connected: try again.
  using Report = std::function<bool(Outcome outcome, std::shared_ptr<Channel> channel, const std::string& text)>;
  Connector(Loop& loop, Call call, Report report);
  ~Connector();
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;
  /// What the last failed attempt met; empty before.
  const std::string& last_trouble() const noexcept { return last_trouble_; }

 private:
  void attempt();
  void receive(Plane plane, const Frame& frame);
  void answer(const Frame& frame);
  void again();
  void conclude(Outcome outcome, const std::string& text);

  Loop& loop_;
  Call call_;
  Report report_;
  Timer timer_;
  int pause_ms_ = 1;
  std::shared_ptr<Channel> channel_;
  handshake::Hello hello_;
  bool proved_ = false;
  std::string last_trouble_;
};

}  // namespace rondo::control
