// Journals: rows as JSON lines, CSV and TensorBoard's records; going on from a checkpoint; curves drawn from them;
// files that appear whole or not at all.
#include "tools/trainer/report/journal.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tests/folder.h"
#include "tools/trainer/base/atomic_file.h"
#include "tools/trainer/report/curves.h"
#include "tools/trainer/report/event_file.h"

using namespace rondo::report;
using Catch::Contains;
using rondo::test::Folder;
using rondo::test::sentence;

namespace {

/// Reads protocol buffers, knowing nothing of the writer: (field, contents) pairs, numbers as their raw bytes.
std::vector<std::pair<int, std::string>> fields_of(const std::string& bytes) {
  std::vector<std::pair<int, std::string>> fields;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(bytes.at(at++));
      value |= std::uint64_t(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.size()) {
    const std::uint64_t key = varint();
    std::size_t length = key % 8 == 1 ? 8 : 4;
    if (key % 8 == 0) {
      fields.emplace_back(key / 8, std::to_string(varint()));
      continue;
    }
    if (key % 8 == 2) length = varint();
    fields.emplace_back(key / 8, bytes.substr(at, length));
    at += length;
  }
  return fields;
}

template <typename Value>
Value raw(const std::string& bytes, std::size_t at = 0) {
  Value value;
  REQUIRE(bytes.size() >= at + sizeof value);
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::uint32_t unmasked(std::uint32_t stored) {
  stored -= 0xa282ead8U;
  return (stored << 15) | (stored >> 17);
}

std::vector<std::string> records_of(const std::string& file) {
  std::vector<std::string> records;
  for (std::size_t at = 0; at < file.size();) {
    const auto length = raw<std::uint64_t>(file, at);
    CHECK(unmasked(raw<std::uint32_t>(file, at + 8)) == crc32c(file.substr(at, 8)));
    records.push_back(file.substr(at + 12, length));
    CHECK(unmasked(raw<std::uint32_t>(file, at + 12 + length)) == crc32c(records.back()));
    at += 16 + length;
  }
  return records;
}

}  // namespace

TEST_CASE("JSON lines hold the rows, and a resumed run goes on behind its checkpoint") {
  const Folder folder;
  const std::string path = folder.path("run.jsonl");
  {
    const auto journal = json_lines(path);
    for (std::uint64_t step = 1; step <= 4; ++step)
      journal->write({step, double(step) / 2, {{"loss/train", 0.1 * double(step)}}});
    journal->write({5, 2.5, {{"loss/train", NAN}, {"accuracy/test", 0.5}}});
  }
  std::vector<Row> rows = rows_of(path);
  REQUIRE(rows.size() == 5);
  CHECK(rows[1].step == 2);
  CHECK(rows[1].epoch == 1);
  CHECK(rows[1].values == std::vector<std::pair<std::string, double>>{{"loss/train", 0.2}});
  CHECK(rows[4].values == std::vector<std::pair<std::string, double>>{{"accuracy/test", 0.5}});
  CHECK_THAT(folder.read("run.jsonl"),
             Contains("\"loss/train\":null") && Contains("{\"step\":1,\"epoch\":0.5,\"time\":"));

  folder.write("run.jsonl", folder.read("run.jsonl") + "{\"step\":6,\"ep");
  json_lines(path, 3)->write({4, 2, {{"loss/train", 7}}});
  rows = rows_of(path);
  REQUIRE(rows.size() == 4);
  CHECK(rows[3].values[0].second == 7);
  json_lines(path)->write({9, 2, {}});
  CHECK(rows_of(path).size() == 1);
  json_lines(folder.path("new.jsonl"), 3)->write({4, 2, {}});
  CHECK(rows_of(folder.path("new.jsonl")).size() == 1);
  CHECK(folder.files() == 2);

  CHECK_THAT(sentence([&] { rows_of(folder.write("bad", std::string_view("{}\n"))); }), Contains("bad, line 1"));
  CHECK_THAT(sentence([&] { json_lines("/no/such/run.jsonl"); }), Contains("/no/such/run.jsonl: No such file"));
  CHECK(sentence([&] {
          json_lines("/dev/full")->write({1, 1, {}});
        }) == "cannot write /dev/full: No space left on device");
}

TEST_CASE("CSV has one line a row, and refuses to go on with other columns") {
  const Folder folder;
  const std::string path = folder.path("run.csv");
  {
    const auto journal = csv(path, {"loss/train", "lr"});
    journal->write({1, 0.25, {{"lr", 0.1}, {"loss/train", 2.5}, {"other", 1}}});
    journal->write({2, 0.5, {{"loss/train", -INFINITY}}});
  }
  CHECK(folder.read("run.csv") == "step,epoch,loss/train,lr\n1,0.25,2.5,0.1\n2,0.5,-inf,\n");
  csv(path, {"loss/train", "lr"}, 1)->write({2, 0.5, {{"lr", 3}}});
  CHECK(folder.read("run.csv") == "step,epoch,loss/train,lr\n1,0.25,2.5,0.1\n2,0.5,,3\n");
  CHECK_THAT(sentence([&] { csv(path, {"lr"}, 1); }), Contains("its first line isn't step,epoch,lr"));
}

TEST_CASE("CRC-32C is the one of RFC 3720") {
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xe3069283U);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aaU);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43U);
}

