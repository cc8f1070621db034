// What a ncclComm_t points to: the communicator, and how the border knows that it is one.
//
// A word says what state the handle is in; a word that is no state means that the pointer is no communicator, or not
// any more.  References keep a communicator alive while a call uses it, so that ncclCommAbort may come at any time:
// one reference is the user's, until Destroy or Abort; one is each call's; the last one out frees.  Calls of the thread
// that owns the communicator (communicator/order.h) need none: whoever ends it looks whether the owner is there.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/errors.h"
#include "communicator.h"
#include "nccl.h"

namespace rondo::api {

enum class State : std::uint64_t {
  dead = 0,
  ready = 0x526f6e646f3a2d29,  // the others count on from it
  starting,                    // its ranks are not all there yet
  failed,                      // it could not start
  finalized,
  closing,    // Destroy or Abort has been called; the communicator is there
  abandoned,  // the same, for one that never was ready
};

/// An operator of ncclRedOpCreatePreMulSum.
struct PreMulSum {
  bool alive = false;
  DataType type = DataType::float32;
  std::uint64_t bits = 0;
  const void* device_scalar = nullptr;  // read when the call runs, instead of `bits`
};

/// Of a buffer of ncclCommRegister; its address is the handle.
struct Registration {};

}  // namespace rondo::api

/// A window of ncclCommWindowRegister.
struct ncclWindow_vidmem {
  void* memory = nullptr;
};

struct ncclComm {
  std::atomic<rondo::api::State> state{rondo::api::State::starting};
  std::atomic<int> references{1};
  std::atomic<int> held{0};  // references of calls in groups that have not ended: Abort does not wait for them
  rondo::Communicator* communicator = nullptr;  // owned; set before `ready`, for good
  int rank = 0;
  int ranks = 1;
  int device = 0;
  ncclComm* next_orphan = nullptr;  // Orphans' own

  std::atomic<int> async_error{0};  // the Code of a start that failed
  std::mutex mutex;                 // guards what follows
  std::string async_sentence;
  std::vector<rondo::api::PreMulSum> operators;
  std::vector<std::unique_ptr<rondo::api::Registration>> registrations;
  std::vector<std::unique_ptr<ncclWindow_vidmem>> windows;

  ncclComm() = default;
  ncclComm(const ncclComm&) = delete;
  ncclComm& operator=(const ncclComm&) = delete;
  ~ncclComm();

  /// The sentence of the communicator's failure, or of the start's, or empty.
  std::string failure_sentence();
  void fail_start(rondo::Code code, const std::string& sentence);
  /// Whether its owner is in a call, or in a group that has such calls; exact once ownership is revoked.
  bool owner_is_here() const noexcept {
    return communicator != nullptr && (communicator->order().is_inside() || communicator->order().is_held());
  }
  void release() noexcept {
    if (references.fetch_sub(1, std::memory_order_acq_rel) == 1) [[unlikely]]
      delete this;
  }
};

namespace rondo::api {

/// Whether `comm` points to a handle in a state: reads one word, and crashes on a pointer to nowhere as NCCL does.
inline bool in_state(const ncclComm* comm, State state) noexcept {
  return comm != nullptr && comm->state.load(std::memory_order_acquire) == state;
}
inline bool is_handle(const ncclComm* comm) noexcept {
  if (comm == nullptr || reinterpret_cast<std::uintptr_t>(comm) % alignof(ncclComm) != 0) return false;
  const State state = comm->state.load(std::memory_order_acquire);
  return state >= State::ready && state <= State::abandoned;
}

/// A reference for the time of a call.
class Use {
 public:
  explicit Use(ncclComm* comm) noexcept : comm_(comm) { comm->references.fetch_add(1, std::memory_order_seq_cst); }
  ~Use() { comm_->release(); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  ncclComm* comm_;
};

/// Communicators that were ended while their owner was there: the last one to leave one frees it.
class Orphans {
 public:
  /// Takes over the user's reference.
  static void add(ncclComm& comm) noexcept;
  /// Called by an owner after it left or let go, which may have been the last that kept the communicator.
  static void look_after() noexcept {
    std::atomic_signal_fence(std::memory_order_seq_cst);  // add() makes a barrier of it
    if (count_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      release();
  }

 private:
  static void release() noexcept;
  static inline std::atomic<int> count_{0};
};

/// The owner's stay in its communicator, for the time of a call.
class Stay {
 public:
  explicit Stay(rondo::CallOrder& order) noexcept : order_(order.enter() ? &order : nullptr) {}
  ~Stay() {
    if (order_ == nullptr) return;
    order_->leave();
    Orphans::look_after();
  }
  Stay(const Stay&) = delete;
  Stay& operator=(const Stay&) = delete;
  explicit operator bool() const noexcept { return order_ != nullptr; }

 private:
  rondo::CallOrder* order_;
};

/// Throws the Error for a `comm` that is no handle.
void check_handle(const ncclComm* comm);
/// Throws the Error for a `comm` whose calls cannot run: no handle, starting, failed, finalized, being freed; or the
/// process was forked from the one that made it.
void check_ready(const ncclComm* comm);

}  // namespace rondo::api
