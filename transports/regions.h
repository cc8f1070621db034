// The process's memfd-backed regions (ncclMemAlloc), by address and by number, and who must hear when one goes.
//
// ncclMemAlloc names no communicator, so this table belongs to the process, like the control thread.  find() is on the
// path of every lend: it takes no lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "base/descriptor.h"
#include "base/limits.h"

namespace rondo {

class Regions {
 public:
  /// A region as peers know it: `id` is never 0, and not used again before 4 million others.
  struct Found {
    std::uint32_t id = 0;
    std::uint64_t offset = 0;
  };
  /// Its place in tables.
  static constexpr std::uint32_t slot_of(std::uint32_t id) noexcept { return id % limits::regions_max; }
  static constexpr std::uint32_t id_of(std::uint32_t generation, std::uint32_t slot) noexcept {
    return generation * limits::regions_max + slot;
  }
  static constexpr std::uint32_t generation_after(std::uint32_t generation) noexcept {
    return generation == ~std::uint32_t{0} / limits::regions_max ? 1 : generation + 1;
  }

  /// Hears of regions that go.  Called with the table's lock held: must not call back.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    virtual void gone(std::uint32_t id) noexcept = 0;
  };

  static Regions& instance();

  void* allocate(std::size_t bytes);  // on the node of the calling thread; throws Error
  bool release(void* memory);
  /// The region that holds all of [data, data + bytes); false if none does.
  bool find(const void* data, std::size_t bytes, Found& found) const noexcept;
  /// The newest regions that can be lent, newest first, at most `most`.
  std::vector<std::uint32_t> newest(std::size_t most);
  /// Passes the descriptor and size of a live region to `use`, under the lock; false if it is gone.
  template <typename Use>
  bool with(std::uint32_t id, Use&& use) {
    const std::lock_guard lock(mutex_);
    for (const auto& [base, region] : regions_) {
      if (region.id != id || !region.fd) continue;
      use(region.fd.get(), region.bytes);
      return true;
    }
    return false;
  }
  void watch(Watcher& watcher);
  void unwatch(Watcher& watcher);

 private:
  struct Region {
    std::uint32_t id = 0;
    std::size_t bytes = 0;
    Descriptor fd;  // none: all slots were taken, so it is never lent
  };
  struct Slot {
    std::atomic<std::uintptr_t> base{0};
    std::atomic<std::size_t> bytes{0};
    std::atomic<std::uint32_t> id{0};
  };

  std::array<Slot, limits::regions_max> slots_;
  std::atomic<std::uint32_t> slots_used_{0};  // all live ones are below
  std::mutex mutex_;
  std::map<void*, Region> regions_;
  std::vector<Watcher*> watchers_;
  std::uint32_t generation_ = 0;
};

}  // namespace rondo
