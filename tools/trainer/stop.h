// SIGINT and SIGTERM ask a training to end: after the step at hand, with a checkpoint.  A second SIGINT ends it at
// once.
#pragma once

namespace rondo::trainer {

/// From now on.
void take_stop_signals();
/// The signal that came, or 0.
int stop_signal();
/// Ends this process by the signal, so that whoever started it sees that.
[[noreturn]] void end_by(int signal);

}  // namespace rondo::trainer
