// What the ranks write: left on the launcher's own standard output and error, marked with the rank, or kept in files.
//
// Marked or copied lines go through pipes and the launcher's loop; files alone are the ranks' own descriptors.  A line
// is written at once and whole, so that lines of ranks do not mix.  Leaves out: an order between a rank's standard
// output and its standard error.  Limit: while whoever reads the launcher's output stalls, so does its loop.
#pragma once

#include <poll.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "launcher.h"

namespace rondo::run {

class Output {
 public:
  /// `again`: a later attempt, which adds to the files of the first.  Throws Error where there is no such folder to be
  /// had.
  Output(const LaunchOptions& options, bool again);

  /// What a rank's standard output and error are to be; -1: the launcher's own.
  struct Ends {
    int out = -1;
    int error = -1;
  };
  /// The ends stay open until close_far_ends().  Throws Error.
  Ends open(int rank);
  void close_far_ends() noexcept { far_ends_.clear(); }

  /// Adds what to poll for.
  void poll_for(std::vector<pollfd>& entries) const;
  /// Passes on what is there; never waits for a rank.
  void move() noexcept;
  /// When no rank is left: passes on what is left in the pipes, and the last lines.
  void finish() noexcept;
  /// Why something that a rank wrote could not be passed on (errno), or 0.  A reader that went away is no loss.
  int lost() const noexcept { return lost_; }

 private:
  struct Stream {
    Descriptor pipe;
    Descriptor file;
    int terminal = -1;  // where marked lines go, if anywhere
    std::string mark;
    std::string line;  // begun, not yet ended
  };
  Descriptor open_file(int rank, const char* suffix) const;
  int open_stream(int rank, int terminal, const char* suffix);
  std::size_t move(Stream& stream) noexcept;  // the bytes that were there
  bool write_all(int fd, std::string_view text) noexcept;
  bool pass_on(Stream& stream, std::string_view text);

  bool marks_;
  std::string folder_;
  bool again_;
  int lost_ = 0;
  std::vector<Stream> streams_;
  std::vector<Descriptor> far_ends_;
};

}  // namespace rondo::run
