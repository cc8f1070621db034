// The signals that ask to end: see stop.h.
#include "tools/trainer/stop.h"

#include <unistd.h>

#include <csignal>

namespace rondo::trainer {
namespace {

volatile std::sig_atomic_t came = 0;  // a handler can reach no other state

void note(int signal) {
  if (came == SIGINT && signal == SIGINT) std::signal(SIGINT, SIG_DFL), std::raise(SIGINT);
  came = signal;
}

}  // namespace

void take_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int stop_signal() { return came; }

void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  _exit(128 + signal);
}

}  // namespace rondo::trainer
