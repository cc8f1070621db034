// See terminal_input.h.  Something typed is read only once the pipe has room for it, so that nothing is lost and
// nothing blocks.
#include "terminal_input.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/result.h"

namespace rondo::run {

int TerminalInput::open() {
  if (!isatty(STDIN_FILENO)) return STDIN_FILENO;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw_system_error("cannot make a pipe for the standard input of rank 0");
  far_end_ = Descriptor(ends[0]);
  pipe_ = Descriptor(ends[1]);
  fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);  // a rank that does not read must not stop the launcher
  return far_end_.get();
}

pollfd TerminalInput::poll_entry() const noexcept {
  pollfd room{pipe_.get(), POLLOUT, 0};
  return !pipe_ || poll(&room, 1, 0) == 0 ? room : pollfd{STDIN_FILENO, POLLIN, 0};
}

void TerminalInput::move() noexcept {
  pollfd entries[2] = {{STDIN_FILENO, POLLIN, 0}, {pipe_.get(), POLLOUT, 0}};
  if (poll(entries, 2, 0) < 2) return;
  char text[4096];  // a pipe that has room has room for this much, see pipe(7)
  const ssize_t size = read(STDIN_FILENO, text, sizeof text);
  if (size < 0 && errno == EINTR) return;
  if (size <= 0 || write(pipe_.get(), text, static_cast<std::size_t>(size)) < 0) pipe_.reset();
}

}  // namespace rondo::run
