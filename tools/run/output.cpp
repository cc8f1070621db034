// What ranks write: see output.h.  Pipes do not block their reader, the launcher; its own output may.
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/result.h"

namespace rondo::run {

namespace {

constexpr std::size_t line_bytes_max = 64 * 1024;    // a longer line is broken
constexpr std::size_t last_bytes_max = 1024 * 1024;  // what is taken from a pipe at the end, if it never dries up

}  // namespace

Output::Output(const LaunchOptions& options, bool again)
    : marks_(options.tag_output), folder_(options.output_folder), again_(again) {
  if (folder_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) {
    throw Error(Code::system_error, "cannot make the folder '" + folder_ + "' of --output-dir: " + error.message());
  }
}

// Whole, also into a descriptor that does not block.  False: nobody reads it any more, or it takes no more.
bool Output::write_all(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd room{fd, POLLOUT, 0};
      poll(&room, 1, -1);
    } else if (errno != EINTR) {
      if (errno != EPIPE) lost_ = errno;
      return false;
    }
  }
  return true;
}

Descriptor Output::open_file(int rank, const char* suffix) const {
  const std::string path = folder_ + "/rank-" + std::to_string(rank) + suffix;
  const int start = again_ ? O_APPEND : O_APPEND | O_TRUNC;
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | start, 0666));
  if (!file) throw_system_error("cannot write to '" + path + "'");
  return file;
}

int Output::open_stream(int rank, int terminal, const char* suffix) {
  if (!marks_ && folder_.empty()) return -1;
  Descriptor file = folder_.empty() ? Descriptor() : open_file(rank, suffix);
  if (!marks_) {
    far_ends_.push_back(std::move(file));
    return far_ends_.back().get();
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw_system_error("cannot make a pipe for the output of a rank");
  Stream stream;
  stream.pipe = Descriptor(ends[0]);
  far_ends_.push_back(Descriptor(ends[1]));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  stream.file = std::move(file);
  stream.terminal = terminal;
  stream.mark = std::string("[").append(std::to_string(rank)).append("] ");
  streams_.push_back(std::move(stream));
  return ends[1];
}

Output::Ends Output::open(int rank) {
  Ends ends;
  ends.out = open_stream(rank, STDOUT_FILENO, ".out");
  ends.error = open_stream(rank, STDERR_FILENO, ".err");
  return ends;
}

void Output::poll_for(std::vector<pollfd>& entries) const {
  for (const Stream& stream : streams_) {
    if (stream.pipe) entries.push_back({stream.pipe.get(), POLLIN, 0});
  }
}

bool Output::pass_on(Stream& stream, std::string_view text) {
  if (stream.file && !write_all(stream.file.get(), text)) return false;
  stream.line += text;
  std::string marked;
  std::size_t at = 0;
  for (;;) {
    const std::size_t end = stream.line.find('\n', at);
    const std::size_t length = end == std::string::npos ? stream.line.size() - at : end - at;
    if (end == std::string::npos && length < line_bytes_max) break;
    marked += stream.mark + stream.line.substr(at, length) + "\n";
    at += length + (end == std::string::npos ? 0 : 1);
  }
  stream.line.erase(0, at);
  return write_all(stream.terminal, marked);
}

std::size_t Output::move(Stream& stream) noexcept {
  char text[16 * 1024];
  const ssize_t size = read(stream.pipe.get(), text, sizeof text);
  if (size < 0) return 0;
  // A rank whose words nobody takes any more shall notice, as without the launcher between.
  if (size == 0 || !pass_on(stream, {text, static_cast<std::size_t>(size)})) stream.pipe.reset();
  return static_cast<std::size_t>(size);
}

void Output::move() noexcept {
  for (Stream& stream : streams_) {
    if (stream.pipe) move(stream);
  }
}

void Output::finish() noexcept {
  for (Stream& stream : streams_) {
    std::size_t bytes = 0;
    for (std::size_t more = 1; stream.pipe && more > 0 && bytes < last_bytes_max; bytes += more) more = move(stream);
    if (!stream.line.empty()) write_all(stream.terminal, stream.mark + stream.line + "\n");
    stream.line.clear();
  }
}

}  // namespace rondo::run
