// The reader of sets that lie in memory: no copy, full shape always.
#include "tools/trainer/data/dataset.h"

namespace rondo::data {
namespace {

class ResidentReader final : public Reader {
 public:
  explicit ResidentReader(const ResidentDataset& dataset) : dataset_(dataset) {}
  Shape open(std::size_t index) override {
    index_ = index;
    return dataset_.shape();
  }
  Image pixels(const Shape&) override { return {dataset_.shape(), dataset_.pixels(index_)}; }

 private:
  const ResidentDataset& dataset_;
  std::size_t index_ = 0;
};

}  // namespace

std::unique_ptr<Reader> ResidentDataset::reader() const { return std::make_unique<ResidentReader>(*this); }

}  // namespace rondo::data
