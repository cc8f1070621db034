// Buffers of 3 GiB: every size and offset has to be a size_t.  Uses 6 GiB, and leaves as much to others.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "ranks.h"

namespace rondo::test {
namespace {

constexpr std::size_t gib = std::size_t{1} << 30;
constexpr std::size_t bytes = 3 * gib + 20;
constexpr int ranks = 2;

std::size_t available() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("MemAvailable:", 0) == 0) return std::stoull(line.substr(13)) * 1024;
  }
  return 0;
}

/// Where elements are marked: around every GiB and at the end; zeros elsewhere.
struct Window {
  std::size_t first;
  std::size_t end;
};

std::vector<Window> windows(std::size_t count, std::size_t per_gib) {
  constexpr std::size_t half = 256;
  std::vector<Window> list{{0, half}};
  for (std::size_t at = per_gib; at < count; at += per_gib) list.push_back({at - half, std::min(at + half, count)});
  if (list.back().end < count) list.push_back({std::max(list.back().end, count - half), count});
  return list;
}

int mark(std::size_t index, int rank) { return 1 + static_cast<int>((index + static_cast<std::size_t>(rank)) % 7); }

bool all_zero(const void* data, std::size_t size) {
  static const std::vector<char> zeros(1 << 20);
  const char* at = static_cast<const char*>(data);
  for (; size > zeros.size(); at += zeros.size(), size -= zeros.size()) {
    if (std::memcmp(at, zeros.data(), zeros.size()) != 0) return false;
  }
  return std::memcmp(at, zeros.data(), size) == 0;
}

template <class T>
void run(ncclDataType_t type) {
  const Shared<Meeting> meeting;
  const std::string trouble = run_ranks(Ranks::processes, ranks, [&](int rank) {
    const ncclComm_t comm = meeting->join(0, rank, ranks);
    const std::size_t count = bytes / sizeof(T);
    const std::unique_ptr<T, decltype(&std::free)> data(static_cast<T*>(std::calloc(count, sizeof(T))), std::free);
    const std::vector<Window> marked = windows(count, gib / sizeof(T));
    for (const Window& window : marked) {
      for (std::size_t i = window.first; i < window.end; ++i) data.get()[i] = static_cast<T>(mark(i, rank));
    }
    expect_success(ncclAllReduce(data.get(), data.get(), count, type, ncclSum, comm, nullptr), "ncclAllReduce");
    std::size_t last = 0;
    for (const Window& window : marked) {
      expect(all_zero(data.get() + last, (window.first - last) * sizeof(T)),
             "zeros before " + std::to_string(window.first));
      for (std::size_t i = window.first; i < window.end; ++i) {
        expect(data.get()[i] == static_cast<T>(mark(i, 0) + mark(i, 1)), "the sum at " + std::to_string(i));
      }
      last = window.end;
    }
    expect(last == count, "windows to the end");
    expect_success(ncclCommDestroy(comm), "ncclCommDestroy");
  });
  REQUIRE(trouble == "");
}

TEST_CASE("buffers of 3 GiB") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  WARN("skipped: sanitizers need several times the memory");
  return;
#endif
  if (available() < 14 * gib) {
    WARN("skipped: " << available() / gib << " GiB of memory are available, and the test needs 14");
    return;
  }
  run<std::uint8_t>(ncclUint8);
  run<float>(ncclFloat32);
}

}  // namespace
}  // namespace rondo::test
