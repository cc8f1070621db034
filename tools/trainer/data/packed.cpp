// The file as a mapping; see packed.h.
#include "tools/trainer/data/packed.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>

#include "tools/trainer/base/atomic_file.h"
#include "tools/trainer/data/files.h"
#include "tools/trainer/data/loader.h"

namespace rondo::data {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr char magic[8] = {'R', 'O', 'N', 'D', 'O', 'P', 'A', 'K'};
constexpr std::uint32_t version = 1;
constexpr std::uint64_t pixels_begin = 4096;
constexpr std::size_t channels_max = 4;
constexpr std::uint32_t side_max = 1 << 16;
constexpr std::size_t batch = 64;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t height, width, channels, classes;
  std::uint32_t tables_checksum;
  std::uint64_t count;
  std::uint64_t labels_begin, checksums_begin;
  std::uint64_t file_bytes;
  float mean[channels_max], deviation[channels_max];
  char name[128];
  std::uint32_t checksum;
};
static_assert(sizeof(Header) == 232 && offsetof(Header, checksum) == 224);

std::uint32_t checksum_of(const void* bytes, std::size_t count, std::uint32_t before = 0) {
  return static_cast<std::uint32_t>(crc32_z(before, static_cast<const Bytef*>(bytes), count));
}

std::uint32_t header_checksum(const Header& header) { return checksum_of(&header, offsetof(Header, checksum)); }

class Mapping {
 public:
  explicit Mapping(const std::string& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) throw DataError("cannot open " + path + system_words());
    struct stat status {};
    const bool known = ::fstat(descriptor, &status) == 0;
    bytes_ = known ? static_cast<std::size_t>(status.st_size) : 0;
    void* const address = bytes_ > 0 ? ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, descriptor, 0) : MAP_FAILED;
    const std::string words = system_words();
    ::close(descriptor);
    if (bytes_ == 0) throw DataError(path + " is empty");
    if (address == MAP_FAILED) throw DataError("cannot map " + path + words);
    address_ = static_cast<const std::uint8_t*>(address);
  }
  ~Mapping() { ::munmap(const_cast<std::uint8_t*>(address_), bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  const std::uint8_t* at(std::uint64_t offset) const { return address_ + offset; }
  std::size_t bytes() const { return bytes_; }

 private:
  const std::uint8_t* address_ = nullptr;
  std::size_t bytes_ = 0;
};

class Packed final : public PackedDataset {
 public:
  explicit Packed(const std::string& path) : path_(path), mapping_(path) {
    check_header();
    check_tables();
  }
  std::size_t size() const override { return header_.count; }
  int classes() const override { return static_cast<int>(header_.classes); }
  Shape shape() const override { return shape_; }
  std::int64_t label(std::size_t index) const override { return word(header_.labels_begin, index); }
  Normalisation normalisation() const override {
    const auto channels = header_.channels;
    return {{header_.mean, header_.mean + channels}, {header_.deviation, header_.deviation + channels}};
  }
  std::string name() const override { return {header_.name, ::strnlen(header_.name, sizeof header_.name)}; }
  std::span<const std::uint8_t> pixels(std::size_t index) const override {
    return {mapping_.at(pixels_begin + index * shape_.bytes()), shape_.bytes()};
  }
  void verify() const override {
    for (std::size_t i = 0; i < size(); ++i) {
      if (checksum_of(pixels(i).data(), shape_.bytes()) == word(header_.checksums_begin, i)) continue;
      throw DataError(path_ + " is damaged: image " + std::to_string(i) + " has another checksum than was packed");
    }
  }

 private:
  std::uint32_t word(std::uint64_t table, std::size_t index) const {
    std::uint32_t value = 0;
    std::memcpy(&value, mapping_.at(table + 4 * index), sizeof value);
    return value;
  }
  [[noreturn]] void refuse(const std::string& why) const { throw DataError(path_ + " " + why); }

  void check_header() {
    if (mapping_.bytes() < sizeof header_) refuse("is no packed set: it is too short");
    std::memcpy(&header_, mapping_.at(0), sizeof header_);
    if (std::memcmp(header_.magic, magic, sizeof magic) != 0) {
      refuse("is no packed set: its first bytes are wrong (rondo-train pack writes such files)");
    }
    if (header_.version != version) {
      refuse("has version " + std::to_string(header_.version) + " of the format, where this program knows " +
             std::to_string(version) + ": pack it again");
    }
    if (header_.checksum != header_checksum(header_)) refuse("has a damaged header: pack it again");
    const Header& h = header_;
    const bool sane = h.height > 0 && h.width > 0 && h.height <= side_max && h.width <= side_max && h.channels > 0 &&
                      h.channels <= channels_max && h.classes > 0 && h.count > 0 && h.count < (1ULL << 32);
    if (!sane) refuse("has a header that makes no sense: pack it again");
    shape_ = {int(h.height), int(h.width), int(h.channels)};
    const std::uint64_t pixels_end = pixels_begin + h.count * shape_.bytes();
    if (h.labels_begin != pixels_end || h.checksums_begin != pixels_end + 4 * h.count ||
        h.file_bytes != pixels_end + 8 * h.count) {
      refuse("has a header that makes no sense: pack it again");
    }
    if (h.file_bytes != mapping_.bytes()) {
      refuse("has " + std::to_string(mapping_.bytes()) + " bytes where its header says " +
             std::to_string(h.file_bytes) + ": it is truncated or not wholly copied");
    }
  }

  void check_tables() const {
    if (checksum_of(mapping_.at(header_.labels_begin), 8 * header_.count) != header_.tables_checksum) {
      refuse("has damaged labels: pack it again");
    }
    for (std::size_t i = 0; i < size(); ++i) {
      if (word(header_.labels_begin, i) >= header_.classes) refuse("has a label beyond its classes: pack it again");
    }
  }

  std::string path_;
  Mapping mapping_;
  Header header_{};
  Shape shape_;
};

Header header_of(const Dataset& dataset, const Shape& shape) {
  Header header{};
  std::memcpy(header.magic, magic, sizeof magic);
  header.version = version;
  header.height = static_cast<std::uint32_t>(shape.height);
  header.width = static_cast<std::uint32_t>(shape.width);
  header.channels = static_cast<std::uint32_t>(shape.channels);
  header.classes = static_cast<std::uint32_t>(dataset.classes());
  header.count = dataset.size();
  header.labels_begin = pixels_begin + header.count * shape.bytes();
  header.checksums_begin = header.labels_begin + 4 * header.count;
  header.file_bytes = header.checksums_begin + 4 * header.count;
  const Normalisation normalisation = dataset.normalisation();
  std::copy(normalisation.mean.begin(), normalisation.mean.end(), header.mean);
  std::copy(normalisation.deviation.begin(), normalisation.deviation.end(), header.deviation);
  dataset.name().copy(header.name, sizeof header.name - 1);
  return header;
}

}  // namespace