TEST_CASE("Event files hold a version and scalars, in framed and checked records") {
  const Folder folder;
  const std::string logs = folder.path("logs/run");
  {
    const auto journal = tensorboard(logs);
    journal->write({300, 1.5, {{"loss/train", 2.5}, {"accuracy/test", 0.125}}});
    journal->write({1ULL << 40, 1.5, {}});
    const auto other = tensorboard(logs);  // a file of its own, in the same second
  }
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(logs)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  REQUIRE(names.size() == 2);
  CHECK_THAT(names[0], Catch::StartsWith("events.out.tfevents."));
  const std::vector<std::string> records = records_of(folder.read("logs/run/" + names[0]));
  REQUIRE(records.size() == 3);
  const auto first = fields_of(records[0]);
  REQUIRE(first.size() == 2);
  CHECK(first[0].first == 1);
  CHECK(raw<double>(first[0].second) > 1e9);
  CHECK(first[1] == std::pair<int, std::string>{3, "brain.Event:2"});

  const auto event = fields_of(records[1]);
  REQUIRE(event.size() == 3);
  CHECK(event[1] == std::pair<int, std::string>{2, "300"});
  CHECK(event[2].first == 5);
  const auto summary = fields_of(event[2].second);
  REQUIRE(summary.size() == 2);
  CHECK(summary[0].first == 1);
  const auto value = fields_of(summary[0].second);
  REQUIRE(value.size() == 2);
  CHECK(value[0] == std::pair<int, std::string>{1, "loss/train"});
  CHECK(value[1].first == 2);
  CHECK(raw<float>(value[1].second) == 2.5F);
  CHECK(fields_of(records[2])[1].second == "1099511627776");
  const std::string file = folder.write("file", std::string_view("x"));
  CHECK_THAT(sentence([&] { tensorboard(file + "/logs"); }), Contains("cannot make the folder"));
}

TEST_CASE("Curves: a chart a kind, a line a split, no more points than can be seen") {
  std::vector<Row> rows;
  for (std::uint64_t step = 1; step <= 2000; ++step) rows.push_back({step, 0, {{"loss/train", 3.0 / double(step)}}});
  rows.push_back({2000, 0, {{"loss/test", 1}, {"accuracy/test", NAN}, {"lr", 0.1}}});
  const std::string svg = curves_svg(rows, "a & b");
  const auto count = [&](const std::string& word) {
    std::size_t times = 0;
    for (std::size_t at = svg.find(word); at != std::string::npos; at = svg.find(word, at + 1)) ++times;
    return times;
  };
  CHECK(count("<polyline") == 3);
  CHECK(count("<circle") == 2);
  CHECK_THAT(svg, Contains(">a &amp; b<") && Contains(">loss<") && Contains(">step<") && Contains(">train<"));
  CHECK_THAT(svg, !Contains("accuracy"));
  CHECK_THAT(svg, Contains(">1500<"));
  CHECK(curves_svg({}, "nothing").empty());
}

TEST_CASE("A file appears whole or not at all") {
  const Folder folder;
  const std::string path = folder.write("report.json", std::string_view("old"));
  {
    rondo::trainer::AtomicFile file(path);
    file.write("half");
    CHECK(folder.read("report.json") == "old");
    CHECK(folder.files() == 2);
  }
  CHECK(folder.read("report.json") == "old");
  CHECK(folder.files() == 1);
  {
    rondo::trainer::AtomicFile file(path);
    file.write("____ new");
    file.write_at(0, "very", 4);
    file.write(" text");
    file.commit();
  }
  CHECK(folder.read("report.json") == "very new text");
  CHECK(folder.files() == 1);
  std::filesystem::create_symlink(path, folder.path("link"));
  rondo::trainer::write_atomically(folder.path("link"), "newer");
  CHECK(std::filesystem::is_symlink(folder.path("link")));
  CHECK(folder.read("report.json") == "newer");
  std::filesystem::create_symlink("/dev/full", folder.path("full"));
  CHECK(sentence([&] { rondo::trainer::write_atomically(folder.path("full"), "x"); }) ==
        "cannot write " + folder.path("full") + ": No space left on device");
  CHECK(std::filesystem::is_symlink(folder.path("full")));
  CHECK_THAT(sentence([] { rondo::trainer::write_atomically("/no/such/file", "x"); }),
             Contains("cannot create /no/such/file: No such file or directory"));
}
