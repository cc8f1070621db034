// JSON lines and CSV over one kind of file: lines, flushed one by one; see journal.h.
#include "tools/trainer/report/journal.h"

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "tools/trainer/base/atomic_file.h"

namespace rondo::report {
namespace {

using nlohmann::json;

class Lines {
 public:
  /// Goes on with `kept` (whole lines) as the file's contents.
  Lines(const std::string& path, const std::string& kept) : path_(path) {
    trainer::write_atomically(path, kept);
    file_.reset(std::fopen(path.c_str(), "ab"));
    if (!file_) fail();
  }
  void write(const std::string& line) {
    if (std::fputs((line + "\n").c_str(), file_.get()) < 0 || std::fflush(file_.get()) != 0) fail();
  }

 private:
  [[noreturn]] void fail() const { throw std::runtime_error("cannot write " + path_ + ": " + std::strerror(errno)); }

  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{nullptr, std::fclose};
};

/// The whole lines of a file for which `keep` holds; none if there is no file.
std::string kept_lines(const std::string& path, const std::function<bool(const std::string&)>& keep) {
  std::ifstream file(path, std::ios::binary);
  std::string kept;
  for (std::string line; std::getline(file, line) && !file.eof();) {  // a last line without its end is half a line
    if (keep(line)) kept += line + "\n";
  }
  return kept;
}

class JsonLines final : public Journal {
 public:
  JsonLines(const std::string& path, std::optional<std::uint64_t> resume)
      : lines_(path, resume ? kept_lines(path, [&](const std::string& line) { return up_to(line, *resume); }) : "") {}

  void write(const Row& row) override {
    const auto time = std::chrono::system_clock::now().time_since_epoch();
    nlohmann::ordered_json line{{"step", row.step}, {"epoch", row.epoch}};
    line["time"] = std::chrono::duration<double>(time).count();
    for (const auto& [name, value] : row.values) line[name] = value;
    lines_.write(line.dump());
  }

 private:
  static bool up_to(const std::string& line, std::uint64_t step) {
    const json row = json::parse(line, nullptr, false);
    return row.is_object() && row.contains("step") && row["step"].is_number_unsigned() && row["step"] <= step;
  }
  Lines lines_;
};

/// The shortest text that reads back as the same number.
std::string number(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

class Csv final : public Journal {
 public:
  Csv(const std::string& path, const std::vector<std::string>& columns, std::optional<std::uint64_t> resume)
      : columns_(columns), lines_(path, contents(path, resume)) {}

  void write(const Row& row) override {
    std::string line = std::to_string(row.step) + "," + number(row.epoch);
    for (const std::string& column : columns_) {
      line += ",";
      for (const auto& [name, value] : row.values) {
        if (name == column) line += number(value);
      }
    }
    lines_.write(line);
  }

 private:
  std::string contents(const std::string& path, std::optional<std::uint64_t> resume) const {
    std::string header = "step,epoch";
    for (const std::string& column : columns_) header += "," + column;
    std::ifstream old(path);
    std::string first;
    if (!resume || !std::getline(old, first) || first.empty()) return header + "\n";
    if (first != header) {
      throw std::runtime_error("cannot go on with " + path + ": its first line isn't " + header);
    }
    return header + "\n" + kept_lines(path, [&](const std::string& line) {
             std::uint64_t step = 0;
             const auto result = std::from_chars(line.data(), line.data() + line.size(), step);
             return result.ec == std::errc() && step <= *resume;
           });
  }

  std::vector<std::string> columns_;
  Lines lines_;
};

}  // namespace

std::unique_ptr<Journal> json_lines(const std::string& path, std::optional<std::uint64_t> resume) {
  return std::make_unique<JsonLines>(path, resume);
}

std::unique_ptr<Journal> csv(const std::string& path, const std::vector<std::string>& columns,
                             std::optional<std::uint64_t> resume) {
  return std::make_unique<Csv>(path, columns, resume);
}

}  // namespace rondo::report
