// What a process of a test logs, and what can be counted in it: numbers of the library's threads, and the threads.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace rondo::test {

/// What this process logs from now on.
class Log {
 public:
  explicit Log(int rank)
      : path_(std::filesystem::temp_directory_path() /
              ("rondo-test-" + std::to_string(::getpid()) + "-" + std::to_string(rank))) {
    ::setenv("NCCL_DEBUG", "INFO", 1);
    ::setenv("NCCL_DEBUG_FILE", path_.c_str(), 1);
  }
  ~Log() { std::filesystem::remove(path_); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  std::string text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  const std::filesystem::path path_;
};

/// The threads of this process whose names begin so.
inline int threads_named(const std::string& name) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(entry.path() / "comm");
    std::string comm;
    count += std::getline(file, comm) && comm.starts_with(name) ? 1 : 0;
  }
  return count;
}

/// The numbers before `word` in a log.
inline std::vector<long> numbers_before(const std::string& word, const std::string& log) {
  std::vector<long> numbers;
  for (auto at = log.find(word); at != std::string::npos; at = log.find(word, at + 1)) {
    const auto begin = log.find_last_not_of("0123456789", at - 2) + 1;
    numbers.push_back(std::stol(log.substr(begin, at - begin)));
  }
  return numbers;
}

}  // namespace rondo::test
