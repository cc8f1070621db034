// Checkpoints as files and in a folder: see checkpoint.h.
#include "tools/trainer/checkpoint.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tools/trainer/base/atomic_file.h"
#include "tools/trainer/team.h"

namespace rondo::trainer {
namespace {

namespace fs = std::filesystem;
constexpr char magic[] = {'R', 'O', 'N', 'D', 'O', 'C', 'K', '1'};
constexpr std::size_t head_bytes = sizeof magic + sizeof(std::uint64_t);
constexpr const char* ending = ".rondo";
constexpr const char* beginning = "checkpoint-";

std::uint32_t checksum(std::uint32_t before, const void* bytes, std::size_t count) {
  return static_cast<std::uint32_t>(crc32_z(before, static_cast<const Bytef*>(bytes), count));
}

/// An AtomicFile that keeps count of the checksum.
class Writer {
 public:
  explicit Writer(const std::string& path) : file_(path) {}
  void write(const void* bytes, std::size_t count) {
    file_.write(bytes, count);
    sum_ = checksum(sum_, bytes, count);
  }
  void finish() {
    file_.write(&sum_, sizeof sum_);
    file_.commit();
  }

 private:
  AtomicFile file_;
  std::uint32_t sum_ = 0;
};

nlohmann::json index_of(const nlohmann::json& state, std::span<const TensorBytes> tensors) {
  nlohmann::json rows = nlohmann::json::array();
  std::size_t offset = 0;
  for (const TensorBytes& tensor : tensors) {
    rows.push_back({{"name", tensor.name},
                    {"type", tensor.type},
                    {"shape", tensor.shape},
                    {"offset", offset},
                    {"bytes", tensor.bytes.size()}});
    offset += tensor.bytes.size();
  }
  return {{"state", state}, {"tensors", rows}};
}

std::string in_words(const std::string& type, const std::vector<std::int64_t>& shape) {
  return type + nlohmann::json(shape).dump();
}

}  // namespace

void write_checkpoint(const std::string& path, const nlohmann::json& state, std::span<const TensorBytes> tensors) {
  const std::string index = index_of(state, tensors).dump();
  const std::uint64_t index_bytes = index.size();
  Writer writer(path);
  writer.write(magic, sizeof magic);
  writer.write(&index_bytes, sizeof index_bytes);
  writer.write(index.data(), index.size());
  for (const TensorBytes& tensor : tensors) writer.write(tensor.bytes.data(), tensor.bytes.size());
  writer.finish();
}

Checkpoint::Checkpoint(std::vector<std::byte> file, const std::string& path) : path_(path), file_(std::move(file)) {
  const auto require = [&](bool good, const char* what) {
    if (!good) throw Error(path_ + " is no whole checkpoint of rondo-train: " + what);
  };
  std::uint32_t sum = 0;
  require(file_.size() >= head_bytes + sizeof sum, "it is too short");
  require(std::memcmp(file_.data(), magic, sizeof magic) == 0, "it begins with other bytes");
  const std::size_t end = file_.size() - sizeof sum;
  std::memcpy(&sum, file_.data() + end, sizeof sum);
  require(checksum(0, file_.data(), end) == sum, "its checksum is wrong");
  std::uint64_t index_bytes = 0;
  std::memcpy(&index_bytes, file_.data() + sizeof magic, sizeof index_bytes);
  require(index_bytes <= end - head_bytes, "its index is too long");
  const auto* text = reinterpret_cast<const char*>(file_.data() + head_bytes);
  const std::span<const std::byte> rest =
      std::span(file_).subspan(head_bytes + index_bytes, end - head_bytes - index_bytes);
  try {
    const nlohmann::json index = nlohmann::json::parse(text, text + index_bytes);
    state_ = index.at("state");
    for (const nlohmann::json& row : index.at("tensors")) {
      const auto offset = row.at("offset").get<std::uint64_t>();
      const auto bytes = row.at("bytes").get<std::uint64_t>();
      require(offset <= rest.size() && bytes <= rest.size() - offset, "a tensor is outside");
      TensorBytes tensor{row.at("name"), row.at("type"), row.at("shape"), rest.subspan(offset, bytes)};
      tensors_.emplace(tensor.name, tensor);
    }
  } catch (const nlohmann::json::exception& error) {
    require(false, error.what());
  }
}

std::span<const std::byte> Checkpoint::tensor(const std::string& name, const std::string& type,
                                              const std::vector<std::int64_t>& shape) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw Error(path_ + " has no tensor '" + name + "': it is of another model or training");
  const TensorBytes& tensor = found->second;
  if (tensor.type != type || tensor.shape != shape) {
    throw Error(path_ + " has '" + name + "' as " + in_words(tensor.type, tensor.shape) + ", and the model wants " +
                in_words(type, shape));
  }
  return tensor.bytes;
}

std::vector<std::byte> read_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<std::byte> bytes;
  if (file) {
    bytes.resize(static_cast<std::size_t>(std::max<std::streamoff>(file.tellg(), 0)));
    file.seekg(0);
    file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  if (!file) throw Error("cannot read " + path + ": " + (errno != 0 ? std::strerror(errno) : "it is no file"));
  return bytes;
}

CheckpointFolder::CheckpointFolder(std::string folder, int keep) : folder_(std::move(folder)), keep_(keep) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw Error("cannot make the folder " + folder_ + ": " + error.message());
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    if (entry.path().filename().string().find(std::string(ending) + ".part-") != std::string::npos) {
      fs::remove(entry.path(), error);
    }
  }
}

void CheckpointFolder::save(std::int64_t step, const nlohmann::json& state, std::span<const TensorBytes> tensors) {
  char name[64];
  std::snprintf(name, sizeof name, "%s%09lld%s", beginning, static_cast<long long>(step), ending);
  write_checkpoint((fs::path(folder_) / name).string(), state, tensors);
  const std::vector<std::string> names = newest_first();
  std::error_code error;
  for (std::size_t i = static_cast<std::size_t>(keep_); i < names.size(); ++i) fs::remove(names[i], error);
}

void CheckpointFolder::save_best(const nlohmann::json& state, std::span<const TensorBytes> tensors) {
  write_checkpoint((fs::path(folder_) / (std::string("best") + ending)).string(), state, tensors);
}

std::vector<std::string> CheckpointFolder::newest_first() const {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(beginning) && name.ends_with(ending)) names.push_back(entry.path().string());
  }
  std::sort(names.rbegin(), names.rend());
  return names;
}

}  // namespace rondo::trainer
