// Protocol buffers by hand: a field is a varint of (number << 3 | kind), kinds being 0 varint, 1 eight bytes, 2 length
// and bytes, 5 four bytes; see event_file.h.
#include "tools/trainer/report/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <stdexcept>

namespace rondo::report {
namespace {

template <typename Value>
void put(std::string& bytes, Value value) {  // little-endian, as this machine is
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  bytes.append(raw, sizeof value);
}

void put_varint(std::string& bytes, std::uint64_t value) {
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
  bytes += static_cast<char>(value);
}

enum Kind { varint = 0, eight_bytes = 1, length_and_bytes = 2, four_bytes = 5 };

void put_key(std::string& bytes, int field, Kind kind) {
  put_varint(bytes, static_cast<std::uint64_t>(field << 3 | kind));
}

void put_bytes(std::string& bytes, int field, std::string_view contents) {
  put_key(bytes, field, length_and_bytes);
  put_varint(bytes, contents.size());
  bytes += contents;
}

std::uint32_t masked(std::uint32_t checksum) { return ((checksum >> 15) | (checksum << 17)) + 0xa282ead8U; }

constexpr std::array<std::uint32_t, 256> table = [] {
  std::array<std::uint32_t, 256> entries{};
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    entries[i] = i;
    for (int bit = 0; bit < 8; ++bit) entries[i] = (entries[i] >> 1) ^ (entries[i] & 1 ? 0x82f63b78U : 0);
  }
  return entries;
}();

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class EventFile final : public Journal {
 public:
  explicit EventFile(const std::string& folder) {
    std::error_code trouble;
    std::filesystem::create_directories(folder, trouble);
    if (trouble) throw std::runtime_error("cannot make the folder " + folder + ": " + trouble.message());
    char host[256] = "host";
    (void)::gethostname(host, sizeof host - 1);
    const double now = wall_time();
    const auto name = "events.out.tfevents." + std::to_string(static_cast<long long>(now)) + "." + host + "." +
                      std::to_string(::getpid());
    path_ = (std::filesystem::path(folder) / name).string();
    for (int i = 0; i < names_max && descriptor_ < 0; ++i) {  // several in one second: each has a name of its own
      const std::string path = path_ + "." + std::to_string(i);
      descriptor_ = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_APPEND | O_CLOEXEC, 0666);
      if (descriptor_ < 0 && errno != EEXIST) break;
      if (descriptor_ >= 0) path_ = path;
    }
    if (descriptor_ < 0) fail();
    append(record(first_event(now)));
  }
  ~EventFile() override {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  void write(const Row& row) override { append(record(scalars_event(wall_time(), row))); }

 private:
  static constexpr int names_max = 1000;
  [[noreturn]] void fail() const { throw std::runtime_error("cannot write " + path_ + ": " + std::strerror(errno)); }
  void append(const std::string& bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t count = ::write(descriptor_, bytes.data() + done, bytes.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail();
      done += static_cast<std::size_t>(count);
    }
  }

  std::string path_;
  int descriptor_ = -1;
};

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t checksum = 0xffffffff;
  for (const char byte : bytes) checksum = (checksum >> 8) ^ table[(checksum ^ static_cast<std::uint8_t>(byte)) & 0xff];
  return ~checksum;
}

std::string record(std::string_view payload) {
  std::string bytes;
  put(bytes, static_cast<std::uint64_t>(payload.size()));
  put(bytes, masked(crc32c(bytes)));
  bytes += payload;
  put(bytes, masked(crc32c(payload)));
  return bytes;
}

std::string first_event(double wall_time) {
  std::string event;
  put_key(event, 1, eight_bytes);
  put(event, wall_time);
  put_bytes(event, 3, "brain.Event:2");
  return event;
}

std::string scalars_event(double wall_time, const Row& row) {
  std::string summary;
  for (const auto& [name, scalar] : row.values) {
    std::string value;
    put_bytes(value, 1, name);
    put_key(value, 2, four_bytes);
    put(value, static_cast<float>(scalar));
    put_bytes(summary, 1, value);
  }
  std::string event;
  put_key(event, 1, eight_bytes);
  put(event, wall_time);
  put_key(event, 2, varint);
  put_varint(event, row.step);
  put_bytes(event, 5, summary);
  return event;
}

std::unique_ptr<Journal> tensorboard(const std::string& folder) { return std::make_unique<EventFile>(folder); }

}  // namespace rondo::report
