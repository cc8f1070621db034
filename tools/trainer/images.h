// The images of a training: the two sets, and loaders over this rank's share of them.  Knows no torch.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "tools/trainer/data/loader.h"
#include "tools/trainer/feed.h"
#include "tools/trainer/options.h"

namespace rondo::trainer {

class Images {
 public:
  /// Opens both sets.  Throws data::DataError.
  Images(const Options& options, int rank, int ranks);

  /// Of the training set; this rank's share is the same number of images on every rank but with --join, its part of
  /// rank 0's with Parallel::dp.  `position` of its images in `epoch` are done.
  std::unique_ptr<Feed> training(std::uint64_t epoch, std::size_t position, Team& team) const;
  /// Of the training set, from its start, without those that don't fill a batch.  Not with Parallel::dp.
  std::unique_ptr<Feed> whole_batches() const;
  /// Of the test set: every image once over all ranks.
  std::unique_ptr<Feed> test() const;

  /// Where batches lie from now on.
  void set_memory(std::function<data::Memory(std::size_t bytes)> allocate) { allocate_ = std::move(allocate); }

  std::size_t training_count() const;      // of this rank, an epoch
  std::size_t training_count_max() const;  // of the rank that has most: another number only with --join
  int classes() const { return training_set_->classes(); }
  int size() const { return size_; }  // height and width
  data::Normalisation normalisation() const { return training_set_->normalisation(); }
  const std::string& name() const { return name_; }

 private:
  data::Loading loading(const data::Dataset& set, data::Split split) const;

  bool scattered() const { return options_.parallel == Parallel::dp; }

  Options options_;
  std::function<data::Memory(std::size_t bytes)> allocate_;
  int ranks_;
  std::unique_ptr<data::Dataset> training_set_, test_set_;
  std::string name_;
  int size_ = 0;
  std::unique_ptr<data::Sampler> sampler_, test_sampler_;
};

}  // namespace rondo::trainer
