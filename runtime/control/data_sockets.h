// Connecting the data sockets of a pair of ranks: one side listens for the time of the set-up, the other calls.
//
// The listening side announces, over the authenticated pair channel, a TCP port and two fresh tokens.  The caller opens
// each socket with the first token and the socket's index; the listener answers with the second.  So each side knows
// whom it has, and strangers who find the port are dropped: they have a deadline and a cap, and learn nothing.
// So far both are on one host, and the port is of 127.0.0.1.  Loop thread only.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "control/bytes.h"
#include "control/crypto.h"
#include "control/loop.h"
#include "control/socket.h"

namespace rondo::control {

/// What the listening side announces.
struct DataOffer {
  std::uint16_t port = 0;
  Secret call = {};    // what the caller says first, before the index
  Secret answer = {};  // what it hears
};
Bytes encode(const DataOffer& offer);
std::optional<DataOffer> decode_data_offer(View bytes);

/// What becomes of a set-up.  Runs from the loop, never inside a constructor.
struct DataEvents {
  std::function<void(int index, Descriptor socket)> connected;  // a proved socket; `count` times unless it fails
  std::function<void(const std::string& why)> failed;           // once; nothing follows
};

/// The listening side.
class DataListener {
 public:
  /// Throws Error where the system has no socket.
  DataListener(Loop& loop, int count, Deadline deadline, DataEvents events);
  const DataOffer& offer() const noexcept { return offer_; }

 private:
  struct Arrival {
    Socket socket;
    std::unique_ptr<Watch> watch;
    std::unique_ptr<Timer> deadline;
    Bytes got;
  };
  using Place = std::list<Arrival>::iterator;
  void accept();
  void read(Place arrival);
  void conclude(Place arrival);
  void fail(const std::string& why);

  Loop& loop_;
  DataEvents events_;
  DataOffer offer_;
  Socket socket_;
  std::unique_ptr<Watch> watch_;
  Timer timer_;
  std::list<Arrival> arrivals_;
  std::vector<bool> connected_;  // by index
  int missing_;
};

/// The calling side.  Tries a socket again until the deadline where it met a full queue or was taken for a stranger's.
class DataCaller {
 public:
  DataCaller(Loop& loop, const DataOffer& offer, int count, Deadline deadline, DataEvents events);

 private:
  struct Call {
    Socket socket;
    std::unique_ptr<Watch> watch;
    std::unique_ptr<Timer> pause;
    Bytes got;
  };
  void attempt(int index);
  void read(int index);
  void again(int index, const std::string& why);
  void fail(const std::string& why);

  Loop& loop_;
  const DataOffer offer_;
  DataEvents events_;
  std::vector<Call> calls_;  // by index
  Timer timer_;
  std::string last_trouble_ = "no answer";
};

}  // namespace rondo::control
