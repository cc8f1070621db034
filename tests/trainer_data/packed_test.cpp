// Packed files: what goes in comes out, whatever is damaged is refused by name, ranks share its pages, and the command
// writes and checks them.
#include "tools/trainer/data/packed.h"

#include <CLI/CLI.hpp>
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/folder.h"
#include "tools/trainer/data/memory_dataset.h"
#include "tools/trainer/data/open.h"
#include "tools/trainer/data/pack_command.h"
#include "tools/trainer/data/synthetic.h"

using namespace rondo::data;
using Catch::Contains;
using rondo::test::Folder;
using rondo::test::sentence;

namespace {

std::unique_ptr<Dataset> images() { return make_synthetic({.size = 150, .shape = {5, 6, 3}, .classes = 7, .seed = 1}); }

std::vector<std::uint8_t> pixels_of(const Dataset& set, std::size_t index) {
  const auto reader = set.reader();
  reader->open(index);
  const Image image = reader->pixels(set.shape());
  return {image.pixels.begin(), image.pixels.end()};
}

std::string refused(const std::string& path) {
  return sentence([&] { open_packed(path, Split::training)->verify(); });
}

/// Status, and what went to the output and to errors.
int run(std::vector<const char*> words) {
  CLI::App app;
  add_pack_command(app);
  words.insert(words.begin(), {"rondo-train", "pack"});
  try {
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::Error& error) {
    return error.get_exit_code();
  }
  return 0;
}

}  // namespace

TEST_CASE("What was packed comes out, labels and all") {
  const Folder folder;
  const auto set = images();
  for (const int workers : {0, 3}) {
    std::size_t told = 0;
    pack(*set, folder.path("train.pack"), {.workers = workers, .progress = [&](std::size_t done) { told = done; }});
    CHECK(told == 150);
    CHECK(folder.files() == 1);
    const auto packed = open_packed(folder.path(), Split::training);
    packed->verify();
    REQUIRE(packed->size() == 150);
    CHECK(packed->classes() == 7);
    CHECK(packed->shape() == set->shape());
    CHECK(packed->name() == "synthetic");
    CHECK(packed->normalisation().mean == set->normalisation().mean);
    CHECK(packed->normalisation().deviation == set->normalisation().deviation);
    for (const std::size_t i : {0, 63, 64, 149}) {
      CHECK(packed->label(i) == set->label(i));
      CHECK(pixels_of(*packed, i) == pixels_of(*set, i));
    }
  }
  CHECK_THAT(sentence([&] { open_packed(folder.path(), Split::test); }),
             Contains("cannot open " + folder.path("test.pack")));
}

TEST_CASE("A size to store takes the middle of the resized image") {
  const Folder folder;
  Contents contents{.name = "stripes", .shape = {2, 6, 1}, .classes = 1, .normalisation = {{0.5F}, {0.5F}}};
  contents.storage = {1, 2, 30, 40, 5, 6, 1, 2, 50, 60, 5, 6};
  contents.stride = 12;
  contents.labels = {0};
  const MemoryDataset set(std::move(contents));
  pack(set, folder.path("x"), {.image = 2});
  CHECK(pixels_of(*open_packed(folder.path("x"), Split::test), 0) == std::vector<std::uint8_t>{30, 40, 50, 60});
}

TEST_CASE("The format is the one that its header's comment states") {
  const Folder folder;
  pack(*images(), folder.path("x"), {});
  const std::string file = folder.read("x");
  const auto word = [&](std::size_t at) {
    std::uint32_t value = 0;
    std::memcpy(&value, file.data() + at, 4);
    return value;
  };
  CHECK(file.substr(0, 8) == "RONDOPAK");
  CHECK(std::vector{word(8), word(12), word(16), word(20), word(24), word(32)} ==
        std::vector<std::uint32_t>{1, 5, 6, 3, 7, 150});
  const std::size_t labels = 4096 + 150 * 90;
  CHECK(word(40) == labels);
  CHECK(word(48) == labels + 600);
  CHECK(word(56) == file.size());
  CHECK(file.size() == labels + 1200);
  CHECK(word(labels + 4 * 9) == images()->label(9));
  CHECK(file.substr(96, 10) == std::string("synthetic\0", 10));
}

