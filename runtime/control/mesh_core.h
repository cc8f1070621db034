// A communicator's control plane on the control thread: the tree of news, the pair channels, who is alive.
//
// Shared by the mesh's handle (any thread) and by the tasks it posts; all members are used on the control thread only,
// unless said otherwise.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control.h"
#include "control/channel.h"
#include "control/connector.h"
#include "control/news.h"
#include "control/reception.h"

namespace rondo::control {

class ControlThread;

class MeshCore : public std::enable_shared_from_this<MeshCore>, private News::Owner {
 public:
  MeshCore(ControlThread& thread, const Membership& membership, Mesh::Hooks hooks);

  /// Offers the service and builds this rank's part of the tree; `created` is set when it stands, or to why it cannot.
  void start(Deadline deadline);
  std::future<std::optional<Failure>> created() { return created_.get_future(); }
  void want(int peer);
  void tell_failure(const std::string& sentence);
  /// No hook runs from here on; `done` runs once, when the goodbyes are out or the deadline has passed.
  void close(Deadline deadline, std::function<void()> done);

 private:
  /// The control plane's own frames, but for those of a handshake.
  enum Kind : std::uint16_t {
    goodbye = 32,          // the sender leaves in good order; 33 and 34 are News's
    sockets_wanted = 35,   // the sender wants data sockets: how many
    sockets_offered = 36,  // the answer: the TCP port to call
  };
  using State = News::State;
  /// A channel to one peer: of the tree, or of a pair.
  struct Line {
    std::unique_ptr<Connector> connector;
    std::shared_ptr<Channel> channel;
  };
  /// The sockets for user data: one side calls for each, the other awaits the calls.
  struct DataSockets {
    bool calling = false;
    std::vector<bool> connected;  // by index; none: not asked for
    std::vector<std::unique_ptr<Connector>> calls;
    std::unique_ptr<Timer> deadline;
  };
  struct Peer;
  class PairWire;
  enum class Use : std::uint8_t { tree = 1, pair = 2, data = 3 };

  Peer& peer(int rank);
  Service service();
  // News::Owner
  void send(int to, std::uint16_t kind, View body) override;
  void call(int rank) override { call(rank, Use::tree); }
  void mend_soon() override;
  void gone(int rank, State how, const std::string& sentence) override;

  bool here(int rank) const { return news_.state(rank) == State::here; }
  Call call_to(int peer, Use use) const;
  void call(int peer, Use use);
  bool called(int peer, Use use, Outcome outcome, std::shared_ptr<Channel> channel, const std::string& text);
  void accept(std::shared_ptr<Channel> channel, View greeting);
  void adopt(int peer, Use use, std::shared_ptr<Channel> channel);
  void watch_process(int peer, pid_t pid);
  void ask_for_sockets(int peer, int count);
  void offer_sockets(int peer, const Frame& frame);
  void call_sockets(int peer, const Frame& frame);
  void accept_socket(int from, std::uint32_t index, Channel& channel);
  void socket_connected(int peer, std::size_t index, Channel& channel);
  void fail_links(int peer, const std::string& why);
  void receive(int from, Plane plane, Frame& frame);
  void closed(int peer, Use use, const std::string& why);

  void check_created();
  void creation_expired();
  void fail_creation(const Failure& failure);

  void note_died(int rank, const std::string& how);
  void note_failed(int rank, const std::string& sentence);
  void tell_pairs(int failed, const std::string& sentence);
  void let_go(int rank);
  void finish_close();

  ControlThread& thread_;
  const Membership membership_;
  const int rank_;
  Mesh::Hooks hooks_;
  News news_;
  std::map<int, Peer> peers_;     // those that there is or was a line to
  std::unique_ptr<Timer> timer_;  // of creation, then of closing; like all that is the loop's, gone when closed
  std::unique_ptr<Timer> mend_timer_;
  std::chrono::milliseconds patience_{0};
  bool creating_ = true;
  bool closing_ = false;
  bool told_pairs_ = false;
  Bytes own_failure_;                             // a frame's body: who connects after it was told must hear it too
  std::promise<std::optional<Failure>> created_;  // the words of an error, not the exception object
  std::size_t unflushed_ = 0;
  std::function<void()> close_done_;
};

/// The way to one peer's Connections.  Lives as long as its core.
class MeshCore::PairWire : public Wire {
 public:
  PairWire(MeshCore& core, int peer) : core_(core), peer_(peer) {}
  bool passes_descriptors() const noexcept override { return passes_descriptors_; }
  void send(std::uint16_t kind, std::span<const std::byte> body, std::span<const int> descriptors) override;
  void connect_sockets(int count) override;
  /// Once, before anybody has the wire.
  void opened(const Channel& channel) noexcept { passes_descriptors_ = channel.passes_descriptors(); }

 private:
  MeshCore& core_;
  int peer_;
  bool passes_descriptors_ = false;
};

struct MeshCore::Peer {
  Peer(MeshCore& core, int rank) : wire(core, rank) {}
  Line tree;
  Line pair;
  Descriptor process;  // a pidfd
  std::unique_ptr<Watch> process_watch;
  std::unique_ptr<Timer> pair_end;  // how long the news of a pair channel's end may take
  Deadline refused_since{};
  DataSockets data;
  PairWire wire;
};

}  // namespace rondo::control
