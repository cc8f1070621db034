// The control thread: see thread.h.
#include "control/thread.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <optional>

#include "base/keepalive.h"
#include "base/limits.h"
#include "base/result.h"
#include "base/threads.h"
#include "control.h"
#include "control/fork_guard.h"
#include "control/interfaces.h"
#include "control/root.h"

namespace rondo::control {
namespace {

std::atomic<bool> serving = false;  // started, and not past its goodbye

}  // namespace

ControlThread& ControlThread::get() {
  check_not_forked();
  return instance();
}

ControlThread& ControlThread::instance() {
  static ControlThread& thread = *new ControlThread;
  return thread;
}

bool ControlThread::usable() noexcept { return serving.load(std::memory_order_acquire) && !ForkGuard::forked(); }

ControlThread::ControlThread() : doorbell_(Doorbell::create()), reception_(loop_), listener_name_(random_name()) {
  prepare_crypto();
  (void)host_timeout_s();  // a wrong value is an error here, before there are sockets
  ForkGuard::get();
  reception_.listen(listener_name_);
  thread_ = threads::start("rondo-control", "the control thread", [this] {
    threads::idle_began();
    loop_.run();
    threads::idle_ended();
  });
  serving.store(true, std::memory_order_release);
  std::atexit(say_goodbye);
}

/// A process that ends without destroying its communicators leaves in good order.
void ControlThread::say_goodbye() {
  if (!usable()) return;
  ControlThread& thread = instance();
  const auto left = std::make_shared<std::promise<void>>();  // shared with the control thread, which may be late
  const Deadline deadline = Clock::now() + std::chrono::milliseconds(limits::exit_timeout_ms);
  thread.loop_.post(
      [&thread, left, deadline] { thread.reception_.leave_all(deadline, [left] { left->set_value(); }); });
  const bool in_time = left->get_future().wait_until(deadline) == std::future_status::ready;
  serving.store(false, std::memory_order_release);
  thread.loop_.stop();
  if (in_time) thread.thread_.join();  // else a hook may wait for a thread that is gone
}

std::uint16_t ControlThread::port() {
  if (port_ == 0) port_ = reception_.listen(port_range(), socket_family());
  return port_;
}

const std::vector<Address>& ControlThread::addresses() {
  if (!addresses_.empty()) return addresses_;
  const InterfaceChoice choice = choose_interfaces();
  const std::uint16_t listening = choice.interfaces.empty() ? 0 : port();
  for (const Interface& interface : choice.interfaces) {
    if (addresses_.size() == limits::addresses_max) break;
    addresses_.push_back(interface.address);
    addresses_.back().port = listening;
  }
  return addresses_;
}

void ControlThread::call(const std::function<void()>& task) {
  if (loop_.on_thread()) return task();
  // Shared: the waiter may be gone before set_value returns.  The words cross, not the exception object.
  const auto done = std::make_shared<std::promise<std::optional<Failure>>>();
  loop_.post([&task, done] {
    try {
      task();
      done->set_value({});
    } catch (const Error& error) {
      done->set_value(Failure{error.code(), -1, error.what()});
    } catch (const std::exception& error) {
      done->set_value(Failure{Code::internal_error, -1, error.what()});
    }
  });
  if (const auto failure = done->get_future().get()) throw Error(failure->code, failure->sentence);
}

Doorbell& doorbell() { return ControlThread::instance().doorbell(); }

void check_not_forked() {
  if (ForkGuard::forked()) throw Error(Code::invalid_usage, forked_sentence);
}

}  // namespace rondo::control
