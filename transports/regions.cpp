// The table of memfd-backed regions: see regions.h.
#include "regions.h"

#include <sys/mman.h>

#include <algorithm>
#include <functional>
#include <string>

#include "base/nodes.h"
#include "base/result.h"
#include "shared_memory.h"

namespace rondo {

Regions& Regions::instance() {
  static Regions* const regions = new Regions;  // never destroyed: ncclMemFree may come from a static destructor
  return *regions;
}

void* Regions::allocate(std::size_t bytes) {
  SharedMemory memory = SharedMemory::create("rondo-memory", std::max<std::size_t>(bytes, 1));
  memory.commit(memory.fd(), 0, memory.bytes(), nodes::of_this_thread());
  void* const base = memory.data();
  const std::lock_guard lock(mutex_);
  Region& region = regions_[base];
  region.bytes = memory.bytes();
  for (std::uint32_t i = 0; i < limits::regions_max; ++i) {
    Slot& slot = slots_[i];
    if (slot.base.load(std::memory_order_relaxed) != 0) continue;
    generation_ = generation_after(generation_);
    region.id = id_of(generation_, i);
    region.fd = memory.take_descriptor();
    slot.bytes.store(region.bytes, std::memory_order_release);
    slot.id.store(region.id, std::memory_order_release);
    slot.base.store(reinterpret_cast<std::uintptr_t>(base), std::memory_order_release);
    if (i >= slots_used_.load(std::memory_order_relaxed)) slots_used_.store(i + 1, std::memory_order_release);
    break;
  }
  memory.keep();
  return base;
}

bool Regions::release(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = regions_.find(memory);
  if (found == regions_.end()) return false;
  const Region& region = found->second;
  if (region.fd) {
    slots_[slot_of(region.id)].base.store(0, std::memory_order_release);
    for (Watcher* watcher : watchers_) watcher->gone(region.id);
  }
  ::munmap(memory, region.bytes);
  regions_.erase(found);
  return true;
}

bool Regions::find(const void* data, std::size_t bytes, Found& found) const noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const auto holds = [&](const Slot& slot) noexcept {
    const std::uintptr_t base = slot.base.load(std::memory_order_acquire);
    if (base == 0 || address < base) return false;
    const std::size_t size = slot.bytes.load(std::memory_order_acquire);
    if (address - base > size || bytes > size - (address - base)) return false;
    found = {slot.id.load(std::memory_order_acquire), address - base};
    // Another thread may have freed the region and given its slot to one of another size: then this was neither.
    return slot.base.load(std::memory_order_relaxed) == base;
  };
  thread_local std::uint32_t last = 0;  // a thread's lends come from the same few regions
  if (holds(slots_[last])) return true;
  const std::uint32_t used = slots_used_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used; ++i) {
    if (!holds(slots_[i])) continue;
    last = i;
    return true;
  }
  return false;
}

std::vector<std::uint32_t> Regions::newest(std::size_t most) {
  std::vector<std::uint32_t> ids;
  const std::lock_guard lock(mutex_);
  for (const auto& [base, region] : regions_) {
    if (region.fd) ids.push_back(region.id);
  }
  std::sort(ids.begin(), ids.end(), std::greater<>());  // an id begins with its generation
  ids.resize(std::min(ids.size(), most));
  return ids;
}

void Regions::watch(Watcher& watcher) {
  const std::lock_guard lock(mutex_);
  watchers_.push_back(&watcher);
}

void Regions::unwatch(Watcher& watcher) {
  const std::lock_guard lock(mutex_);
  std::erase(watchers_, &watcher);
}

}  // namespace rondo
