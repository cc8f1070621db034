// What a ncclComm_t points to: the communicator, and how the border knows that it is one.
//
// A word says what state the handle is in; a word that is no state means that the pointer is no communicator, or not
// any more.  References keep a communicator alive while a call uses it, so that ncclCommAbort may come at any time:
// one reference is the user's, until Destroy or Abort; one is each call's; the last one out frees.
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

/// Throws the Error for a `comm` that is no handle.
void check_handle(const ncclComm* comm);
/// Throws the Error for a `comm` whose calls cannot run: no handle, starting, failed, finalized, being freed; or the
/// process was forked from the one that made it.
void check_ready(const ncclComm* comm);

}  // namespace rondo::api
