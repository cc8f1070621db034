// The event loop, by Asio: an io_context with one thread, readiness of native descriptors, steady timers.
//
// Asio's own socket operations are not used: they cannot carry descriptors, and its sockets are not close-on-exec.
#include "control/loop.h"

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

namespace rondo::control {

struct Loop::Impl {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(context);
};

Loop::Loop() : impl_(std::make_unique<Impl>()) {}
Loop::~Loop() = default;
void Loop::run() { impl_->context.run(); }
void Loop::stop() { impl_->context.stop(); }
void Loop::post(std::function<void()> task) { asio::post(impl_->context, std::move(task)); }
bool Loop::on_thread() const noexcept { return impl_->context.get_executor().running_in_this_thread(); }

struct Watch::State {
  State(asio::io_context& context, int fd, std::function<void()> handler)
      : descriptor(context, fd), readable(std::move(handler)) {}

  static void await_readable(std::shared_ptr<State> state) {
    auto& descriptor = state->descriptor;
    descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                          [state = std::move(state)](const asio::error_code& error) {
                            if (state->stopped || error) return;
                            state->readable();
                            if (!state->stopped) await_readable(state);
                          });
  }

  asio::posix::stream_descriptor descriptor;
  std::function<void()> readable;
  bool stopped = false;
};

Watch::Watch(Loop& loop, int fd, std::function<void()> readable)
    : state_(std::make_shared<State>(loop.impl_->context, fd, std::move(readable))) {
  State::await_readable(state_);
}

Watch::~Watch() {
  state_->stopped = true;
  state_->descriptor.release();  // it is the owner's to close
}

void Watch::await_writable(std::function<void()> writable) {
  state_->descriptor.async_wait(asio::posix::stream_descriptor::wait_write,
                                [state = state_, writable = std::move(writable)](const asio::error_code& error) {
                                  if (!state->stopped && !error) writable();
                                });
}

struct Timer::State {
  explicit State(asio::io_context& context) : timer(context) {}
  asio::steady_timer timer;
  unsigned turn = 0;  // an expiry of an earlier turn is stale
};

Timer::Timer(Loop& loop) : state_(std::make_shared<State>(loop.impl_->context)) {}
Timer::~Timer() { cancel(); }

void Timer::start(Deadline at, std::function<void()> handler) {
  const unsigned turn = ++state_->turn;
  state_->timer.expires_at(at);
  state_->timer.async_wait([state = state_, turn, handler = std::move(handler)](const asio::error_code& error) {
    if (!error && state->turn == turn) handler();
  });
}

void Timer::cancel() {
  ++state_->turn;
  state_->timer.cancel();
}

}  // namespace rondo::control
