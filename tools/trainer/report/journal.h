// Scalars by step, written as a run goes: as JSON lines, as CSV, and as TensorBoard's event files.  Each row is in the
// file when write() returns.  What can't be written throws std::runtime_error with a sentence that names the file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rondo::report {

struct Row {
  std::uint64_t step = 0;
  double epoch = 0;
  /// Names in TensorBoard's manner, kind before split: {"loss/train", 1.23}, {"accuracy/test", 0.91}.
  std::vector<std::pair<std::string, double>> values;
};

class Journal {
 public:
  virtual ~Journal() = default;
  virtual void write(const Row& row) = 0;
};

/// `resume`: the step of the checkpoint that a run goes on from.  The file's rows up to that step stay, later ones and
/// a half last line go, and new ones follow.  Without it, an old file is replaced.
///
/// One object a line: {"step":7,"epoch":0.1,"time":1700000000.5,"loss/train":1.23}; what isn't finite is null.
std::unique_ptr<Journal> json_lines(const std::string& path, std::optional<std::uint64_t> resume = {});

/// "step,epoch," and `columns`; a row without a value leaves its column empty, and values of other names are left out.
/// Throws if the file to go on with has other columns.
std::unique_ptr<Journal> csv(const std::string& path, const std::vector<std::string>& columns,
                             std::optional<std::uint64_t> resume = {});

/// A new events.out.tfevents.* file in `folder` (made if need be); TensorBoard itself drops what a later file repeats.
std::unique_ptr<Journal> tensorboard(const std::string& folder);

}  // namespace rondo::report
