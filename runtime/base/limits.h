// Every limit of Rondo, by name.  A limit that users meet says so in the sentence of its error.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace rondo::limits {

inline constexpr int ranks_max = 65536;   // of a communicator
inline constexpr int plan_lanes_max = 2;  // of a schedule's plans; each lane has its own links, and pairs so many
inline constexpr int lanes_max = 16;      // of a communicator, by NCCL_MIN_NCHANNELS
inline constexpr int slices_max = 2;      // messages a step
inline constexpr int credits = 4;         // messages of any size of a link, its slots; at least slices_max + 1
inline constexpr int headers = 64;  // messages of a link that shares memory: those that need no slot go on to here
static_assert(credits >= slices_max + 1 && headers >= credits);

// A pair of ranks shares one segment of at most 1 MiB: for each lane and direction `credits` slots, and the headers.
// With more lanes by NCCL_MIN_NCHANNELS 1 MiB for each, and all slots are of one size.
inline constexpr std::size_t slot_bytes = 112 * 1024;        // payload of one message
inline constexpr std::size_t tcp_slot_bytes = 256 * 1024;    // the same over TCP, where no segment bounds it
inline constexpr std::size_t second_slot_bytes = 13 * 1024;  // on the second lane; plans of two lanes use no more
inline constexpr std::size_t sent_bytes_max = 8 * 1024;      // of ncclSend's messages that are copied, not lent
inline constexpr std::size_t inline_bytes = 36;              // payload that travels in the header's own cache line
inline constexpr std::size_t cache_line_bytes = 64;

inline constexpr std::size_t queued_calls_kept = 4096;           // of a queue: the room of so many calls that are done
inline constexpr std::size_t queued_ahead_bytes_max = 8 * 1024;  // of all-reduces of a queue that may run together
inline constexpr std::size_t prepared_runs = 4;     // kinds and sizes of calls that a communicator keeps laid out
inline constexpr int regions_max = 1024;            // ncclMemAlloc regions that can be lent at one time
inline constexpr int shelf_rooms = 6;               // of slot_bytes each, of a communicator whose ranks share cores
inline constexpr std::size_t regions_offered = 16;  // of them, offered to a peer before the first lend: the newest
inline constexpr int memory_nodes_max = 1024;       // NUMA nodes, as many as Linux has; those beyond count for none
inline constexpr int processors_max = 65536;
inline constexpr std::size_t settings_file_bytes_max = 1 << 20;  // of NCCL_CONF_FILE and RONDO_TUNE_FILE
inline constexpr int abort_timeout_ms = 5000;
inline constexpr int stop_timeout_ms = 1000;  // that a failed call waits for a peer that is writing into its buffer

inline constexpr int tcp_keepalive_probes = 3;  // unanswered, one each quarter of RONDO_HOST_TIMEOUT
inline constexpr int host_timeout_s_min = 2;    // of RONDO_HOST_TIMEOUT
inline constexpr int host_timeout_s_max = 100'000;
inline constexpr int sockets_per_link_max = 64;
inline constexpr int socket_threads_max = 16;               // of NCCL_SOCKET_NTHREADS, the calling thread among them
inline constexpr std::uint32_t short_way_us = 1000;         // there and back: Reno suits it better than BBR and CUBIC
inline constexpr std::size_t helped_bytes_min = 32 * 1024;  // left of a message for helpers to be asked
inline constexpr std::size_t zero_copy_bytes_min = 32 * 1024;  // of a message that the kernel is to send in place
inline constexpr int errands_of_helper_max = 1024;             // sockets' directions; those beyond are the caller's
inline constexpr std::size_t wakeups_max = 1024;    // sockets that a waiting call sleeps on; if more, it naps
inline constexpr int stream_end_timeout_ms = 1000;  // between the end of a peer's streams and the news of it

// Descriptors (`ulimit -n`).  A process: its control thread's, however much it communicates.  A communicator: for each
// line of the tree of news (to a parent and to tree_fanout children) a channel and the other process; for each peer
// that it has links to a channel, and over TCP the sockets of each lane, over shared memory the peer's doorbell.  With
// helpers an event for each of them, and one for the shelf where ranks share cores.
inline constexpr int tree_fanout = 8;
inline constexpr int descriptors_of_process = 9;
inline constexpr int descriptors_of_shm_peer = 2;
struct TcpSockets {
  int per_link = 1;
  int threads = 1;  // that serve them, the calling thread among them
  int lanes = plan_lanes_max;
};
constexpr int descriptors_of_tcp_peer(TcpSockets sockets) { return 1 + sockets.lanes * sockets.per_link; }
/// At the most: with links to all other ranks, all over TCP.
constexpr long descriptors_of_communicator(int ranks, TcpSockets sockets) {
  const long peers = ranks - 1;
  return 2 * std::min<long>(peers, tree_fanout + 1) + peers * descriptors_of_tcp_peer(sockets) + sockets.threads - 1;
}

// The control plane.
inline constexpr std::size_t frame_bytes_max = 64 * 1024;  // body of a control frame
inline constexpr std::size_t handshake_bytes_max = 1024;   // body of a frame before the peer has proved itself
inline constexpr int frame_descriptors_max = 16;           // descriptors that travel with one frame
inline constexpr std::size_t queued_bytes_max = 64 << 20;  // frames queued to one peer that does not read
inline constexpr int handshakes_max = 1024;                // unfinished ones of a process; the oldest is dropped
inline constexpr int handshake_timeout_ms = 5000;
inline constexpr int call_timeout_ms = 8000;                  // for a peer to answer at one of its addresses
inline constexpr int call_stagger_ms = 100;                   // before the next of its addresses is tried as well
inline constexpr int mend_pause_ms = 200;                     // before a rank that lost its parent calls another
inline constexpr int news_wait_ms = 500;                      // for the reason of an end that is known already
inline constexpr std::size_t addresses_max = 8;               // of a member
inline constexpr int roots_max = 4096;                        // unique ids of a process that wait for ranks
inline constexpr std::size_t rendezvous_name_bytes_max = 64;  // of the abstract socket name in a unique id
inline constexpr std::size_t id_room_bytes = 64;              // for name and addresses in a unique id
inline constexpr std::size_t key_file_bytes_min = 16;         // of RONDO_PSK_FILE
inline constexpr std::size_t key_file_bytes_max = 4096;
inline constexpr int exit_timeout_ms = 1000;  // for saying goodbye when the process exits
inline constexpr int tell_timeout_ms = 1000;  // that a failing call waits for its reason to be on its way to the others

}  // namespace rondo::limits
