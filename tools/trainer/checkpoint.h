// Checkpoints: a file of named tensors and a JSON object, and the folder that keeps the last few and the best.  Knows
// no torch.
//
// The file: "RONDOCK1"; the bytes of the index (8, little-endian); the index, a JSON object {"state": ..., "tensors":
// [{"name", "type", "shape", "offset", "bytes"}]}; the tensors, rows first, offsets from the index's end; CRC-32 (4) of
// all that.  It appears whole or not at all (base/atomic_file.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rondo::trainer {

struct TensorBytes {
  std::string name;
  std::string type;  // as torch names it: "Float"
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Throws std::runtime_error with a sentence; an older file of that name is then untouched.
void write_checkpoint(const std::string& path, const nlohmann::json& state, std::span<const TensorBytes> tensors);

class Checkpoint {
 public:
  /// From a file's bytes; `path` is for sentences.  Throws Error if they are not a whole checkpoint.
  Checkpoint(std::vector<std::byte> file, const std::string& path);

  const nlohmann::json& state() const { return state_; }
  /// Throws Error if there is none of that name, type and shape.  The checkpoint's own memory.
  std::span<const std::byte> tensor(const std::string& name, const std::string& type,
                                    const std::vector<std::int64_t>& shape) const;
  bool has(const std::string& name) const { return tensors_.contains(name); }

 private:
  std::string path_;
  std::vector<std::byte> file_;
  nlohmann::json state_;
  std::map<std::string, TensorBytes> tensors_;
};

/// A file's bytes.  Throws Error.
std::vector<std::byte> read_file(const std::string& path);

/// DIR/checkpoint-000000123.rondo for the last `keep` steps saved, DIR/best.rondo.
class CheckpointFolder {
 public:
  /// Made if it isn't there; half-written files of runs that were killed go.
  CheckpointFolder(std::string folder, int keep);
  void save(std::int64_t step, const nlohmann::json& state, std::span<const TensorBytes> tensors);
  void save_best(const nlohmann::json& state, std::span<const TensorBytes> tensors);
  /// Of the last step, the next one before it, ...
  std::vector<std::string> newest_first() const;

 private:
  std::string folder_;
  int keep_;
};

}  // namespace rondo::trainer
