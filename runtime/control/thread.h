// The control thread: the sole global.  It owns the loop, the reception and the doorbell, and says goodbye at exit.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/doorbell.h"
#include "control/address.h"
#include "control/loop.h"
#include "control/reception.h"

namespace rondo::control {

class Root;

class ControlThread {
 public:
  /// Starts it on first use.  Throws Error: after a fork, or where the system has no thread or socket left.
  static ControlThread& get();
  /// It was started, this is not a forked child, and the process is not past its goodbye: calls on it are answered.
  static bool usable() noexcept;
  /// As get(), but a forked child may still look at what it inherited (the doorbell).
  static ControlThread& instance();

  Loop& loop() noexcept { return loop_; }
  Reception& reception() noexcept { return reception_; }
  Doorbell& doorbell() noexcept { return doorbell_; }
  const std::string& listener_name() const noexcept { return listener_name_; }
  /// The TCP port on which this process listens from the first call on.  Throws Error.  Loop thread only.
  std::uint16_t port();
  /// Where ranks of other hosts reach this process, at that port: limits::addresses_max at most, none where no
  /// interface is up.  Throws Error.  Loop
  /// thread only.
  const std::vector<Address>& addresses();
  /// The roots of this process.  Loop thread only.
  std::map<const Root*, std::unique_ptr<Root>>& roots() noexcept { return roots_; }
  /// Runs `task` on the control thread and waits for it; throws the Error that it threw.
  void call(const std::function<void()>& task);

 private:
  ControlThread();
  ~ControlThread() = delete;  // the thread outlives every user of it
  static void say_goodbye();

  Doorbell doorbell_;
  Loop loop_;
  Reception reception_;
  std::string listener_name_;
  std::uint16_t port_ = 0;  // 0: none yet
  std::vector<Address> addresses_;
  std::map<const Root*, std::unique_ptr<Root>> roots_;
  std::thread thread_;
};

}  // namespace rondo::control
