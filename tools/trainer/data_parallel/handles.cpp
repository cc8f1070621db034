// Owners of what the C interface gives out, and the check of its results.
#include "handles.h"

#include <cstring>

#include "layer.h"

namespace rondo::data_parallel {

void require(ncclResult_t result, ncclComm_t comm, const char* what) {
  if (result == ncclSuccess) return;
  const char* sentence = ncclGetLastError(comm);
  std::string text = std::string("cannot ") + what + ": ";
  text += sentence != nullptr && *sentence != '\0' ? sentence : ncclGetErrorString(result);
  throw Error(text);
}

Memory::Memory(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  require(ncclMemAlloc(&data_, bytes), nullptr, "allocate memory for gradients");
  std::memset(data_, 0, bytes);
}
Memory::~Memory() { static_cast<void>(ncclMemFree(data_)); }

Queue::Queue() { require(rondoStreamCreate(&stream_), nullptr, "make a queue"); }
Queue::~Queue() { static_cast<void>(rondoStreamDestroy(stream_)); }

Event::Event() { require(rondoEventCreate(&event_), nullptr, "make an event"); }
Event::~Event() {
  if (event_ != nullptr) static_cast<void>(rondoEventDestroy(event_));
}
void Event::record(cudaStream_t stream) { require(rondoEventRecord(event_, stream), nullptr, "record an event"); }
void Event::wait() { require(rondoEventSynchronize(event_), nullptr, "wait for an event"); }
std::chrono::nanoseconds Event::since(const Event& start) const {
  float ms = 0;
  require(rondoEventElapsedTime(&ms, start.event_, event_), nullptr, "read the time of an event");
  return std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>(ms) * 1e6));
}

}  // namespace rondo::data_parallel
