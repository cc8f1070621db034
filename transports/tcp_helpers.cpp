// Helpers and their errands: see tcp_helpers.h.
//
// Bits say which errands of a home are to be taken; the errand's own state, changed by compare-and-swap, says whether
// that is still so.  Wake-ups are exchanges on one flag a sleeper: whichever of "I sleep" and "there is work" comes
// second sees the other.
#include "tcp_helpers.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "base/result.h"
#include "base/threads.h"

namespace rondo::tcp {
namespace {

using State = Errand::State;

constexpr int looks_before_taking = 16;  // of an owner that waits: about what a helper takes to wake up

Descriptor make_event() {
  Descriptor event(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!event) throw_system_error("make an event for the threads of NCCL_SOCKET_NTHREADS");
  return event;
}

void set(const Descriptor& event) noexcept {
  const std::uint64_t one = 1;
  (void)!::write(event.get(), &one, sizeof one);  // a full one is set already
}

void clear(const Descriptor& event) noexcept {
  std::uint64_t value = 0;
  (void)!::read(event.get(), &value, sizeof value);
}

bool take_ready(Errand& errand, int holder) noexcept {
  State ready = State::ready;
  if (!errand.state.compare_exchange_strong(ready, State::taken)) return false;
  errand.holder.store(holder);
  return true;
}

/// Moves what the socket takes or has.  True: all is moved, or it has failed; false: the socket would block.
bool move_bytes(Errand& errand, std::uint64_t& moved) noexcept {
  while (errand.left > 0) {
    msghdr message{};
    iovec* const first = errand.parts[0].iov_len > 0 ? errand.parts : errand.parts + 1;
    message.msg_iov = first;
    message.msg_iovlen = static_cast<std::size_t>(errand.parts + 2 - first);
    const ssize_t result = errand.sends ? ::sendmsg(errand.socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
                                        : ::recvmsg(errand.socket, &message, MSG_DONTWAIT);
    if (result < 0 && errno == EINTR) continue;
    if (result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)) return false;
    if (result < 0 || (result == 0 && !errand.sends)) {
      errand.failed = true;
      return true;
    }
    auto bytes = static_cast<std::size_t>(result);
    errand.left -= bytes;
    moved += bytes;
    for (iovec& part : errand.parts) {
      const std::size_t here = std::min(bytes, part.iov_len);
      part = {static_cast<std::byte*>(part.iov_base) + here, part.iov_len - here};
      bytes -= here;
    }
  }
  return true;
}

void add(std::atomic<std::uint64_t>& counter, std::uint64_t more) noexcept {
  counter.fetch_add(more, std::memory_order_relaxed);
}

}  // namespace

// ---------------------------------------------------------------- owners

Helpers::Helpers(int count, Ringer owners) : pid_(::getpid()), owners_(owners) {
  for (int i = 0; i < count; ++i) {
    helpers_.push_back(std::make_unique<Helper>());
    Helper& helper = *helpers_.back();
    helper.event = make_event();
    const std::size_t most = static_cast<std::size_t>(count) * limits::errands_of_helper_max;
    helper.held.reserve(most);
    helper.sockets.reserve(most + 1);
    helper.awake.reserve(most);
  }
  try {
    for (int i = 0; i < count; ++i) {
      helpers_[i]->thread = threads::start("rondo-tcp-" + std::to_string(i + 1), "a thread of NCCL_SOCKET_NTHREADS",
                                           [this, i] { run(i); });
    }
  } catch (const Error&) {
    end();
    throw;
  }
}

Helpers::~Helpers() { end(); }

void Helpers::end() noexcept {
  ending_.store(true);
  for (const auto& helper : helpers_) {
    if (!helper->thread.joinable()) continue;
    if (::getpid() != pid_) {
      helper->thread.detach();  // a forked child has no helpers to wait for
      continue;
    }
    set(helper->event);
    helper->thread.join();
  }
}

std::vector<HelperCounts> Helpers::counts() const {
  std::vector<HelperCounts> counts;
  for (const auto& helper : helpers_) counts.push_back({helper->pieces, helper->bytes, helper->stolen});
  return counts;
}

Errand* Helpers::hire(int home, int socket, bool sends) {
  const std::lock_guard lock(mutex_);
  Helper& helper = *helpers_[home];
  int index = 0;
  while (index < limits::errands_of_helper_max && helper.errands[index].load() != nullptr) ++index;
  if (index == limits::errands_of_helper_max) return nullptr;
  if (errands_free_.empty()) errands_free_.push_back(&errands_.emplace_back());
  Errand& errand = *errands_free_.back();
  errands_free_.pop_back();
  errand.socket = socket;
  errand.sends = sends;
  errand.home = home;
  errand.index = index;
  helper.errands[index].store(&errand);
  return &errand;
}

void Helpers::dismiss(Errand& errand) noexcept {
  if (::getpid() != pid_) return;  // a forked child: nobody will ask again
  recall(errand);
  const std::lock_guard lock(mutex_);
  helpers_[errand.home]->errands[errand.index].store(nullptr);
  errands_free_.push_back(&errand);
}

void Helpers::give(Errand& errand, iovec first, iovec second) noexcept {
  assert(errand.state.load(std::memory_order_relaxed) == State::none);
  errand.parts[0] = first;
  errand.parts[1] = second;
  errand.left = first.iov_len + second.iov_len;
  errand.failed = false;
  errand.looks = 0;
  threads::idle_ended();
  offer(errand, -1);
}

bool Helpers::over(Errand& errand) noexcept {
  State state = errand.state.load(std::memory_order_acquire);
  if (state == State::ready && ++errand.looks > looks_before_taking && take_ready(errand, -1)) {
    errand.looks = 0;
    std::uint64_t moved = 0;
    if (!move_bytes(errand, moved)) {
      offer(errand, -1);  // whoever takes it sleeps on its socket
      return false;
    }
    add(taken_back_, 1);
    state = State::done;
  }
  if (state != State::done) return false;
  errand.state.store(State::none, std::memory_order_relaxed);
  threads::idle_began();
  return true;
}

void Helpers::recall(Errand& errand) noexcept {
  if (errand.state.load() == State::none || ::getpid() != pid_) return;
  errand.recalled.store(true);
  while (!take_ready(errand, -1)) {
    if (errand.state.load() == State::done) break;
    const int holder = errand.holder.load();
    if (holder >= 0) set(helpers_[holder]->event);
    ::sched_yield();
  }
  errand.recalled.store(false);
  errand.failed = true;
  errand.state.store(State::none, std::memory_order_relaxed);
  threads::idle_began();
}

// ---------------------------------------------------------------- helpers

/// Makes it anyone's, and wakes its home, or one that can take it instead.
void Helpers::offer(Errand& errand, int but) noexcept {
  errand.holder.store(-1);
  Helper& home = *helpers_[errand.home];
  const int index = errand.index;
  errand.state.store(State::ready, std::memory_order_release);
  home.ready[index / 64].fetch_or(std::uint64_t{1} << (index % 64));
  if (but != errand.home && wake(home)) return;
  for (int i = 0; i < count(); ++i) {
    if (i != but && wake(*helpers_[i])) return;
  }
}

bool Helpers::wake(Helper& helper) noexcept {
  if (!helper.asleep.exchange(false)) return false;
  set(helper.event);
  return true;
}

void Helpers::run(int me) noexcept {
  threads::idle_began();  // what it does is counted by errands: they end and begin again the idleness of one thread
  while (!ending_.load()) {
    while (Errand* const errand = take(me)) serve(me, *errand);
    sleep(me);
  }
  threads::idle_ended();
}

Errand* Helpers::take_from(int home) noexcept {
  Helper& helper = *helpers_[home];
  for (std::size_t word = 0; word < words; ++word) {
    while (const std::uint64_t bits = helper.ready[word].load(std::memory_order_relaxed)) {
      const int bit = std::countr_zero(bits);
      const std::uint64_t mask = std::uint64_t{1} << bit;
      if ((helper.ready[word].fetch_and(~mask) & mask) == 0) continue;
      return helper.errands[word * 64 + static_cast<std::size_t>(bit)].load();
    }
  }
  return nullptr;
}

/// One of its own, else one of another's.
Errand* Helpers::take(int me) noexcept {
  for (int i = 0; i < count(); ++i) {
    const int home = (me + i) % count();
    while (anything_ready(home)) {
      Errand* const errand = take_from(home);
      if (errand == nullptr || !take_ready(*errand, me)) continue;  // its owner took it, or has it back
      if (home != me) add(helpers_[me]->stolen, 1);
      return errand;
    }
  }
  return nullptr;
}

bool Helpers::anything_ready(int home) const noexcept {
  for (const auto& word : helpers_[home]->ready) {
    if (word.load() != 0) return true;
  }
  return false;
}

void Helpers::serve(int me, Errand& errand) noexcept {
  Helper& self = *helpers_[me];
  std::uint64_t moved = 0;
  const bool over = move_bytes(errand, moved);
  add(self.bytes, moved);
  if (!over) return self.held.push_back(&errand);
  add(self.pieces, 1);
  finish(errand);
}

void Helpers::finish(Errand& errand) const noexcept {
  errand.state.store(State::done);  // from here on the errand is its owner's
  ring(owners_);
}

/// Until there is something to take, or a socket of what it holds can go on.
void Helpers::sleep(int me) noexcept {
  Helper& self = *helpers_[me];
  self.asleep.exchange(true);
  bool work = ending_.load();
  for (int home = 0; home < count() && !work; ++home) work = anything_ready(home);
  if (!work) {
    self.sockets.assign(1, {self.event.get(), POLLIN, 0});
    for (const Errand* errand : self.held) {
      self.sockets.push_back({errand->socket, static_cast<short>(errand->sends ? POLLOUT : POLLIN), 0});
    }
    (void)::ppoll(self.sockets.data(), self.sockets.size(), nullptr, nullptr);
    if (self.sockets[0].revents != 0) clear(self.event);
  }
  self.asleep.store(false);
  if (work || self.held.empty()) return;
  std::size_t kept = 0;
  self.awake.clear();
  for (std::size_t i = 0; i < self.held.size(); ++i) {
    Errand* const errand = self.held[i];
    if (errand->recalled.load()) {
      finish(*errand);
    } else if (self.sockets[i + 1].revents != 0) {
      self.awake.push_back(errand);
    } else {
      self.held[kept++] = errand;
    }
  }
  self.held.resize(kept);
  // The first is for this thread; others are for whoever is free, and that may be this one again.
  for (std::size_t i = 1; i < self.awake.size(); ++i) offer(*self.awake[i], me);
  if (!self.awake.empty()) serve(me, *self.awake.front());
}

}  // namespace rondo::tcp
