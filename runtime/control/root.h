// The root of a unique id: gathers the ranks that join, checks that they agree, gives the table of all to rank 0 and to
// each other rank its place in the tree along which the table travels (table.h).
//
// Lives on the control thread of the process that made the id, until every rank has the table.  After a failure it
// stays for the ranks that come late, so that they hear the same sentence.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "control/channel.h"
#include "control/unique_id.h"

namespace rondo::control {

class ControlThread;

/// What joining ranks and roots say to each other, after the handshake.
namespace joining {

enum Kind : std::uint16_t {
  members = 16,   // a part of the table
  failure = 17,   // no rank will join
  placed = 18,    // all are there; the rank's parent has the table, or will have it
  received = 19,  // a child's: it has the table
  served = 20,    // a rank's: so have it and its children
};

/// A rank's greeting to the root.
struct Greeting {
  Member member;
  std::uint32_t ranks = 0;
  std::string settings;               // what ranks must agree on; long ones cut short
  std::uint64_t settings_digest = 0;  // of the whole
  std::uint64_t patience_ms = 0;      // how long it will wait, from join() on
  std::uint64_t left_ms = 0;          // of that, from now
};
Bytes encode(const Greeting& greeting);
std::optional<Greeting> decode_greeting(View body);

/// Where a rank gets the table.
struct Place {
  std::uint64_t communicator = 0;
  Secret secret = {};
  Member parent;
};
Bytes encode(const Place& place);
std::optional<Place> decode_place(View body);

/// Members travel in as many frames as they need; each frame repeats the communicator's number and secret.
std::vector<Bytes> encode(const Membership& membership);
/// Adds a frame's members.  False: malformed.
bool decode_members(View body, Membership& membership);

Bytes encode(const Error& error);
Error decode_error(View body);

}  // namespace joining

class Root {
 public:
  /// Offers itself.  Throws Error.
  Root(ControlThread& thread, RootAddress address);
  ~Root();
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;
  bool serves(const RootAddress& address) const noexcept { return offered_ && address_.root == address.root; }
  bool failed() const noexcept { return failure_.has_value(); }

 private:
  struct Joined {
    std::shared_ptr<Channel> channel;
    joining::Greeting greeting;
    Deadline deadline;
    bool served = false;
  };
  void accept(std::shared_ptr<Channel> channel, View body);
  /// What is wrong with the newcomer beside those already here.
  std::optional<Error> objection(const joining::Greeting& greeting) const;
  void closed(std::uint64_t number);
  void watch_deadlines();
  void expire();
  void succeed();
  void fail(const Error& error);
  void withdraw();
  void end();

  ControlThread& thread_;
  RootAddress address_;
  Timer timer_;
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, Joined> joined_;  // by order of arrival
  bool complete_ = false;
  bool offered_ = true;
  std::optional<Error> failure_;
};

}  // namespace rondo::control