TEST_CASE("Damaged, truncated and foreign files are refused by name") {
  const Folder folder;
  pack(*images(), folder.path("good"), {});
  const std::string good = folder.read("good");
  const std::string path = folder.path("bad");
  const auto with = [&](std::size_t at, char byte) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ byte);
    folder.write("bad", std::string_view(bad));
    return refused(path);
  };
  CHECK_THAT(with(0, 1), Contains(path + " is no packed set"));
  CHECK_THAT(with(8, 3), Contains("version 2"));
  for (const std::size_t at : {12, 30, 33, 41, 60, 70, 100, 225}) CHECK_THAT(with(at, 1), Contains("damaged header"));
  CHECK_THAT(with(good.size() - 1, 1), Contains("damaged labels"));
  CHECK_THAT(with(good.size() - 1100, 1), Contains("damaged labels"));
  CHECK_THAT(with(4096 + 90 * 17 + 3, 64), Contains("image 17 has another checksum"));
  CHECK(with(200, 0).empty());
  for (const std::size_t bytes : {std::size_t(0), std::size_t(100), std::size_t(4096), good.size() - 1}) {
    folder.write("bad", std::string_view(good).substr(0, bytes));
    CHECK_THAT(refused(path), Contains(path));
  }
  CHECK_THAT(refused(path), Contains("truncated"));
  CHECK_THAT(refused(folder.path("none")), Contains("cannot open " + folder.path("none") + ": No such file"));
}

TEST_CASE("Packing fails without leaving a file") {
  const Folder folder;
  class Failing final : public Dataset {
   public:
    std::size_t size() const override { return 100; }
    int classes() const override { return 1; }
    Shape shape() const override { return {0, 0, 3}; }
    std::int64_t label(std::size_t) const override { return 0; }
    Normalisation normalisation() const override { return {}; }
    std::string name() const override { return "failing"; }
    std::unique_ptr<Reader> reader() const override {
      class FailingReader final : public Reader {
        Shape open(std::size_t index) override { throw DataError("image " + std::to_string(index) + " is bad"); }
        Image pixels(const Shape&) override { return {}; }
      };
      return std::make_unique<FailingReader>();
    }
  };
  CHECK(sentence([&] { pack(Failing(), folder.path("x"), {.image = 8}); }) == "image 0 is bad");
  CHECK_THAT(sentence([&] { pack(Failing(), folder.path("x"), {}); }), Contains("many sizes"));
  CHECK(folder.files() == 0);
  CHECK_THAT(sentence([&] { pack(*images(), "/no/such/x", {}); }), Contains("/no/such/x"));
}

TEST_CASE("The command packs, and checks what was packed") {
  const Folder folder;
  const std::string path = folder.path("x");
  folder.write("data/test_batch.bin", std::vector<std::uint8_t>(3073));
  const std::string data = folder.path("data");
  CHECK(run({"--data", "cifar10", "--data-dir", data.c_str(), "--split", "test", "-o", path.c_str(), "-j", "2"}) == 0);
  CHECK(run({"--verify", path.c_str()}) == 0);
  const auto packed = open_dataset({.kind = "packed", .path = path});
  CHECK(packed->size() == 1);
  CHECK(packed->name() == "CIFAR-10, test");
  std::string bytes = folder.read("x");
  bytes[4096] = 1;
  folder.write("x", std::string_view(bytes));
  CHECK(run({"--verify", path.c_str()}) == 1);
  CHECK(run({"--data", "cifar10", "-o", path.c_str()}) == 1);
  CHECK(run({"--data", "cifar10"}) == 1);
  CHECK(run({"--data", "cifar11"}) > 1);
}
