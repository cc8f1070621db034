// Batches of a loader, and parts of rank 0's: see feed.h.
#include "tools/trainer/feed.h"

#include <cstdint>
#include <vector>

namespace rondo::trainer {
namespace {

class OwnFeed final : public Feed {
 public:
  explicit OwnFeed(std::unique_ptr<data::Loader> loader) : loader_(std::move(loader)) {}
  const data::Batch* next() override { return loader_->next(); }

 private:
  std::unique_ptr<data::Loader> loader_;
};

class ScatteredFeed final : public Feed {
 public:
  ScatteredFeed(std::unique_ptr<data::Loader> whole, Team& team, std::size_t batch, const data::Shape& shape)
      : whole_(std::move(whole)), team_(team), pixels_(batch * shape.bytes()), labels_(batch) {
    batch_.pixels = pixels_.data();
    batch_.labels = labels_.data();
    batch_.count = batch;
    batch_.shape = shape;
  }

  const data::Batch* next() override {
    const data::Batch* whole = whole_ ? whole_->next() : nullptr;
    team_.scatter(whole != nullptr ? whole->pixels : nullptr, pixels_.data(), pixels_.size());
    team_.scatter(whole != nullptr ? whole->labels : nullptr, labels_.data(), labels_.size() * sizeof(std::int64_t));
    return &batch_;
  }

 private:
  std::unique_ptr<data::Loader> whole_;
  Team& team_;
  std::vector<std::uint8_t> pixels_;
  std::vector<std::int64_t> labels_;
  data::Batch batch_;
};

}  // namespace

std::unique_ptr<Feed> own_feed(std::unique_ptr<data::Loader> loader) {
  return std::make_unique<OwnFeed>(std::move(loader));
}

std::unique_ptr<Feed> scattered_feed(std::unique_ptr<data::Loader> whole, Team& team, std::size_t batch,
                                     const data::Shape& shape) {
  return std::make_unique<ScatteredFeed>(std::move(whole), team, batch, shape);
}

}  // namespace rondo::trainer