std::unique_ptr<PackedDataset> open_packed(const std::string& path, Split split) {
  std::filesystem::path file = path;
  if (std::filesystem::is_directory(file)) file /= split == Split::training ? "train.pack" : "test.pack";
  return std::make_unique<Packed>(file.string());
}

void pack(const Dataset& dataset, const std::string& path, const Packing& packing) {
  Shape shape = dataset.shape();
  if (packing.image > 0) shape.height = shape.width = packing.image;
  if (shape.bytes() == 0)
    throw DataError(dataset.name() + " has images of many sizes: say which one to pack (--image)");
  if (shape.channels > int(channels_max)) throw DataError("a packed set has at most 4 channels");
  Header header = header_of(dataset, shape);

  Loading loading{.batch = batch, .workers = packing.workers, .batches_ahead = 4, .epochs_end = 1};
  loading.augmentation = {.height = shape.height, .width = shape.width, .short_side = packing.image};
  if (packing.image > 0) loading.augmentation.crop = Crop::centre;
  Loader loader(dataset, Sampler({.size = dataset.size(), .shuffle = false}), loading);
  std::vector<std::uint32_t> labels;
  std::vector<std::uint32_t> checksums;
  trainer::AtomicFile file(path);
  const std::vector<std::uint8_t> blank(pixels_begin);
  file.write(blank.data(), blank.size());
  while (const Batch* const images = loader.next()) {
    file.write(images->pixels, images->count * shape.bytes());
    for (std::size_t i = 0; i < images->count; ++i) {
      labels.push_back(static_cast<std::uint32_t>(images->labels[i]));
      checksums.push_back(checksum_of(images->pixels + i * shape.bytes(), shape.bytes()));
    }
    if (packing.progress) packing.progress(labels.size());
  }
  file.write(labels.data(), 4 * labels.size());
  file.write(checksums.data(), 4 * checksums.size());
  header.tables_checksum =
      checksum_of(checksums.data(), 4 * checksums.size(), checksum_of(labels.data(), 4 * labels.size()));
  header.checksum = header_checksum(header);
  file.write_at(0, &header, sizeof header);
  file.commit();
}

}  // namespace rondo::data
