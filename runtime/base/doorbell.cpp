// The doorbell: a sealed memfd page, a shared futex, an eventfd, and membarrier where the kernel has it.
//
// A ringer pays one relaxed load.  What makes that safe is the sleeper's membarrier: it runs a full barrier on every
// CPU that runs a registered process, so that either the ringer sees the sleeper or the sleeper sees the ringer's
// message. Every process that maps a doorbell registers.  If the kernel refuses (a seccomp filter), sleepers take short
// naps.
//
// Several threads may sleep on one event, and it must stay set until all have seen it, and not be cleared once a new
// one counts on it: so the last of them clears it, while none can begin.
#include "base/doorbell.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>
#include <new>

#include "base/barriers.h"
#include "base/memory_file.h"
#include "base/result.h"

namespace rondo {
namespace {

constexpr std::uint64_t nap_us_max = 1000;  // the longest sleep that nobody is sure to end

DoorbellPage* map_page(int fd) {
  void* at = ::mmap(nullptr, sizeof(DoorbellPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) throw_system_error("map a doorbell page");
  return static_cast<DoorbellPage*>(at);
}

}  // namespace

void wake_sleepers(Ringer bell) noexcept {
  bell.page->rung.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, &bell.page->rung, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  if (bell.page->on_sockets.load(std::memory_order_seq_cst) == 0) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t set = ::write(bell.event, &one, sizeof one);  // EAGAIN: it is set
}

Doorbell Doorbell::create() {
  Descriptor fd = make_memory_file("rondo-doorbell", sizeof(DoorbellPage));
  Descriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) throw_system_error("make the event of a doorbell");
  auto sharing = std::make_unique<Sharing>();
  DoorbellPage* page = new (map_page(fd.get())) DoorbellPage;
  if (!barriers::registered()) page->short_naps.store(1, std::memory_order_relaxed);
  Doorbell doorbell(page, std::move(fd), std::move(event));
  doorbell.sharing_ = std::move(sharing);
  return doorbell;
}

Doorbell Doorbell::map(int page_file, int event_fd) {
  struct stat status = {};
  if (::fstat(page_file, &status) != 0) throw_system_error("look at a peer's doorbell");
  const int seals = ::fcntl(page_file, F_GET_SEALS);
  if (status.st_size < static_cast<off_t>(sizeof(DoorbellPage)) || seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    throw Error(Code::internal_error, "a peer sent a descriptor that is not a doorbell");
  }
  Descriptor event(::fcntl(event_fd, F_DUPFD_CLOEXEC, 0));
  if (!event) throw_system_error("duplicate a doorbell's event");
  DoorbellPage* page = map_page(page_file);
  if (!barriers::registered()) page->short_naps.store(1, std::memory_order_relaxed);
  return Doorbell(page, {}, std::move(event));
}

Doorbell::Doorbell(Doorbell&& other) noexcept
    : page_(std::exchange(other.page_, nullptr)),
      page_file_(std::move(other.page_file_)),
      event_(std::move(other.event_)),
      sharing_(std::move(other.sharing_)) {}

Doorbell::~Doorbell() {
  if (page_ != nullptr) ::munmap(page_, sizeof(DoorbellPage));
}

std::uint32_t Doorbell::announce(bool with_barrier) noexcept {
  const std::uint32_t seen = page_->rung.load(std::memory_order_acquire);
  page_->sleepers.fetch_add(1, std::memory_order_seq_cst);
  if (!with_barrier) return seen;
  if (page_->short_naps.load(std::memory_order_relaxed) == 0 && !barriers::everywhere()) {
    page_->short_naps.store(1, std::memory_order_relaxed);
  }
  return seen;
}

void Doorbell::nap(std::uint32_t seen, std::uint64_t timeout_us) noexcept {
  if (page_->short_naps.load(std::memory_order_relaxed) != 0) timeout_us = std::min(timeout_us, nap_us_max);
  struct timespec timeout = {};
  timeout.tv_sec = static_cast<time_t>(timeout_us / 1000000);
  timeout.tv_nsec = static_cast<long>(timeout_us % 1000000) * 1000;
  ::syscall(SYS_futex, &page_->rung, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

void Doorbell::nap(Wakeups& wakeups, std::uint64_t timeout_us) noexcept {
  const bool unsure = wakeups.rings() && page_->short_naps.load(std::memory_order_relaxed) != 0;
  if (!wakeups.sleep(unsure ? std::min(timeout_us, nap_us_max) : timeout_us, event_.get())) return;
  const std::lock_guard lock(sharing_->mutex);
  sharing_->event_seen = true;
}

void Doorbell::begin_on_sockets() noexcept {
  const std::lock_guard lock(sharing_->mutex);
  page_->on_sockets.fetch_add(1, std::memory_order_seq_cst);
}

void Doorbell::end_on_sockets() noexcept {
  const std::lock_guard lock(sharing_->mutex);
  if (page_->on_sockets.fetch_sub(1, std::memory_order_seq_cst) > 1 || !sharing_->event_seen) return;
  sharing_->event_seen = false;
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t cleared = ::read(event_.get(), &count, sizeof count);
}

}  // namespace rondo
