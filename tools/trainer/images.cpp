// The images of a training: see images.h.
#include "tools/trainer/images.h"

#include <algorithm>

#include "tools/trainer/data/open.h"

namespace rondo::trainer {
namespace {

constexpr int usual_size = 224;

data::Sampling sampling(const data::Dataset& set, std::int64_t wanted, int rank, int ranks) {
  data::Sampling result;
  result.size = wanted > 0 ? std::min(static_cast<std::size_t>(wanted), set.size()) : set.size();
  result.rank = rank;
  result.ranks = ranks;
  return result;
}

}  // namespace

Images::Images(const Options& options, int rank, int ranks) : options_(options), ranks_(ranks) {
  data::Source source;
  source.kind = options_.data;
  source.path = options_.data_path;
  source.seed = options_.seed;
  if (options_.image > 0) source.image = options_.image;
  training_set_ = data::open_dataset(source);
  source.split = data::Split::test;
  test_set_ = data::open_dataset(source);
  const int channels = training_set_->shape().channels;
  const int test_channels = test_set_->shape().channels;
  if (channels != test_channels) {
    throw data::DataError("images to train with have " + std::to_string(channels) + " channels, those to test with " +
                          std::to_string(test_channels) + ": they are of different sets");
  }
  if (training_set_->classes() != test_set_->classes()) {
    throw data::DataError("images to train with are of " + std::to_string(training_set_->classes()) +
                          " classes, those to test with of " + std::to_string(test_set_->classes()) +
                          ": they are of different sets");
  }
  name_ = training_set_->name();
  const int own_size = training_set_->shape().height;
  size_ = options_.image > 0 ? options_.image : own_size > 0 ? own_size : usual_size;

  // With dp rank 0 loads for all.
  data::Sampling training =
      sampling(*training_set_, options_.train_count, scattered() ? 0 : rank, scattered() ? 1 : ranks);
  training.seed = options_.seed;
  training.uneven = options_.drop_last ? data::Uneven::drop : options_.join ? data::Uneven::exact : data::Uneven::pad;
  if (options_.join && training.size < static_cast<std::size_t>(ranks)) {
    throw data::DataError(std::to_string(training.size) + " images for " + std::to_string(ranks) +
                          " ranks: each needs one, also with --join");
  }
  sampler_ = std::make_unique<data::Sampler>(training);
  const bool alone = options_.parallel == Parallel::none && !options_.evaluate_only;
  data::Sampling test = sampling(*test_set_, options_.test_count, alone ? 0 : rank, alone ? 1 : ranks);
  test.shuffle = false;
  test.uneven = data::Uneven::exact;
  test_sampler_ = std::make_unique<data::Sampler>(test);
}

data::Loading Images::loading(const data::Dataset& set, data::Split split) const {
  data::Loading result;
  result.batch = static_cast<std::size_t>(options_.batch);
  result.workers = options_.workers;
  result.augmentation = data::usual_augmentation(set, split, size_);
  result.seed = options_.seed;
  result.allocate = allocate_;
  return result;
}

std::size_t Images::training_count() const {
  if (!scattered()) return sampler_->count();
  const auto batch = static_cast<std::size_t>(options_.batch);
  const std::size_t count = sampler_->count() / (batch * static_cast<std::size_t>(ranks_)) * batch;
  if (count == 0) throw data::DataError("there are fewer images than one batch of all replicas");
  return count;
}

std::size_t Images::training_count_max() const {
  if (!options_.join) return training_count();
  const data::Sampling& sampling = sampler_->sampling();
  const auto ranks = static_cast<std::size_t>(ranks_);
  return (sampling.size + ranks - 1) / ranks;
}

std::unique_ptr<Feed> Images::training(std::uint64_t epoch, std::size_t position, Team& team) const {
  data::Loading how = loading(*training_set_, data::Split::training);
  if (!scattered()) {
    return own_feed(std::make_unique<data::Loader>(*training_set_, *sampler_, how, data::Place{epoch, position}));
  }
  std::unique_ptr<data::Loader> whole;
  const auto ranks = static_cast<std::size_t>(ranks_);
  if (team.rank() == 0) {
    how.batch *= ranks;
    how.whole_batches = true;
    whole = std::make_unique<data::Loader>(*training_set_, *sampler_, how, data::Place{epoch, position * ranks});
  }
  const data::Shape shape{size_, size_, static_cast<int>(normalisation().mean.size())};
  return scattered_feed(std::move(whole), team, static_cast<std::size_t>(options_.batch), shape);
}

std::unique_ptr<Feed> Images::whole_batches() const {
  if (sampler_->count() < static_cast<std::size_t>(options_.batch)) {
    throw data::DataError("a rank has " + std::to_string(sampler_->count()) + " images, less than a batch (" +
                          std::to_string(options_.batch) + "): take a smaller --batch-size");
  }
  data::Loading whole = loading(*training_set_, data::Split::training);
  whole.whole_batches = true;
  return own_feed(std::make_unique<data::Loader>(*training_set_, *sampler_, whole));
}

std::unique_ptr<Feed> Images::test() const {
  data::Loading once = loading(*test_set_, data::Split::test);
  once.epochs_end = 1;
  return own_feed(std::make_unique<data::Loader>(*test_set_, *test_sampler_, once));
}

}  // namespace rondo::trainer
