// A ring of batches under one mutex.  Threads take a few images of the newest batch at a time, and open the next batch
// while the ring has room; the caller takes batches in order.  The pixels are made outside of the mutex.
#include "tools/trainer/data/loader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace rondo::data {
namespace {

constexpr std::size_t images_at_once = 4;

Memory plain_memory(std::size_t bytes) {
  return Memory(new std::uint8_t[bytes], [](std::uint8_t* pixels) { delete[] pixels; });
}

}  // namespace

class Loader::Pipeline {
 public:
  Pipeline(const Dataset& dataset, const Sampler& sampler, const Loading& loading, Place start)
      : dataset_(dataset), sampler_(sampler), loading_(loading), opening_(start), place_(start) {
    if (loading.batch == 0) throw DataError("a batch must have at least one image");
    const int channels = dataset.shape().channels;
    shape_ = {loading.augmentation.height, loading.augmentation.width, channels};
    slots_.resize(static_cast<std::size_t>(std::max(2, loading.batches_ahead)));
    for (Slot& slot : slots_) {
      slot.memory = loading.allocate ? loading.allocate(loading.batch * shape_.bytes())
                                     : plain_memory(loading.batch * shape_.bytes());
      slot.labels.resize(loading.batch);
      slot.indices.resize(loading.batch);
    }
    if (loading.workers == 0) own_.emplace(*this);
    if (left(start.position) == 0) opening_ = {start.epoch + 1, 0};
    start_threads();
  }

  ~Pipeline() { stop(); }

  const Batch* next() {
    const auto before = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    if (taken_) {
      taken_ = false;
      ++consumed_;
      room_.notify_all();
    }
    if (own_) {
      while (const std::optional<Task> task = take()) {
        lock.unlock();
        std::exception_ptr trouble = own_->make(*task);
        lock.lock();
        finish(*task, trouble);
        if (task->end == slots_[task->slot].batch.count) break;
      }
    }
    ready_.wait(lock, [this] {
      return failure_ || (consumed_ < opened_ && front().left == 0) || (consumed_ == opened_ && over());
    });
    waited_ += std::chrono::steady_clock::now() - before;
    if (failure_) std::rethrow_exception(failure_);
    if (consumed_ == opened_) return nullptr;
    Slot& slot = front();
    if (slot.trouble) std::rethrow_exception(slot.trouble);
    taken_ = true;
    place_ = slot.batch.last ? Place{slot.batch.place.epoch + 1, 0}
                             : Place{slot.batch.place.epoch, slot.batch.place.position + slot.batch.count};
    return &slot.batch;
  }

  Place place() const { return place_; }
  double waited_seconds() const { return std::chrono::duration<double>(waited_).count(); }
  std::size_t batches() const { return (left(0) + loading_.batch - 1) / loading_.batch; }

 private:
  struct Slot {
    Memory memory;
    std::vector<std::int64_t> labels;
    std::vector<std::uint32_t> indices;
    Batch batch;
    std::size_t left = 0;  // images that aren't made yet
    std::exception_ptr trouble;
    std::size_t trouble_at = 0;  // the first image in trouble
  };
  struct Task {
    std::size_t slot = 0;
    std::size_t first = 0;
    std::size_t end = 0;
  };

  /// What one thread needs to make images.
  class Maker {
   public:
    explicit Maker(Pipeline& pipeline)
        : pipeline_(pipeline),
          reader_(pipeline.dataset_.reader()),
          transform_(pipeline.loading_.augmentation, pipeline.loading_.layout, pipeline.loading_.seed) {}

    /// Makes the images of `task`; returns what went wrong with the first that did.
    std::exception_ptr make(const Task& task) noexcept {
      Slot& slot = pipeline_.slots_[task.slot];
      const std::size_t bytes = pipeline_.shape_.bytes();
      for (std::size_t i = task.first; i < task.end; ++i) {
        try {
          transform_.apply(*reader_, slot.indices[i], slot.batch.place.epoch, slot.memory.get() + i * bytes);
          slot.labels[i] = pipeline_.dataset_.label(slot.indices[i]);
        } catch (...) {
          return std::current_exception();
        }
      }
      return nullptr;
    }

   private:
    Pipeline& pipeline_;
    std::unique_ptr<Reader> reader_;
    Transform transform_;
  };

  Slot& front() { return slots_[consumed_ % slots_.size()]; }

  /// Images of an epoch from `position` on, without those that no batch takes.
  std::size_t left(std::size_t position) const {
    const std::size_t images = position < sampler_.count() ? sampler_.count() - position : 0;
    return loading_.whole_batches ? images - images % loading_.batch : images;
  }

