// The calls of rondo.h about queues and events.
#include "api/errors.h"
#include "queue.h"
#include "rondo.h"

/// The last record of an event; null before the first.  Its memory may be used by several threads.
struct rondoEvent {
  std::mutex mutex;
  std::shared_ptr<rondo::Point> point;  // shared: see Point

  std::shared_ptr<rondo::Point> latest() {
    const std::lock_guard lock(mutex);
    return point;
  }
};

namespace rondo::api {
namespace {

void check(const void* pointer, const char* what) {
  if (pointer == nullptr) throw Error(Code::invalid_argument, std::string(what) + " is NULL");
}

ncclResult_t report(const char* call, const Queue::Outcome& outcome) {
  if (outcome.code == Code::success) return ncclSuccess;
  return fail(outcome.code, std::string(call) + ": a call on the queue failed: " + outcome.sentence);
}

}  // namespace
}  // namespace rondo::api

using namespace rondo;
using api::guarded;

extern "C" {

ncclResult_t rondoStreamCreate(cudaStream_t* stream) {
  return guarded("rondoStreamCreate", [&] {
    api::check(stream, "stream");
    *stream = add_queue();
    return ncclSuccess;
  });
}

ncclResult_t rondoStreamDestroy(cudaStream_t stream) {
  return guarded("rondoStreamDestroy", [&] {
    const std::shared_ptr<Queue> queue = remove_queue(stream);
    queue->drain();
    return api::report("rondoStreamDestroy", queue->take_outcome());
  });
}

ncclResult_t rondoStreamSynchronize(cudaStream_t stream) {
  if (stream == nullptr) return ncclSuccess;
  return guarded("rondoStreamSynchronize", [&] {
    const std::shared_ptr<Queue> queue = find_queue(stream);
    queue->drain();
    return api::report("rondoStreamSynchronize", queue->take_outcome());
  });
}

ncclResult_t rondoStreamQuery(cudaStream_t stream) {
  if (stream == nullptr) return ncclSuccess;
  return guarded("rondoStreamQuery", [&] {
    const std::shared_ptr<Queue> queue = find_queue(stream);
    return queue->idle() ? api::report("rondoStreamQuery", queue->outcome()) : ncclInProgress;
  });
}

ncclResult_t rondoStreamWaitEvent(cudaStream_t stream, rondoEvent_t event) {
  return guarded("rondoStreamWaitEvent", [&] {
    api::check(event, "event");
    const std::shared_ptr<Queue> queue = stream != nullptr ? find_queue(stream) : nullptr;
    std::shared_ptr<Point> point = event->latest();
    if (point == nullptr) return ncclSuccess;
    if (queue == nullptr) {
      point->wait();
    } else {
      auto item = std::make_unique<Queue::Item>();
      item->waits_for = std::move(point);
      queue->push(std::move(item));
    }
    return ncclSuccess;
  });
}

ncclResult_t rondoEventCreate(rondoEvent_t* event) {
  return guarded("rondoEventCreate", [&] {
    api::check(event, "event");
    *event = new rondoEvent;
    return ncclSuccess;
  });
}

ncclResult_t rondoEventDestroy(rondoEvent_t event) {
  return guarded("rondoEventDestroy", [&] {
    api::check(event, "event");
    delete event;
    return ncclSuccess;
  });
}

ncclResult_t rondoEventRecord(rondoEvent_t event, cudaStream_t stream) {
  return guarded("rondoEventRecord", [&] {
    api::check(event, "event");
    const std::shared_ptr<Queue> queue = stream != nullptr ? find_queue(stream) : nullptr;
    auto point = std::make_shared<Point>();
    if (queue == nullptr) {
      point->complete();
    } else {
      auto item = std::make_unique<Queue::Item>();
      item->completes = point;
      queue->push(std::move(item));
    }
    const std::lock_guard lock(event->mutex);
    event->point = std::move(point);
    return ncclSuccess;
  });
}

ncclResult_t rondoEventSynchronize(rondoEvent_t event) {
  return guarded("rondoEventSynchronize", [&] {
    api::check(event, "event");
    if (const std::shared_ptr<Point> point = event->latest()) point->wait();
    return ncclSuccess;
  });
}

ncclResult_t rondoEventQuery(rondoEvent_t event) {
  return guarded("rondoEventQuery", [&] {
    api::check(event, "event");
    const std::shared_ptr<Point> point = event->latest();
    return point == nullptr || point->done() ? ncclSuccess : ncclInProgress;
  });
}

ncclResult_t rondoEventElapsedTime(float* ms, rondoEvent_t start, rondoEvent_t end) {
  return guarded("rondoEventElapsedTime", [&] {
    api::check(ms, "ms");
    api::check(start, "start");
    api::check(end, "end");
    const std::shared_ptr<Point> first = start->latest();
    const std::shared_ptr<Point> last = end->latest();
    if (first == nullptr || last == nullptr || !first->done() || !last->done()) {
      throw Error(Code::invalid_usage, "an event was not recorded or is not complete; call rondoEventSynchronize");
    }
    *ms = std::chrono::duration<float, std::milli>(last->time() - first->time()).count();
    return ncclSuccess;
  });
}

}  // extern "C"
