// The calls of rondo.h about queues and events.
#include <sched.h>

#include "api/errors.h"
#include "queue.h"
#include "rondo.h"

namespace rondo::api {
namespace {

/// A record of an event.
struct Record {
  std::shared_ptr<Point> point;  // shared: see Point; null: there was none yet
  std::weak_ptr<Queue> queue;    // that completes it; none where the calling thread did, or when it was destroyed
  std::uint64_t number = 0;      // of the queue's item

  void wait() const {
    if (const std::shared_ptr<Queue> alive = queue.lock()) {
      alive->check_not_forked();
      alive->wait(number);
    }
    if (point != nullptr) point->wait();
  }
};

}  // namespace
}  // namespace rondo::api

/// The last record of an event.  Its memory may be used by several threads.
struct rondoEvent {
  std::mutex mutex;
  rondo::api::Record record;

  rondo::api::Record latest() {
    const std::lock_guard lock(mutex);
    return record;
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

/// Whoever asks in a loop may be on the worker's core.
ncclResult_t in_progress() {
  ::sched_yield();
  return ncclInProgress;
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
    if (queue->ask()) return api::report("rondoStreamQuery", queue->outcome());
    return api::in_progress();
  });
}

ncclResult_t rondoStreamWaitEvent(cudaStream_t stream, rondoEvent_t event) {
  return guarded("rondoStreamWaitEvent", [&] {
    api::check(event, "event");
    const std::shared_ptr<Queue> queue = stream != nullptr ? find_queue(stream) : nullptr;
    api::Record record = event->latest();
    if (record.point == nullptr) return ncclSuccess;
    if (queue == nullptr) {
      record.wait();
    } else {
      auto item = std::make_unique<Queue::Item>();
      item->waits_for = std::move(record.point);
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
    api::Record record{std::make_shared<Point>(), queue, 0};
    if (queue == nullptr) {
      record.point->complete();
    } else {
      auto item = std::make_unique<Queue::Item>();
      item->completes = record.point;
      record.number = queue->push(std::move(item));
    }
    const std::lock_guard lock(event->mutex);
    event->record = std::move(record);
    return ncclSuccess;
  });
}

ncclResult_t rondoEventSynchronize(rondoEvent_t event) {
  return guarded("rondoEventSynchronize", [&] {
    api::check(event, "event");
    event->latest().wait();
    return ncclSuccess;
  });
}

ncclResult_t rondoEventQuery(rondoEvent_t event) {
  return guarded("rondoEventQuery", [&] {
    api::check(event, "event");
    const api::Record record = event->latest();
    if (record.point == nullptr || record.point->done()) return ncclSuccess;
    if (const std::shared_ptr<Queue> queue = record.queue.lock()) {
      queue->check_not_forked();
      (void)queue->ask();
    }
    return api::in_progress();
  });
}

ncclResult_t rondoEventElapsedTime(float* ms, rondoEvent_t start, rondoEvent_t end) {
  return guarded("rondoEventElapsedTime", [&] {
    api::check(ms, "ms");
    api::check(start, "start");
    api::check(end, "end");
    const std::shared_ptr<Point> first = start->latest().point;
    const std::shared_ptr<Point> last = end->latest().point;
    if (first == nullptr || last == nullptr || !first->done() || !last->done()) {
      throw Error(Code::invalid_usage, "an event was not recorded or is not complete; call rondoEventSynchronize");
    }
    *ms = std::chrono::duration<float, std::milli>(last->time() - first->time()).count();
    return ncclSuccess;
  });
}

}  // extern "C"