  /// No batch is left to open.
  bool over() const { return opening_.epoch >= loading_.epochs_end || batches() == 0; }

  /// Images of the newest batch, or of one that it opens; nothing if the ring is full or all is done.
  std::optional<Task> take() {
    if (opened_ == 0 || given_ == slots_[newest()].batch.count) {
      if (over() || opened_ - consumed_ == slots_.size()) return std::nullopt;
      open();
    }
    Task task{newest(), given_, 0};
    given_ = task.end = std::min(given_ + images_at_once, slots_[task.slot].batch.count);
    return task;
  }

  std::size_t newest() const { return (opened_ - 1) % slots_.size(); }

  void open() {
    if (!order_epoch_ || *order_epoch_ != opening_.epoch) {
      order_ = sampler_.indices(opening_.epoch);
      order_epoch_ = opening_.epoch;
    }
    const std::size_t images = left(opening_.position);
    Slot& slot = slots_[opened_ % slots_.size()];
    Batch& batch = slot.batch;
    batch.count = std::min(loading_.batch, images);
    batch.place = opening_;
    batch.last = batch.count == images;
    batch.pixels = slot.memory.get();
    batch.labels = slot.labels.data();
    batch.indices = slot.indices.data();
    batch.shape = shape_;
    std::copy_n(order_.begin() + static_cast<std::ptrdiff_t>(opening_.position), batch.count, slot.indices.begin());
    slot.left = batch.count;
    slot.trouble = nullptr;
    opening_ = batch.last ? Place{opening_.epoch + 1, 0} : Place{opening_.epoch, opening_.position + batch.count};
    given_ = 0;
    ++opened_;
  }

  /// Books the images of `task`; of several troubles, the first image's stands, so that it is always the same one.
  void finish(const Task& task, const std::exception_ptr& trouble) {
    Slot& slot = slots_[task.slot];
    if (trouble && (!slot.trouble || task.first < slot.trouble_at)) {
      slot.trouble = trouble;
      slot.trouble_at = task.first;
    }
    slot.left -= task.end - task.first;
    if (slot.left == 0) ready_.notify_all();
  }

  void work(Maker& maker) {
    std::unique_lock lock(mutex_);
    for (;;) {
      std::optional<Task> task;
      try {
        room_.wait(lock, [&] { return stopping_ || (task = take()).has_value() || over(); });
      } catch (...) {  // no memory for the order of an epoch
        failure_ = std::current_exception();
      }
      if (over() || failure_) ready_.notify_all();
      if (stopping_ || !task) return;
      lock.unlock();
      const std::exception_ptr trouble = maker.make(*task);
      lock.lock();
      finish(*task, trouble);
    }
  }

  void start_threads() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      for (int i = 0; i < loading_.workers; ++i) {
        makers_.push_back(std::make_unique<Maker>(*this));
        threads_.emplace_back([this, maker = makers_.back().get()] { work(*maker); });
      }
    } catch (...) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      stop();
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    room_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  const Dataset& dataset_;
  const Sampler sampler_;
  const Loading loading_;
  Shape shape_;

  std::mutex mutex_;  // for all below but makers, and for the slots' fields but pixels and labels
  std::condition_variable room_;
  std::condition_variable ready_;
  std::vector<Slot> slots_;
  std::uint64_t opened_ = 0;    // batches
  std::uint64_t consumed_ = 0;  // batches given back
  std::size_t given_ = 0;       // images of the newest batch that are some thread's task
  bool taken_ = false;          // the front is in the caller's hands
  bool stopping_ = false;
  std::exception_ptr failure_;  // of the sequence itself, not of a batch
  Place opening_;               // where the next batch to open begins
  Place place_;
  std::vector<std::uint32_t> order_;
  std::optional<std::uint64_t> order_epoch_;
  std::chrono::steady_clock::duration waited_{};

  std::optional<Maker> own_;
  std::vector<std::unique_ptr<Maker>> makers_;
  std::vector<std::thread> threads_;
};

Loader::Loader(const Dataset& dataset, const Sampler& sampler, const Loading& loading, Place start)
    : pipeline_(std::make_unique<Pipeline>(dataset, sampler, loading, start)) {}
Loader::~Loader() = default;
const Batch* Loader::next() { return pipeline_->next(); }
Place Loader::place() const { return pipeline_->place(); }
std::size_t Loader::batches() const { return pipeline_->batches(); }
double Loader::waited_seconds() const { return pipeline_->waited_seconds(); }

}  // namespace rondo::data
