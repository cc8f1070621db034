// The mesh's handle: any thread's way to the core on the control thread.
#include <chrono>
#include <future>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "control.h"
#include "control/mesh_core.h"
#include "control/thread.h"
#include "control/words.h"

namespace rondo::control {
namespace {

class Handle : public Mesh {
 public:
  Handle(ControlThread& thread, std::shared_ptr<MeshCore> core) : thread_(thread), core_(std::move(core)) {}
  ~Handle() override { close(Clock::now()); }

  void start(Deadline deadline) override {
    check_not_forked();
    started_ = true;
    std::future<std::optional<Failure>> created = core_->created();
    thread_.loop().post([core = core_, deadline = bounded(deadline)] { core->start(deadline); });
    if (const auto failure = created.get()) throw Error(failure->code, failure->sentence);
  }

  void want(int peer) override {
    if (!ControlThread::usable()) return;
    thread_.loop().post([core = core_, peer] { core->want(peer); });
  }

  void tell_failure(const std::string& sentence) override {
    if (!ControlThread::usable()) return;
    // From a hook it goes out at once: what a loop's own thread posts may run after what another thread posts later.
    if (thread_.loop().on_thread()) return core_->tell_failure(sentence);
    thread_.loop().post([core = core_, sentence] { core->tell_failure(sentence); });
  }

  void await_told() noexcept override {
    if (!ControlThread::usable() || thread_.loop().on_thread()) return;
    try {
      const auto done = std::make_shared<std::promise<void>>();  // shared: the waiter may give up
      thread_.loop().post([done] { done->set_value(); });
      done->get_future().wait_for(std::chrono::milliseconds(limits::tell_timeout_ms));
    } catch (const std::exception&) {
      return;  // no memory: nobody can be told either
    }
  }

  void close(Deadline deadline) noexcept override {
    // After a fork the core is the parent's, and at exit the control thread has closed it.
    if (!std::exchange(started_, false) || !ControlThread::usable()) return;
    const auto done =
        std::make_shared<std::promise<void>>();  // shared: the waiter may be gone before set_value returns
    thread_.loop().post(
        [core = core_, deadline = bounded(deadline), done] { core->close(deadline, [done] { done->set_value(); }); });
    done->get_future().wait();
  }

 private:
  ControlThread& thread_;
  std::shared_ptr<MeshCore> core_;  // shared with the control thread; also after close: the wires live in it
  bool started_ = false;            // and not closed
};

}  // namespace

std::unique_ptr<Mesh> Mesh::create(const Membership& membership, Hooks hooks) {
  ControlThread& thread = ControlThread::get();
  return std::make_unique<Handle>(thread, std::make_shared<MeshCore>(thread, membership, std::move(hooks)));
}

}  // namespace rondo::control
