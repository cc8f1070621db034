// Reading through the standard library and zlib; see files.h.
#include "tools/trainer/data/files.h"

#include <zlib.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "tools/trainer/data/dataset.h"

namespace rondo::data {

std::string system_words() { return std::string(": ") + std::strerror(errno); }

void read_file(const std::string& path, std::vector<std::uint8_t>& bytes) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) throw DataError("cannot open " + path + system_words());
  bytes.clear();
  constexpr std::size_t piece = 1 << 16;
  for (std::size_t got = piece; got == piece;) {
    const std::size_t had = bytes.size();
    bytes.resize(had + piece);
    got = std::fread(bytes.data() + had, 1, piece, file.get());
    bytes.resize(had + got);
  }
  if (std::ferror(file.get())) throw DataError("cannot read " + path + system_words());
}

std::vector<std::uint8_t> read_gzip(const std::string& path, std::size_t bytes_max) {
  errno = 0;
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw DataError("cannot open " + path + system_words());
  gzbuffer(file.get(), 1 << 17);
  std::vector<std::uint8_t> bytes;
  constexpr unsigned piece = 1 << 20;
  for (;;) {
    const std::size_t had = bytes.size();
    if (had > bytes_max) throw DataError(path + " unpacks to more than its header says: it is damaged");
    bytes.resize(had + piece);
    const int got = gzread(file.get(), bytes.data() + had, piece);
    int code = Z_OK;
    const char* const words = gzerror(file.get(), &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      const char* const why = code == Z_ERRNO ? std::strerror(errno) : words;
      throw DataError("cannot unpack " + path + ": " + why);
    }
    bytes.resize(had + static_cast<std::size_t>(got));
    if (got == 0) return bytes;
  }
}

}  // namespace rondo::data
