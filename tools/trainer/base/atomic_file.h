// A file that appears whole or not at all: written beside its place as PATH.part-PID, flushed to the disk, and renamed.
// Whoever reads PATH sees the old contents or the new ones; a full disk leaves the old ones, and no half file.  What a
// symbolic link means is replaced, not the link; a device or a pipe is written directly.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rondo::trainer {

class AtomicFile {
 public:
  /// Creates the temporary file.  This and all that follows throws std::runtime_error with a sentence that names `path`
  /// and has the system's words.
  explicit AtomicFile(const std::string& path);
  /// Removes the temporary file, unless commit() was done.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Behind what was written before.
  void write(const void* bytes, std::size_t count);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// At a place of its own (a header that is known last); does not move the end.
  void write_at(std::size_t offset, const void* bytes, std::size_t count);
  /// Where others may write instead: a library that wants a path.
  const std::string& temporary_path() const { return temporary_; }
  /// Makes the file PATH.  Once only.
  void commit();

 private:
  [[noreturn]] void fail(const char* doing) const;

  std::string path_;
  std::string temporary_;  // path_ itself if that is no place for a file
  int descriptor_ = -1;
};

/// All at once.
void write_atomically(const std::string& path, std::string_view text);

}  // namespace rondo::trainer
