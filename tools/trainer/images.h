// The images of a training: the two sets, and loaders over this rank's share of them.  Knows no torch.
#pragma once

#include <memory>

#include "tools/trainer/data/loader.h"
#include "tools/trainer/options.h"

namespace rondo::trainer {

class Images {
 public:
  /// Opens both sets.  Throws data::DataError.
  Images(const Options& options, int rank, int ranks);

  /// Of the training set; this rank's share is the same number of images on every rank.
  std::unique_ptr<data::Loader> training(data::Place start) const;
  /// Of the test set: every image once over all ranks.
  std::unique_ptr<data::Loader> test() const;

  std::size_t training_count() const { return sampler_->count(); }  // of this rank, an epoch
  int classes() const { return training_set_->classes(); }
  int size() const { return size_; }  // height and width
  data::Normalisation normalisation() const { return training_set_->normalisation(); }
  const std::string& name() const { return name_; }

 private:
  data::Loading loading(const data::Dataset& set, data::Split split) const;

  Options options_;
  std::unique_ptr<data::Dataset> training_set_, test_set_;
  std::string name_;
  int size_ = 0;
  std::unique_ptr<data::Sampler> sampler_, test_sampler_;
};

}  // namespace rondo::trainer
